//! What the tables of the device hold: streams and events, captures, graphs and
//! their nodes, instantiated graphs, modules. Plain values; what is done with them
//! is in the files that use this one.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::ThreadId;

use super::schedule::TaskId;
use super::work::Work;
use crate::driver::{CaptureMode, FunctionHandle, GraphHandle, NodeHandle, StreamHandle};

/// A stream: the work that its next piece of work comes after.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) tail: Vec<TaskId>,
    pub(super) capture: Option<Membership>,
}

/// What an event recorded last.
#[derive(Clone, Debug, Default)]
pub(super) enum Event {
    #[default]
    Unrecorded,
    Recorded {
        tail: Vec<TaskId>,
        /// What the clock said, if there is one.
        at: u64,
    },
    Captured {
        capture: u64,
        frontier: Vec<NodeHandle>,
    },
}

/// A capture in progress.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) graph: GraphHandle,
    pub(super) origin: StreamHandle,
    pub(super) mode: CaptureMode,
    pub(super) thread: ThreadId,
    pub(super) invalidated: bool,
}

/// A stream's part in a capture.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) capture: u64,
    /// What the stream's next node depends on.
    pub(super) frontier: Vec<NodeHandle>,
}

/// What lives as long as a graph and its copies.
pub(super) type Keep = Arc<dyn Any + Send + Sync>;

/// A graph: nodes in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Under construction; it belongs to its capture.
    pub(super) capturing: bool,
    pub(super) nodes: Vec<NodeHandle>,
    pub(super) keep: Vec<Keep>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) work: Work,
    pub(super) after: Vec<NodeHandle>,
}

/// An instantiated graph.
#[derive(Debug)]
pub(super) struct Exec {
    pub(super) image: Arc<Image>,
    /// Nodes that do nothing.
    pub(super) disabled: BTreeSet<NodeHandle>,
    /// The last work of the latest launch; the next launch comes after it.
    pub(super) last: Vec<TaskId>,
}

/// The copy of a graph that is launched.
pub(super) struct Image {
    pub(super) nodes: Vec<ImageNode>,
    pub(super) _keep: Vec<Keep>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} nodes)", self.nodes.len())
    }
}

pub(super) struct ImageNode {
    pub(super) handle: NodeHandle,
    pub(super) work: Work,
    /// Positions of the nodes before it.
    pub(super) after: Vec<usize>,
    pub(super) is_leaf: bool,
}

impl ImageNode {
    pub(super) fn new(handle: NodeHandle, work: Work, after: Vec<usize>) -> Self {
        Self {
            handle,
            work,
            after,
            is_leaf: false,
        }
    }
}

impl Graph {
    /// A graph without nodes that keeps what another one keeps.
    pub(super) fn kept(keep: Vec<Keep>) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    pub(super) fn nodes(&self) -> &[NodeHandle] {
        &self.nodes
    }

    pub(super) fn keep(&self) -> &[Keep] {
        &self.keep
    }

    pub(super) fn capturing() -> Self {
        Self {
            capturing: true,
            ..Self::default()
        }
    }

    /// The nodes that no other node comes after.
    pub(super) fn leaves(&self, nodes: &BTreeMap<NodeHandle, Node>) -> Vec<NodeHandle> {
        let followed: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|node| nodes.get(node))
            .flat_map(|node| &node.after)
            .collect();
        self.nodes
            .iter()
            .filter(|node| !followed.contains(node))
            .copied()
            .collect()
    }
}

impl Node {
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    pub(super) fn after(&self) -> &[NodeHandle] {
        &self.after
    }

    pub(super) fn kind(&self) -> streamweir_trace::NodeKind {
        self.work.kind()
    }
}

/// One node of a graph, for an exploration.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(super) struct Task {
    pub(super) work: Work,
    /// Positions of the nodes before it, all smaller than its own.
    pub(super) after: Vec<usize>,
}

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) functions: Vec<FunctionHandle>,
}
