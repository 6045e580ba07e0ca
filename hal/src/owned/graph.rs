//! Graphs and what is instantiated from them.

use std::any::Any;

use streamweir_trace::NodeKind;

use super::reclaim::{Garbage, Reclaim, Relaxed, Shared};
use crate::driver::{
    DriverResult, ExecHandle, GraphEdge, GraphHandle, KernelAttributes, NodeHandle,
};

/// A graph that capture has made, ours to destroy.
#[derive(Debug)]
pub struct OwnedGraph {
    reclaim: Shared,
    handle: GraphHandle,
}

impl OwnedGraph {
    /// Takes over a graph.
    ///
    /// # Safety
    /// The handle is a live graph of that driver, and nobody else destroys it.
    pub(super) unsafe fn from_handle(reclaim: &Shared, handle: GraphHandle) -> Self {
        Self {
            reclaim: reclaim.clone(),
            handle,
        }
    }

    /// A graph of one node that does what this node of some graph does: the launch of
    /// a kernel, or a fill.
    ///
    /// # Errors
    /// When the node does something else.
    ///
    /// # Safety
    /// The node is one of a live graph of the device.
    pub unsafe fn alone(reclaim: &Shared, node: NodeHandle) -> DriverResult<Self> {
        // SAFETY: the caller's promise.
        let handle = unsafe { reclaim.driver().graph_alone(node) }?;
        // SAFETY: the driver has just given the graph to its caller.
        Ok(unsafe { Self::from_handle(reclaim, handle) })
    }

    /// Instantiates the graph.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn instantiate(&self) -> DriverResult<OwnedExec> {
        // Another thread's capture in global mode would be broken otherwise.
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: the handle is live, for we own it.
        let handle = unsafe { self.reclaim.driver().graph_instantiate(self.handle) }?;
        Ok(OwnedExec {
            reclaim: self.reclaim.clone(),
            handle,
        })
    }

    /// The driver's handle, live as long as this is.
    pub fn handle(&self) -> GraphHandle {
        self.handle
    }

    /// Adds a node that does what `other` does, after nodes of this graph.
    ///
    /// # Errors
    /// When the driver refuses, or the other graph is of another device.
    ///
    /// # Safety
    /// `after` are nodes of this graph.
    pub unsafe fn then(&mut self, after: &[NodeHandle], other: &Self) -> DriverResult<NodeHandle> {
        self.reclaim.same(&other.reclaim, "graph_add_child")?;
        // SAFETY: both graphs are live, for they are owned; the exclusive borrow
        // keeps others from adding; the nodes are the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .graph_add_child(self.handle, after, other.handle)
        }
    }

    /// The graph, to be read.
    pub fn view(&self) -> GraphView<'_> {
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
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a> {
    reclaim: &'a Shared,
    handle: GraphHandle,
}

impl<'a> GraphView<'a> {
    /// A view of a graph that belongs to somebody else: to a capture in progress, or
    /// to an engine.
    ///
    /// # Safety
    /// The handle is a graph of the device, and stays live while the view is used.
    pub unsafe fn of_capture(reclaim: &'a Shared, handle: GraphHandle) -> Self {
        Self { reclaim, handle }
    }

    /// The nodes, in the driver's order.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn nodes(&self) -> DriverResult<Vec<NodeHandle>> {
        // SAFETY: a view exists only while its graph is live.
        unsafe { self.reclaim.driver().graph_nodes(self.handle) }
    }

    /// The edges.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn edges(&self) -> DriverResult<Vec<GraphEdge>> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_edges(self.handle) }
    }

    /// What a node does.
    ///
    /// # Errors
    /// When the driver cannot tell.
    ///
    /// # Safety
    /// `node` came from [`nodes`](Self::nodes).
    pub unsafe fn node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        // SAFETY: the node is of this live graph, by the caller's promise, and
        // capture removes none.
        unsafe { self.reclaim.driver().graph_node(node) }
    }

    /// The graph that a child graph node replays.
    ///
    /// # Errors
    /// When the node is of another kind.
    ///
    /// # Safety
    /// As for [`node`](Self::node).
    pub unsafe fn child(&self, node: NodeHandle) -> DriverResult<Self> {
        // SAFETY: as above.
        let handle = unsafe { self.reclaim.driver().graph_child(node) }?;
        // A child graph belongs to its node, and so lives as long as this one.
        Ok(Self { handle, ..*self })
    }

    /// Ties `keep` to the life of the graph and of everything instantiated from it.
    /// It may be dropped on a thread of the driver, where no driver call is allowed.
    ///
    /// # Errors
    /// When the driver refuses; then `keep` has been dropped.
    pub fn retain(&self, keep: Box<dyn Any + Send + Sync>) -> DriverResult<()> {
        // SAFETY: as above.
        unsafe { self.reclaim.driver().graph_retain(self.handle, keep) }
    }
}

/// How a kernel node is launched, beyond its shape.
///
/// # Errors
/// When the node is of another kind.
///
/// # Safety
/// The node is one of a live graph of the device.
pub unsafe fn node_attributes(
    reclaim: &Shared,
    node: NodeHandle,
) -> DriverResult<KernelAttributes> {
    // SAFETY: the caller's promise.
    unsafe { reclaim.driver().graph_attributes(node) }
}

/// An instantiated graph.
#[derive(Debug)]
pub struct OwnedExec {
    reclaim: Shared,
    handle: ExecHandle,
}

impl OwnedExec {
    /// Lets a kernel, a copy or a fill do nothing in later launches, or again what it
    /// did.
    ///
    /// # Errors
    /// When the node does something else.
    ///
    /// # Safety
    /// `node` is of the graph that this comes from, which is live, and nobody else
    /// uses this meanwhile.
    pub unsafe fn enable(&self, node: NodeHandle, enabled: bool) -> DriverResult<()> {
        // SAFETY: the handle is live; the rest is the caller's promise.
        unsafe {
            self.reclaim
                .driver()
                .exec_enable(self.handle, node, enabled)
        }
    }

    /// Makes it do in later launches what `graph` does, which differs in operands alone.
    /// Launches in flight do what they did.
    ///
    /// # Errors
    /// When they differ in more, which changes nothing; when the driver fails, and
    /// nobody knows what it has changed; or when they are of two devices.
    ///
    /// # Safety
    /// Nobody else uses this meanwhile, and all that `graph` refers to stays live until
    /// the last launch has ended.
    pub unsafe fn update(&self, graph: &OwnedGraph) -> DriverResult<()> {
        self.reclaim.same(&graph.reclaim, "exec_update")?;
        // Another thread's capture in global mode would be broken otherwise.
        let _relaxed = Relaxed::enter(&self.reclaim)?;
        // SAFETY: both handles are live; the rest is the caller's promise.
        unsafe { self.reclaim.driver().exec_update(self.handle, graph.handle) }
    }

    pub(super) fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    /// The driver's handle, live as long as this is.
    #[inline]
    pub fn handle(&self) -> ExecHandle {
        self.handle
    }
}

impl Drop for OwnedExec {
    fn drop(&mut self) {
        self.reclaim.push(Garbage::Exec(self.handle));
    }
}
