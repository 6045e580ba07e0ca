//! How writes are looked for, and what was found.

use std::time::Duration;

use streamweir_trace::{Access, AccessMode, BufferId, ByteRange, NodeId, NodeKind};

use super::watch::Watchdog;
use crate::audit::Audit;
use crate::error::{Error, Result};

/// The most runs of bytes that are kept of one block and kernel; the longest
/// ones. Dropping some proves less, and nothing wrong.
pub(super) const MOST_RUNS: usize = 1024;

/// Where trials run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// In this program, started again. The parent is untouched whatever a
    /// kernel does.
    #[default]
    Child,
    /// In this process. A kernel that faults breaks the device, and one that
    /// hangs hangs the caller. For simulated devices, whose kernels exist in one
    /// process alone.
    Here,
}

/// How writes are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferOptions {
    /// Where trials run.
    pub isolation: Isolation,
    /// The most bytes of known memory that are saved and restored.
    pub most_bytes: u64,
    /// When a child is given up.
    pub watchdog: Watchdog,
}

impl Default for InferOptions {
    /// In a child, at most 1 GiB, 10 seconds a node.
    fn default() -> Self {
        Self {
            isolation: Isolation::Child,
            most_bytes: 1 << 30,
            watchdog: Watchdog {
                start: Duration::from_secs(120),
                node: Duration::from_secs(10),
                restarts: 8,
            },
        }
    }
}

/// What was found out about one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes that were seen to change, by buffer, in runs; none is no proof
    /// of anything.
    Written(Vec<(BufferId, ByteRange)>),
    /// No trial was made, or none that counts, and why.
    NotInferred(String),
}

/// What was found out about the kernels of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inference {
    /// The kernels in the order of the trace.
    pub nodes: Vec<(NodeId, Outcome)>,
}

impl Inference {
    /// The kernels of which nothing was inferred, and why.
    pub fn not_inferred(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.nodes
            .iter()
            .filter_map(|(node, outcome)| match outcome {
                Outcome::NotInferred(why) => Some((*node, why.as_str())),
                Outcome::Written(_) => None,
            })
    }
}

impl Audit {
    /// Adds the writes that were seen to the trace, and what was not looked at
    /// to its assumptions.
    ///
    /// # Errors
    /// When the inference is of another graph.
    pub fn add_writes(&mut self, inference: &Inference) -> Result<()> {
        let mut missing = Vec::new();
        for (id, outcome) in &inference.nodes {
            let node = self.trace.nodes.get(id.index());
            let Some(node) = node.filter(|node| matches!(node.kind, NodeKind::Kernel(_))) else {
                return Err(self.other_graph(format!("{id} is no kernel")));
            };
            match outcome {
                Outcome::NotInferred(why) => {
                    missing.push(format!("{id} `{}`: {why}", node.name));
                }
                Outcome::Written(runs) => {
                    for &(buffer, bytes) in runs {
                        let held = self.trace.buffers.get(buffer.index());
                        if held.is_none_or(|held| bytes.end > held.range.len()) {
                            return Err(self.other_graph(format!("{buffer} has no {bytes}")));
                        }
                        let access = Access::new(*id, buffer, bytes, AccessMode::Write);
                        self.trace.add_access(access);
                    }
                }
            }
        }
        self.trace.assumptions.extend(
            missing
                .into_iter()
                .map(|line| format!("no write was looked for in {line}")),
        );
        Ok(())
    }

    pub(crate) fn other_graph(&self, what: String) -> Error {
        Error::Infer {
            capture: self.trace.name.clone(),
            why: format!("{what}; what was inferred is about another graph"),
        }
    }
}
