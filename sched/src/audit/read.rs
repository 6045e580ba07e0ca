//! A graph and its child graphs, as plain data.
//!
//! This is the one part of an audit that touches the driver's graph; all that
//! follows works on what it returns.

use streamweir_hal::driver::{GraphEdge, GraphHandle, NodeHandle};
use streamweir_hal::owned::{GraphView, Shared, node_attributes};
use streamweir_trace::{BlockSync, NodeKind};

use crate::error::{During, Error, Result};

/// How deep child graphs may be nested before an audit gives up.
const DEEPEST: usize = 32;

/// A graph as the driver has it.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) nodes: Vec<LiveNode>,
    pub(super) edges: Vec<GraphEdge>,
}

#[derive(Debug)]
pub(super) struct LiveNode {
    pub(super) handle: NodeHandle,
    pub(super) kind: NodeKind,
    /// Whether kernels may change the node on the device.
    pub(super) updatable: bool,
    pub(super) child: Option<Live>,
}

/// Reads a graph.
///
/// # Safety
/// The graph is live and nobody changes it meanwhile.
pub(super) unsafe fn read(reclaim: &Shared, graph: GraphHandle) -> Result<Live> {
    // SAFETY: the caller's promise.
    read_at(reclaim, unsafe { GraphView::of_capture(reclaim, graph) }, 0)
}

fn read_at(reclaim: &Shared, view: GraphView<'_>, depth: usize) -> Result<Live> {
    if depth > DEEPEST {
        return Err(Error::TooDeep { levels: DEEPEST });
    }
    let mut live = Live {
        nodes: Vec::new(),
        edges: view.edges().during(|| "reading edges".into())?,
    };
    for handle in view.nodes().during(|| "listing nodes".into())? {
        let what = || format!("reading node {handle:?}");
        // SAFETY: a node of this graph.
        let mut kind = unsafe { view.node(handle) }.during(what)?;
        let (mut updatable, mut child) = (false, None);
        match &mut kind {
            NodeKind::Kernel(kernel) => {
                // SAFETY: as above.
                let attributes = unsafe { node_attributes(reclaim, handle) }.during(what)?;
                updatable = attributes.device_updatable;
                if attributes.cooperative {
                    kernel.sync = BlockSync::Cooperative;
                }
            }
            NodeKind::ChildGraph => {
                // SAFETY: as above.
                let graph = unsafe { view.child(handle) }.during(what)?;
                child = Some(read_at(reclaim, graph, depth + 1)?);
            }
            _ => {}
        }
        live.nodes.push(LiveNode {
            handle,
            kind,
            updatable,
            child,
        });
    }
    Ok(live)
}
