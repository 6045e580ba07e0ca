//! How a kernel node is launched, and the same launch as a graph of its own.

use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys;

use super::library::Library;
use crate::driver::{DriverError, DriverResult, ErrorClass, KernelAttributes};

type Value = MaybeUninit<sys::CUkernelNodeAttrValue>;

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

/// A graph of one node with the function, shape, parameters and attributes of
/// `node`.
///
/// # Safety
/// As for [`attributes`].
pub(super) unsafe fn alone(
    library: &Library,
    node: sys::CUgraphNode,
) -> DriverResult<sys::CUgraph> {
    let mut params = MaybeUninit::<sys::CUDA_KERNEL_NODE_PARAMS>::zeroed();
    let (mut graph, mut copy) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: by the caller; the driver's copy of the arguments, which the
    // parameters point to, lives as long as the node, and is copied again.
    unsafe {
        library.cuGraphKernelNodeGetParams(node, params.as_mut_ptr())?;
        library.cuGraphCreate(&raw mut graph, 0)?;
    }
    // SAFETY: a graph that nobody else has; no dependencies.
    let made = unsafe {
        library
            .cuGraphAddKernelNode(&raw mut copy, graph, ptr::null(), 0, params.as_ptr())
            .and_then(|()| library.cuGraphKernelNodeCopyAttributes(copy, node))
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
