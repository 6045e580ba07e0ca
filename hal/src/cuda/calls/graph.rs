//! Graphs, and what is instantiated from them.

use std::any::Any;
use std::ptr;

use cudarc::driver::sys;
use streamweir_trace::NodeKind;

use super::super::handle::Raw;
use super::super::{CudaDriver, graph, launch, node, retain};
use crate::driver::{
    DriverResult, ExecHandle, GraphCalls, GraphEdge, GraphHandle, KernelAttributes, NodeHandle,
    StreamHandle,
};

/// A node keeps the priority of the stream that it was captured on. Without this
/// flag all nodes have that of the stream that the graph is replayed on.
const USE_NODE_PRIORITY: u64 =
    sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0 as u64;

// SAFETY: each method is the call of the CUDA driver that the trait describes;
// the driver keeps a replay to the edges of its graph.
unsafe impl GraphCalls for CudaDriver {
    unsafe fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { graph::nodes(self.library, graph.raw()) }
    }

    unsafe fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { graph::edges(self.library, graph.raw()) }
    }

    unsafe fn graph_node(&self, node: NodeHandle) -> DriverResult<NodeKind> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { node::read(self.library, node.raw()) }
    }

    unsafe fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        let mut child = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuGraphChildGraphNodeGetGraph(node.raw(), &raw mut child)
        }?;
        Ok(GraphHandle::of(child))
    }

    unsafe fn graph_attributes(&self, node: NodeHandle) -> DriverResult<KernelAttributes> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { launch::attributes(self.library, node.raw()) }
    }

    unsafe fn graph_alone(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        Ok(GraphHandle::of(unsafe {
            launch::alone(self.library, node.raw(), self.context.raw())
        }?))
    }

    unsafe fn graph_add_child(
        &self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle> {
        let _current = self.context.enter()?;
        let after: Vec<_> = after.iter().map(|node| node.raw()).collect();
        let mut node = ptr::null_mut();
        // SAFETY: by the caller; there are as many dependencies as said.
        unsafe {
            self.library.cuGraphAddChildGraphNode(
                &raw mut node,
                graph.raw(),
                after.as_ptr(),
                after.len(),
                child.raw(),
            )
        }?;
        Ok(NodeHandle::of(node))
    }

    unsafe fn graph_retain(
        &self,
        graph: GraphHandle,
        keep: Box<dyn Any + Send + Sync>,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { retain::retain(self.library, graph.raw(), keep) }
    }

    unsafe fn graph_destroy(&self, graph: GraphHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphDestroy(graph.raw()) }
    }

    unsafe fn graph_instantiate(&self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        let _current = self.context.enter()?;
        let mut exec = ptr::null_mut();
        // SAFETY: by the caller; the pointer is to a local.
        unsafe {
            self.library
                .cuGraphInstantiateWithFlags(&raw mut exec, graph.raw(), USE_NODE_PRIORITY)
        }?;
        Ok(ExecHandle::of(exec))
    }

    unsafe fn exec_launch(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphLaunch(exec.raw(), stream.raw()) }
    }

    unsafe fn exec_upload(&self, exec: ExecHandle, stream: StreamHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphUpload(exec.raw(), stream.raw()) }
    }

    unsafe fn exec_update(&self, exec: ExecHandle, graph: GraphHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { graph::update(self.library, exec.raw(), graph.raw()) }
    }

    unsafe fn exec_enable(
        &self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe {
            self.library
                .cuGraphNodeSetEnabled(exec.raw(), node.raw(), enabled.into())
        }
    }

    unsafe fn exec_destroy(&self, exec: ExecHandle) -> DriverResult<()> {
        let _current = self.context.enter()?;
        // SAFETY: by the caller.
        unsafe { self.library.cuGraphExecDestroy(exec.raw()) }
    }
}
