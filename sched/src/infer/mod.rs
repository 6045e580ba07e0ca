//! Which bytes the kernels of a graph write, found by running them.
//!
//! A pointer among a kernel's parameters says that it may touch memory, and no
//! more. [`infer_writes`] runs each kernel of an [`Audit`] by itself, as a graph
//! of one node with the parameters and attributes that were read back, and looks
//! at which bytes of the known memory change.
//!
//! # What is guaranteed
//! - **A write that is reported was observed**: nothing else ran, and the byte
//!   was different afterwards. Two observed writes of one byte on unordered
//!   nodes are a proven hazard.
//! - **A write that is not reported may happen all the same**: with other
//!   values, or of the value that was there. The access stays possible, and is
//!   never called a read.
//! - Whether a kernel writes with atomic operations is not seen. Two kernels
//!   that add to one counter atomically are reported as two that write it.
//! - All known memory is restored before every trial and after the last one.
//! - Values are changed only where neither the old nor the new one looks like an
//!   index or an address: first in what a trial saw written, then in each block
//!   that the kernel has an address of, one at a time, since what an earlier run
//!   left is written again unseen. The patterns are small positive numbers in
//!   every floating-point format. Indices and pointers are never touched.
//! - What cannot be tried is named: see [`Outcome::NotInferred`].
//!
//! # The child process
//! A kernel may hang or fault in a trial, and a fault takes the context with it.
//! Kernels of libraries exist only in a process that has loaded them, so the
//! trials are made by this very program, started again with the same arguments
//! and the variable [`CHILD`]: it runs up to the same call, makes the trials
//! there, writes down what it saw and exits. The parent waits with a watchdog,
//! ends a child that hangs, notes the node and starts another one without it.
//! Results name nodes by place, function and shape and bytes by block, since
//! addresses differ between processes; a child that has another graph is an
//! error. The program must therefore reach the call the same way each time, and
//! what it does before the call is done again.

mod marks;
mod refuse;
mod trial;
mod watch;
mod wire;

use std::time::Duration;

use streamweir_trace::{Access, AccessMode, BufferId, ByteRange, NodeId, NodeKind};

use crate::audit::Audit;
use crate::device::Device;
use crate::error::{Error, Result};

pub use watch::{CHILD, Watchdog};

/// The most runs of bytes that are kept of one block and kernel; the longest
/// ones. Dropping some proves less, and nothing wrong.
const MOST_RUNS: usize = 1024;

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

/// Looks for the writes of every kernel of `audit` whose accesses are not
/// declared.
///
/// In a child of another call this returns what that call found before.
///
/// # Errors
/// When known memory is larger than allowed, the driver fails, the child cannot
/// be started, does not reach this call, or has another graph there.
///
/// # Safety
/// The graph that was audited is live, and so is all that its kernels use.
/// Nothing else runs on the device's memory meanwhile. With
/// [`Isolation::Here`], kernels write no memory that the audit does not know,
/// unless nobody minds.
pub unsafe fn infer_writes(
    device: &Device,
    audit: &Audit,
    options: &InferOptions,
) -> Result<Inference> {
    device.inner.outside("infer_writes")?;
    match options.isolation {
        // SAFETY: the caller's promise.
        Isolation::Here => unsafe { trial::run(device, audit, options, &[], &mut |_| Ok(())) },
        // SAFETY: the caller's promise.
        Isolation::Child => unsafe { wire::in_child(device, audit, options) },
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
