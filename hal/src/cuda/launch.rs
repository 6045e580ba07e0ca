//! Launches, how a kernel node is launched, and the same launch as a graph of
//! its own.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys;

use super::handle::Raw;
use super::library::Library;
use crate::driver::{
    DriverError, DriverResult, ErrorClass, FunctionHandle, KernelAttributes, LaunchShape, Start,
    StreamHandle,
};

type Value = MaybeUninit<sys::CUkernelNodeAttrValue>;

/// Launches a kernel: a plain one by the plain call, any other with its attributes.
///
/// # Safety
/// As for [`launch`](crate::driver::ModuleCalls::launch), in the context of
/// both handles.
pub(super) unsafe fn launch(
    library: &Library,
    stream: StreamHandle,
    function: FunctionHandle,
    shape: LaunchShape,
    start: Start,
    params: &mut [*mut c_void],
) -> DriverResult<()> {
    let LaunchShape {
        grid,
        block,
        shared_bytes,
        ..
    } = shape;
    let (mut attributes, count) = launch_attributes(shape, start);
    if count == 0 {
        // SAFETY: by the caller.
        return unsafe {
            library.cuLaunchKernel(
                function.raw(),
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                stream.raw(),
                params.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
    }
    let config = sys::CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared_bytes,
        hStream: stream.raw(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: count,
    };
    // SAFETY: by the caller; configuration and attributes live until the call
    // returns, and each attribute's value is the member that its id names.
    unsafe {
        library.cuLaunchKernelEx(
            &raw const config,
            function.raw(),
            params.as_mut_ptr(),
            ptr::null_mut(),
        )
    }
}

/// What a launch asks for beyond its grid: how many attributes there are, and those.
fn launch_attributes(shape: LaunchShape, start: Start) -> ([sys::CUlaunchAttribute; 3], u32) {
    use sys::CUlaunchAttributeID as Id;

    let attribute = |id, value| sys::CUlaunchAttribute {
        id,
        pad: [0; 4],
        value,
    };
    let yes = sys::CUlaunchAttributeValue { cooperative: 1 };
    let mut all = [attribute(Id::CU_LAUNCH_ATTRIBUTE_IGNORE, yes); 3];
    let mut count = 0;
    let mut add = |id, value| {
        all[count] = attribute(id, value);
        count += 1;
    };
    match start {
        Start::InOrder => {}
        Start::Early => add(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            sys::CUlaunchAttributeValue {
                programmaticStreamSerializationAllowed: 1,
            },
        ),
        Start::Together => add(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, yes),
    }
    if let [x, y, z] = shape.cluster
        && shape.cluster != [0; 3]
    {
        let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        add(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            sys::CUlaunchAttributeValue {
                clusterDim: cluster,
            },
        );
    }
    if let Some(priority) = shape.priority {
        add(
            Id::CU_LAUNCH_ATTRIBUTE_PRIORITY,
            sys::CUlaunchAttributeValue { priority },
        );
    }
    (all, count as u32)
}

/// The attributes of a kernel node.
///
/// # Safety
/// A live kernel node, whose context is current.
pub(super) unsafe fn attributes(
    library: &Library,
    node: sys::CUgraphNode,
) -> DriverResult<KernelAttributes> {
    use sys::CUkernelNodeAttrID as Attribute;

    let get = |attribute| {
        let mut value = Value::zeroed();
        // SAFETY: by the caller; the driver fills the member that belongs to the
        // attribute, and the rest stays zero.
        let words = unsafe {
            library.cuGraphKernelNodeGetAttribute(node, attribute, value.as_mut_ptr())?;
            value.as_ptr().cast::<[u32; 3]>().read()
        };
        Ok::<_, DriverError>(words)
    };
    let updatable = match get(Attribute::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) {
        Ok([updatable, ..]) => updatable != 0,
        // A driver that does not know the attribute has no such nodes.
        Err(error)
            if matches!(
                error.class,
                ErrorClass::InvalidValue | ErrorClass::NotSupported
            ) =>
        {
            false
        }
        Err(error) => return Err(error),
    };
    Ok(KernelAttributes {
        cooperative: get(Attribute::CU_LAUNCH_ATTRIBUTE_COOPERATIVE)?[0] != 0,
        cluster: get(Attribute::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)?,
        priority: get(Attribute::CU_LAUNCH_ATTRIBUTE_PRIORITY)?[0].cast_signed(),
        device_updatable: updatable,
    })
}

/// A graph of one node that does what `node` does: a kernel with the function,
/// shape, parameters and attributes of that one, or a fill.
///
/// # Safety
/// A live node, whose context is current and is `context`.
pub(super) unsafe fn alone(
    library: &Library,
    node: sys::CUgraphNode,
    context: sys::CUcontext,
) -> DriverResult<sys::CUgraph> {
    let mut kind = u32::MAX;
    let mut graph = ptr::null_mut();
    // SAFETY: by the caller. The type is read as a number, for a driver may know
    // more of them.
    unsafe {
        library.cuGraphNodeGetType(node, (&raw mut kind).cast())?;
        library.cuGraphCreate(&raw mut graph, 0)?;
    }
    // SAFETY: by the caller; nobody else has the graph. What is neither is refused
    // by the driver, as no kernel.
    let made = unsafe {
        match kind {
            MEMSET => add_fill(library, graph, node, context),
            _ => add_kernel(library, graph, node),
        }
    };
    match made {
        Ok(()) => Ok(graph),
        Err(error) => {
            // SAFETY: nobody else has the graph.
            match unsafe { library.cuGraphDestroy(graph) } {
                Ok(()) => Err(error),
                Err(leaked) => Err(error.with(format!("and its graph is leaked, for {leaked}"))),
            }
        }
    }
}

/// The number of a fill among the types of nodes.
const MEMSET: u32 = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32;

/// Adds a copy of a kernel node, without dependencies.
///
/// # Safety
/// As for [`alone`], and a graph that nobody else uses.
unsafe fn add_kernel(
    library: &Library,
    graph: sys::CUgraph,
    node: sys::CUgraphNode,
) -> DriverResult<()> {
    let mut params = MaybeUninit::<sys::CUDA_KERNEL_NODE_PARAMS>::zeroed();
    let mut copy = ptr::null_mut();
    // SAFETY: by the caller; the driver's copy of the arguments, which the
    // parameters point to, lives as long as the node, and is copied again.
    unsafe {
        library.cuGraphKernelNodeGetParams(node, params.as_mut_ptr())?;
        library.cuGraphAddKernelNode(&raw mut copy, graph, ptr::null(), 0, params.as_ptr())?;
        library.cuGraphKernelNodeCopyAttributes(copy, node)
    }
}

/// Adds a copy of a fill node, without dependencies.
///
/// # Safety
/// As for [`add_kernel`], and the node is a fill.
unsafe fn add_fill(
    library: &Library,
    graph: sys::CUgraph,
    node: sys::CUgraphNode,
    context: sys::CUcontext,
) -> DriverResult<()> {
    let mut params = MaybeUninit::<sys::CUDA_MEMSET_NODE_PARAMS>::zeroed();
    let mut copy = ptr::null_mut();
    // SAFETY: by the caller.
    unsafe {
        library.cuGraphMemsetNodeGetParams(node, params.as_mut_ptr())?;
        library.cuGraphAddMemsetNode(
            &raw mut copy,
            graph,
            ptr::null(),
            0,
            params.as_ptr(),
            context,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_has_the_attributes_that_it_asks_for_and_no_others() {
        use sys::CUlaunchAttributeID as Id;

        let ids = |shape: LaunchShape, start| {
            let (all, count) = launch_attributes(shape, start);
            let all = all[..count as usize].iter();
            all.map(|attribute| attribute.id).collect::<Vec<_>>()
        };
        let plain = LaunchShape::from((8, 32));
        assert_eq!(ids(plain.shared(64 << 10), Start::InOrder), []);
        assert_eq!(
            ids(plain, Start::Early),
            [Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION]
        );
        let all = plain.cluster([2, 1, 1]).priority(-3);
        assert_eq!(
            ids(all, Start::Together),
            [
                Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                Id::CU_LAUNCH_ATTRIBUTE_PRIORITY,
            ]
        );
        let (attributes, _) = launch_attributes(all, Start::InOrder);
        // SAFETY: the members that the ids name.
        unsafe {
            let cluster = attributes[0].value.clusterDim;
            assert_eq!([cluster.x, cluster.y, cluster.z], [2, 1, 1]);
            assert_eq!(attributes[1].value.priority, -3);
        }
    }
}
