//! What a graph is measured against: its work, launched piece by piece.
//!
//! The kernels, their arguments and the addresses are the graph's own, read from
//! the driver once. What is left for a run is one driver call for each node, as
//! an engine makes that launches its kernels one after the other.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use streamweir::cudarc::driver::{CudaGraph, CudaStream, DriverError, result, sys};

use crate::Outcome;

/// The nodes of a graph that was captured on one stream, in its order.
pub(crate) struct Launches {
    /// Owns the arguments, and keeps alive what they refer to.
    _graph: CudaGraph,
    stream: Arc<CudaStream>,
    calls: Vec<Call>,
}

enum Call {
    Kernel(sys::CUDA_KERNEL_NODE_PARAMS),
    Copy { from: u64, to: u64, bytes: usize },
}

impl Launches {
    /// Reads the nodes of `graph`, to be launched on `stream`.
    ///
    /// A chain is launched in the order that the driver lists it, which is the
    /// order of its recording; the results, compared by the caller, depend on it.
    pub(crate) fn of(graph: CudaGraph, stream: &Arc<CudaStream>) -> Outcome<Self> {
        let calls = nodes(graph.cu_graph())?
            .into_iter()
            .map(Call::of)
            .collect::<Outcome<_>>()?;
        Ok(Self {
            _graph: graph,
            stream: stream.clone(),
            calls,
        })
    }

    /// Enqueues all of it.
    pub(crate) fn run(&self) -> Outcome<()> {
        self.stream.context().bind_to_thread()?;
        for call in &self.calls {
            call.enqueue(self.stream.cu_stream())?;
        }
        Ok(())
    }
}

impl Call {
    fn of(node: sys::CUgraphNode) -> Outcome<Self> {
        let mut kind = MaybeUninit::uninit();
        // SAFETY: a node of a living graph; the driver writes its type.
        let kind = unsafe {
            sys::cuGraphNodeGetType(node, kind.as_mut_ptr()).result()?;
            kind.assume_init()
        };
        match kind {
            sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => Self::kernel(node),
            sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => Self::copy(node),
            other => Err(format!("a node of type {other:?} cannot be launched by hand").into()),
        }
    }

    fn kernel(node: sys::CUgraphNode) -> Outcome<Self> {
        let mut params = MaybeUninit::uninit();
        // SAFETY: a kernel node of a living graph; the driver writes all fields.
        let params: sys::CUDA_KERNEL_NODE_PARAMS = unsafe {
            sys::cuGraphKernelNodeGetParams_v2(node, params.as_mut_ptr()).result()?;
            params.assume_init()
        };
        if params.func.is_null() || params.kernelParams.is_null() {
            return Err("a kernel node without a function or without an argument list".into());
        }
        Ok(Self::Kernel(params))
    }

    fn copy(node: sys::CUgraphNode) -> Outcome<Self> {
        let mut params = MaybeUninit::uninit();
        // SAFETY: a copy node of a living graph; the driver writes all fields.
        let params: sys::CUDA_MEMCPY3D = unsafe {
            sys::cuGraphMemcpyNodeGetParams(node, params.as_mut_ptr()).result()?;
            params.assume_init()
        };
        if params.Height > 1 || params.Depth > 1 {
            return Err("a copy node of more than one row".into());
        }
        Ok(Self::Copy {
            from: params.srcDevice + params.srcXInBytes as u64,
            to: params.dstDevice + params.dstXInBytes as u64,
            bytes: params.WidthInBytes,
        })
    }

    fn enqueue(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: function, arguments and addresses are those of the node, and
        // the graph that keeps them is held by `Launches`; the caller's stream is
        // the one that all work on the tensors is on.
        unsafe {
            match self {
                Self::Kernel(it) => sys::cuLaunchKernel(
                    it.func,
                    it.gridDimX,
                    it.gridDimY,
                    it.gridDimZ,
                    it.blockDimX,
                    it.blockDimY,
                    it.blockDimZ,
                    it.sharedMemBytes,
                    stream,
                    it.kernelParams,
                    ptr::null_mut(),
                )
                .result(),
                Self::Copy { from, to, bytes } => {
                    result::memcpy_dtod_async(*to, *from, *bytes, stream)
                }
            }
        }
    }
}

fn nodes(graph: sys::CUgraph) -> Outcome<Vec<sys::CUgraphNode>> {
    let mut count = 0;
    // SAFETY: a living graph; without an array the driver writes the count alone.
    unsafe { sys::cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count) }.result()?;
    let mut nodes = vec![ptr::null_mut(); count];
    // SAFETY: the array has room for `count` nodes.
    unsafe { sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) }.result()?;
    nodes.truncate(count);
    Ok(nodes)
}
