//! Graphs: what is in them, and what is instantiated from them.

use std::any::Any;

use streamweir_trace::NodeKind;

use super::{
    DriverResult, ExecHandle, GraphEdge, GraphHandle, KernelAttributes, NodeHandle, StreamHandle,
};

/// Graphs as they are read back, and their replays.
///
/// # Safety
/// An implementation keeps the meaning of every method. Above all, a node of a replayed
/// graph starts only when every node that it depends on has ended. What is *reported* of a
/// graph is not relied on: a wrong report may cost a proof, never memory safety.
pub unsafe trait GraphCalls {
    /// The nodes of a graph, in the driver's order.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>>;

    /// The edges of a graph.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>>;

    /// What a node does: its kind, operands, function and raw parameters.
    /// Parameters carry no names and no targets.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<NodeKind>;

    /// The graph that a child graph node replays. It belongs to the node.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle>;

    /// How a kernel node is launched, beyond its shape.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes>;

    /// A new graph of one node that does what this node does: the launch of a
    /// kernel, with the same function, shape, parameters and attributes, or a fill.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle>;

    /// Adds a node to a graph that replays a copy of `child` after `after`.
    ///
    /// # Safety
    /// The handles are live, `after` are nodes of `graph`, and nobody else uses
    /// `graph` meanwhile.
    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle>;

    /// Ties `keep` to the life of a graph and of everything instantiated from
    /// it. It may be dropped on a thread of the driver, where no driver call is
    /// allowed.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()>;

    /// Destroys a graph; what was instantiated from it lives on.
    ///
    /// # Safety
    /// The handle is live, owned by the caller and not used afterwards.
    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()>;

    /// Instantiates a graph.
    ///
    /// # Safety
    /// The handle is live.
    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle>;

    /// Launches an instantiated graph.
    ///
    /// # Safety
    /// The handles are live, and so is all that the graph refers to until the
    /// launch has ended.
    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()>;

    /// Moves an instantiated graph to the device ahead of its first launch.
    ///
    /// # Safety
    /// The handles are live.
    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()>;

    /// Makes an instantiated graph do in later launches what `graph` does, which has the
    /// same nodes and edges with other operands. Launches in flight do what they did.
    /// [`ErrorClass::GraphUpdateRefused`](crate::driver::ErrorClass::GraphUpdateRefused)
    /// where the two differ in more than that; then nothing has changed.
    ///
    /// # Safety
    /// The handles are live, and nobody else uses `exec` meanwhile.
    unsafe fn exec_update(&self, exec: ExecHandle, graph: GraphHandle) -> DriverResult<()>;

    /// Lets a kernel, a copy or a fill of an instantiated graph do nothing in later
    /// launches, or again what it did. Meanwhile it is an empty node with the same
    /// edges: by full ones it orders what it did; what a programmatic one does then is
    /// not documented.
    ///
    /// # Safety
    /// The handles are live, `node` is of the graph that `exec` was instantiated
    /// from, and nobody else uses `exec` meanwhile.
    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()>;

    /// Destroys an instantiated graph.
    ///
    /// # Safety
    /// The handle is live, not used afterwards, and no launch of it is
    /// unfinished.
    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()>;
}
