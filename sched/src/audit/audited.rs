//! What an audit has come to.

use streamweir_hal::driver::NodeHandle;
use streamweir_trace::{BufferId, NodeId, Trace};
use streamweir_verify::{Options, Report, verify_with};

use crate::error::{Error, Result};

/// A live graph as a trace, with the driver's handle of each node.
#[derive(Debug)]
#[non_exhaustive]
pub struct Audit {
    pub(crate) trace: Trace,
    /// For each node of the trace the driver's; `None` for the entry and the
    /// exit of a child graph.
    pub(crate) handles: Vec<Option<NodeHandle>>,
    /// The buffers that exist outside a replay and so can be read and restored.
    pub(crate) standing: Vec<BufferId>,
}

impl Audit {
    /// The trace: reports, drawings and files are made of it.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The driver's handle of a node; `None` for the entry and the exit of a
    /// child graph.
    pub fn handle(&self, node: NodeId) -> Option<NodeHandle> {
        self.handles.get(node.index()).copied().flatten()
    }

    /// Checks the trace against every rule.
    ///
    /// # Errors
    /// When the graph has a cycle or is too wide to be ordered in memory.
    pub fn verify(&self, options: &Options) -> Result<Report> {
        verify_with(&self.trace, options).map_err(|source| Error::Unverifiable {
            capture: self.trace.name.clone(),
            source,
        })
    }
}
