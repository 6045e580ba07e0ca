//! Graphs, and what is instantiated from them.

use std::any::Any;
use std::sync::Arc;

use streamweir_trace::NodeKind;

use super::super::SimDriver;
use crate::driver::{
    DriverResult, ExecHandle, GraphCalls, GraphEdge, GraphHandle, KernelAttributes, NodeHandle,
    StreamHandle,
};

// SAFETY: the executor runs a task only when all that it depends on has ended.
unsafe impl GraphCalls for SimDriver {
    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        self.call("cuGraphGetNodes", |device| device.graph_nodes(graph))
    }

    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>> {
        self.call("cuGraphGetEdges", |device| device.graph_edges(graph))
    }

    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        self.call("cuGraphNodeGetParams", |device| {
            Ok(device.node(node)?.kind())
        })
    }

    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        self.call("cuGraphChildGraphNodeGetGraph", |device| {
            device.graph_child(node)
        })
    }

    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes> {
        self.call("cuGraphKernelNodeGetAttribute", |device| {
            let work = device.kernel_node(node)?.work();
            Ok(work.attributes().unwrap_or_default())
        })
    }

    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        self.call("cuGraphAddKernelNode", |device| device.graph_alone(node))
    }

    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle> {
        self.call("cuGraphAddChildGraphNode", |device| {
            device.graph_add_child(graph, after, child)
        })
    }

    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()> {
        let keep = Arc::new(keep);
        self.call("cuGraphRetainUserObject", |device| {
            device.graph_retain(graph, keep)
        })
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()> {
        self.release("cuGraphDestroy", |device| device.graph_destroy(graph))
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        self.call("cuGraphInstantiate", |device| {
            device.graph_instantiate(graph)
        })
    }

    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuGraphLaunch", |device| device.exec_launch(exec, stream))
    }

    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        self.call("cuGraphUpload", |device| {
            if !device.execs.contains_key(&exec) {
                return Err(device.unknown(exec));
            }
            device.not_capturing(stream)
        })
    }

    unsafe fn exec_update(&self, exec: ExecHandle, graph: GraphHandle) -> DriverResult<()> {
        self.call("cuGraphExecUpdate", |device| {
            device.exec_update(exec, graph)
        })
    }

    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        self.call("cuGraphNodeSetEnabled", |device| {
            device.exec_enable(exec, node, enabled)
        })
    }

    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()> {
        self.release("cuGraphExecDestroy", |device| device.exec_destroy(exec))
    }
}
