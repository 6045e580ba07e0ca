//! Graphs and what is instantiated from them.

use std::any::Any;

use streamweir_trace::NodeKind;

use super::{Garbage, Relaxed, Shared};
use crate::driver::{
    DriverResult, ExecHandle, GraphEdge, GraphHandle, KernelAttributes, NodeHandle,
};

/// A graph that capture has made, ours to destroy.
pub(crate) struct OwnedGraph {
    reclaim: Shared,
    handle: GraphHandle,
}

impl OwnedGraph {
    /// Takes over a graph.
    ///
    /// # Safety
    /// The handle is live and nobody else destroys it.
    pub(crate) unsafe fn from_handle(reclaim: &Shared, handle: GraphHandle) -> Self {
        Self {
            reclaim: reclaim.clone(),
            handle,
        }
    }

    /// A graph of one node that launches what a kernel node of some graph does.
    ///
    /// # Safety
    /// The node is one of a live graph.
    pub(crate) unsafe fn alone(reclaim: &Shared, node: NodeHandle) -> DriverResult<Self> {
        // SAFETY: the caller's promise.
        let handle = unsafe { reclaim.driver().graph_alone(node) }?;
        // SAFETY: the driver has just given the graph to its caller.
        Ok(unsafe { Self::from_handle(reclaim, handle) })
    }

    pub(crate) fn instantiate(&self) -> DriverResult<OwnedExec> {
        // Another thread's capture in global mode would be broken otherwise.
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: the handle is live, for we own it.
        let handle = unsafe { self.reclaim.driver().graph_instantiate(self.handle) }?;
        Ok(OwnedExec {
            reclaim: self.reclaim.clone(),
            handle,
        })
    }

    /// Adds a node that does what `other` does, after nodes of this graph.
    pub(crate) fn then(&self, after: &[NodeHandle], other: &Self) -> DriverResult<NodeHandle> {
        // SAFETY: both graphs are live, for they are owned, and nobody else adds
        // to a graph that is not a capture's any more.
        unsafe {
            self.reclaim
                .driver()
                .graph_add_child(self.handle, after, other.handle)
        }
    }

    pub(crate) fn view(&self) -> GraphView<'_> {
        GraphView {
            reclaim: &self.reclaim,
            handle: self.handle,
        }
    }
}

impl Drop for OwnedGraph {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Graph(self.handle));
    }
}

/// A graph that may be read: ours, or one under construction.
#[derive(Clone, Copy)]
pub(crate) struct GraphView<'a> {
    reclaim: &'a Shared,
    handle: GraphHandle,
}

impl<'a> GraphView<'a> {
    /// A view of a graph that belongs to a capture in progress.
    ///
    /// # Safety
    /// The handle stays live while the view is used.
    pub(crate) unsafe fn of_capture(reclaim: &'a Shared, handle: GraphHandle) -> Self {
        Self { reclaim, handle }
    }

    pub(crate) fn nodes(&self) -> DriverResult<Vec<NodeHandle>> {
        // SAFETY: a view exists only while its graph is live.
        unsafe { self.reclaim.driver().graph_nodes(self.handle) }
    }

    pub(crate) fn edges(&self) -> DriverResult<Vec<GraphEdge>> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_edges(self.handle) }
    }

    /// What a node does. `node` must have come from [`nodes`](Self::nodes).
    pub(crate) fn node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        // SAFETY: the node is of this live graph, and capture removes none.
        unsafe { self.reclaim.driver().graph_node(node) }
    }

    /// How a kernel node of this graph is launched.
    pub(crate) fn attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_attributes(node) }
    }

    /// The graph of a child graph node of this graph. It lives as long.
    pub(crate) fn child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_child(node) }
    }

    pub(crate) fn retain(&self, keep: Box<dyn Any + Send + Sync>) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_retain(self.handle, keep) }
    }
}

/// An instantiated graph.
pub(crate) struct OwnedExec {
    reclaim: Shared,
    handle: ExecHandle,
}

impl OwnedExec {
    /// Lets a kernel, a copy or a fill do nothing in later launches, or again what it
    /// did.
    ///
    /// # Safety
    /// `node` is of the graph that this comes from, which is live, and nobody else
    /// uses this meanwhile.
    pub(crate) unsafe fn enable(&self, node: NodeHandle, enabled: bool) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .exec_enable(self.handle, node, enabled)
        }
    }

    pub(crate) fn handle(&self) -> ExecHandle {
        self.handle
    }
}

impl Drop for OwnedExec {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Exec(self.handle));
    }
}
