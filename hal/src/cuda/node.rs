//! What a node of a driver's graph does, read back from the driver.
//!
//! Nothing here is taken from what was declared: the verifier holds one against
//! the other. Numbers that a newer driver may invent (node types, memory types)
//! are read as numbers, never as Rust enums.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::sys;
use streamweir_trace::{AllocNode, BlockSync, CopyNode, FillNode, FreeNode, KernelNode, NodeKind};

use super::library::Library;
use super::params::{self, ParamBytes};
use crate::driver::{DriverError, DriverResult, ErrorClass, ParamSlot};

/// Reads a node.
///
/// # Safety
/// The node is live, and the context of its graph is current.
pub(super) unsafe fn read(library: &Library, node: sys::CUgraphNode) -> DriverResult<NodeKind> {
    let mut kind = u32::MAX;
    // SAFETY: the node is live; the driver writes a 32-bit number.
    unsafe { library.cuGraphNodeGetType(node, (&raw mut kind).cast()) }?;
    Ok(match kind {
        // SAFETY: the node is live and of this type, here and below.
        0 => NodeKind::Kernel(unsafe { kernel(library, node) }?),
        // SAFETY: as above.
        1 => NodeKind::Memcpy(unsafe { copy(library, node) }?),
        // SAFETY: as above.
        2 => NodeKind::Memset(unsafe { fill(library, node) }?),
        3 => NodeKind::Host,
        4 => NodeKind::ChildGraph,
        5 => NodeKind::Empty,
        6 => NodeKind::EventWait,
        7 => NodeKind::EventRecord,
        8 => NodeKind::SemaphoreSignal,
        9 => NodeKind::SemaphoreWait,
        // SAFETY: as above.
        10 => NodeKind::MemAlloc(unsafe { alloc(library, node) }?),
        // SAFETY: as above.
        11 => NodeKind::MemFree(unsafe { free(library, node) }?),
        12 => NodeKind::BatchMemOp,
        13 => NodeKind::Conditional,
        other => NodeKind::Unknown(other),
    })
}

unsafe fn kernel(library: &Library, node: sys::CUgraphNode) -> DriverResult<KernelNode> {
    let mut found = MaybeUninit::<sys::CUDA_KERNEL_NODE_PARAMS>::zeroed();
    // SAFETY: a live kernel node; the struct is the one of this version of the
    // call, and all zeros is a value of it.
    let found = unsafe {
        library.cuGraphKernelNodeGetParams(node, found.as_mut_ptr())?;
        found.assume_init()
    };
    let code = Code::of(&found)?;
    // SAFETY: the node keeps its function loaded.
    let (function, slots) = unsafe { (code.name(library)?, code.params(library)?) };
    // SAFETY: the driver's copy of the arguments lives as long as the node, and
    // its layout is that of the node's own function.
    let params = unsafe { params::read(&slots, found.kernelParams, found.extra) };
    let params = match params {
        ParamBytes::Read(params) => params,
        ParamBytes::Absent => {
            return Err(
                DriverError::of("cuGraphKernelNodeGetParams", ErrorClass::NotSupported).with(
                    format!(
                        "the driver gives no arguments for kernel {function}, which takes {}",
                        slots.len()
                    ),
                ),
            );
        }
    };
    Ok(KernelNode {
        function,
        grid: [found.gridDimX, found.gridDimY, found.gridDimZ],
        block: [found.blockDimX, found.blockDimY, found.blockDimZ],
        shared_bytes: found.sharedMemBytes,
        cluster: [0; 3],
        sync: BlockSync::Independent,
        params,
    })
}

/// The code of a kernel node: a function of a module, or a kernel of a library
/// that is not tied to a context.
enum Code {
    Function(sys::CUfunction),
    Kernel(sys::CUkernel),
}

impl Code {
    fn of(found: &sys::CUDA_KERNEL_NODE_PARAMS) -> DriverResult<Self> {
        // The driver looks at `kern` only when there is no `func`.
        if !found.func.is_null() {
            Ok(Self::Function(found.func))
        } else if !found.kern.is_null() {
            Ok(Self::Kernel(found.kern))
        } else {
            Err(
                DriverError::of("cuGraphKernelNodeGetParams", ErrorClass::NotSupported)
                    .with("the driver names no function for a kernel node"),
            )
        }
    }

    unsafe fn name(&self, library: &Library) -> DriverResult<String> {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the code is loaded; the driver writes a pointer to its symbol,
        // which lives as long as the code.
        unsafe {
            match *self {
                Self::Function(function) => library.cuFuncGetName(&raw mut name, function),
                Self::Kernel(kernel) => library.cuKernelGetName(&raw mut name, kernel),
            }?;
            if name.is_null() {
                return Ok(String::new());
            }
            Ok(CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    unsafe fn params(&self, library: &Library) -> DriverResult<Vec<ParamSlot>> {
        params::slots(|index, offset, size| {
            // SAFETY: the code is loaded; the pointers are to locals.
            unsafe {
                match *self {
                    Self::Function(function) => {
                        library.cuFuncGetParamInfo(function, index, offset, size)
                    }
                    Self::Kernel(kernel) => {
                        library.cuKernelGetParamInfo(kernel, index, offset, size)
                    }
                }
            }
        })
    }
}

/// Where a function expects its parameters.
///
/// # Safety
/// The function is loaded and its context is current.
pub(super) unsafe fn function_params(
    library: &Library,
    function: sys::CUfunction,
) -> DriverResult<Vec<ParamSlot>> {
    // SAFETY: by the caller.
    unsafe { Code::Function(function).params(library) }
}

unsafe fn alloc(library: &Library, node: sys::CUgraphNode) -> DriverResult<AllocNode> {
    let mut found = MaybeUninit::<sys::CUDA_MEM_ALLOC_NODE_PARAMS>::zeroed();
    // SAFETY: a live allocation node; the struct is the one of this call. Its
    // pool's properties hold enums that a newer driver may extend, so it is
    // never made a value: the two numbers are read in place.
    unsafe {
        library.cuGraphMemAllocNodeGetParams(node, found.as_mut_ptr())?;
        let found = found.as_ptr();
        Ok(AllocNode {
            at: (&raw const (*found).dptr).read(),
            bytes: (&raw const (*found).bytesize).read() as u64,
        })
    }
}

unsafe fn free(library: &Library, node: sys::CUgraphNode) -> DriverResult<FreeNode> {
    let mut at = 0;
    // SAFETY: a live free node; the pointer is to a local.
    unsafe { library.cuGraphMemFreeNodeGetParams(node, &raw mut at) }?;
    Ok(FreeNode { at })
}

unsafe fn copy(library: &Library, node: sys::CUgraphNode) -> DriverResult<CopyNode> {
    let mut found = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
    // SAFETY: a live copy node; the struct is the one of this call.
    unsafe { library.cuGraphMemcpyNodeGetParams(node, found.as_mut_ptr()) }?;
    // SAFETY: zeroed, then filled by the driver.
    Ok(unsafe { copy_operands(&found) })
}

/// The operands of a copy. A copy of several layers with gaps between them has
/// no description in a trace: it comes out as one whose operands are not known.
///
/// # Safety
/// Every byte of the struct is initialised. Its two memory types need not be
/// values of their enum.
unsafe fn copy_operands(found: &MaybeUninit<sys::CUDA_MEMCPY3D>) -> CopyNode {
    let found = found.as_ptr();
    // SAFETY: all bytes are initialised; the memory types are read as the
    // 32-bit numbers that they are in C, and no reference to the struct is made.
    unsafe {
        let from = Side {
            memory: (&raw const (*found).srcMemoryType).cast::<u32>().read(),
            host: (*found).srcHost as u64,
            device: (*found).srcDevice,
            at: [(*found).srcXInBytes, (*found).srcY, (*found).srcZ],
            pitch: (*found).srcPitch,
            height: (*found).srcHeight,
        };
        let to = Side {
            memory: (&raw const (*found).dstMemoryType).cast::<u32>().read(),
            host: (*found).dstHost as u64,
            device: (*found).dstDevice,
            at: [(*found).dstXInBytes, (*found).dstY, (*found).dstZ],
            pitch: (*found).dstPitch,
            height: (*found).dstHeight,
        };
        let (height, layers) = ((*found).Height.max(1), (*found).Depth.max(1));
        let gaps = |side: &Side| layers > 1 && side.height != height;
        if gaps(&to) || gaps(&from) {
            return CopyNode::default();
        }
        CopyNode {
            to: to.first_byte(),
            from: from.first_byte(),
            bytes: (*found).WidthInBytes as u64,
            rows: product([height, layers, 1]),
            to_pitch: to.pitch as u64,
            from_pitch: from.pitch as u64,
        }
        .flattened()
    }
}

/// One side of a copy.
struct Side {
    memory: u32,
    host: u64,
    device: u64,
    at: [usize; 3],
    pitch: usize,
    height: usize,
}

impl Side {
    /// The address of the first byte; 0 for an array, which has none.
    fn first_byte(&self) -> u64 {
        const HOST: u32 = sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32;
        const ARRAY: u32 = sys::CUmemorytype::CU_MEMORYTYPE_ARRAY as u32;
        let base = match self.memory {
            HOST => self.host,
            ARRAY => return 0,
            _ => self.device,
        };
        let [x, y, z] = self.at;
        base.wrapping_add(x as u64)
            .wrapping_add(product([y, self.pitch, 1]))
            .wrapping_add(product([z, self.pitch, self.height]))
    }
}

unsafe fn fill(library: &Library, node: sys::CUgraphNode) -> DriverResult<FillNode> {
    let mut found = MaybeUninit::<sys::CUDA_MEMSET_NODE_PARAMS>::zeroed();
    // SAFETY: a live fill node; the struct is the one of this call, and all
    // zeros is a value of it.
    let found = unsafe {
        library.cuGraphMemsetNodeGetParams(node, found.as_mut_ptr())?;
        found.assume_init()
    };
    Ok(fill_operands(&found))
}

/// The operands of a fill. The driver may widen the elements of a fill with
/// bytes; the flattened form undoes that.
fn fill_operands(found: &sys::CUDA_MEMSET_NODE_PARAMS) -> FillNode {
    FillNode {
        to: found.dst,
        bytes: product([found.elementSize as usize, found.width, 1]),
        value: found.value,
        // 1, 2 or 4 by the driver's definition.
        element: found.elementSize as u8,
        rows: found.height.max(1) as u64,
        pitch: found.pitch as u64,
    }
    .flattened()
}

/// Wraps, as the driver's own address arithmetic does: an operand that does not
/// fit is found by whoever holds it against a buffer.
fn product(factors: [usize; 3]) -> u64 {
    factors
        .into_iter()
        .fold(1, |product, factor| product.wrapping_mul(factor as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(set: impl FnOnce(*mut sys::CUDA_MEMCPY3D)) -> CopyNode {
        let mut found = MaybeUninit::zeroed();
        set(found.as_mut_ptr());
        // SAFETY: zeroed, then set in parts.
        unsafe { copy_operands(&found) }
    }

    #[test]
    fn a_linear_copy_is_read_in_full() {
        let copy = copied(|found| {
            // SAFETY: fields of a local.
            unsafe {
                (*found).srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
                (*found).srcHost = 0x1000 as *const _;
                (*found).srcDevice = 0xdead;
                (*found).dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
                (*found).dstDevice = 0x7000;
                (*found).WidthInBytes = 384;
                (*found).Height = 1;
                (*found).Depth = 1;
            }
        });
        assert_eq!(copy, CopyNode::linear(0x7000, 0x1000, 384));
    }

    fn strided(layers: usize, height: usize) -> CopyNode {
        copied(|found| {
            // SAFETY: fields of a local.
            unsafe {
                (*found).srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED;
                (*found).srcDevice = 0x10000;
                (*found).srcXInBytes = 16;
                (*found).srcY = 2;
                (*found).srcZ = 3;
                (*found).srcPitch = 256;
                (*found).srcHeight = height;
                (*found).dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_ARRAY;
                (*found).dstDevice = 0xdead;
                (*found).dstPitch = 64;
                (*found).dstHeight = 4;
                (*found).WidthInBytes = 64;
                (*found).Height = 4;
                (*found).Depth = layers;
            }
        })
    }

    #[test]
    fn a_strided_copy_starts_at_its_offsets_and_counts_its_rows() {
        let from: u64 = 0x10000 + 16 + 2 * 256;
        let expected = |skipped, rows| CopyNode {
            to: 0,
            from: from + skipped,
            bytes: 64,
            rows,
            to_pitch: 64,
            from_pitch: 256,
        };
        assert_eq!(strided(1, 8), expected(3 * 256 * 8, 4));
        assert_eq!(strided(2, 4), expected(3 * 256 * 4, 8));
        let read = strided(1, 8).read().expect("in range");
        assert_eq!(read.len(), 3 * 256 + 64);
    }

    #[test]
    fn a_copy_with_gaps_between_its_layers_is_not_described() {
        assert_eq!(strided(2, 8), CopyNode::default());
    }

    #[test]
    fn a_memory_type_that_cudarc_does_not_know_is_an_address_of_the_device() {
        let copy = copied(|found| {
            // SAFETY: fields of a local; the type is written as the number that
            // a newer driver might write.
            unsafe {
                (&raw mut (*found).srcMemoryType).cast::<u32>().write(77);
                (*found).srcDevice = 0x40;
                (*found).WidthInBytes = 1;
            }
        });
        assert_eq!((copy.from, copy.bytes), (0x40, 1));
    }

    #[test]
    fn a_fill_counts_bytes_whatever_its_elements_are() {
        let mut found = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: 0x2000,
            pitch: 0,
            value: 0x7f,
            elementSize: 1,
            width: 100,
            height: 1,
        };
        assert_eq!(fill_operands(&found), FillNode::linear(0x2000, 100, 0x7f));
        found.elementSize = 4;
        found.value = 0x0a0a_0a0a;
        assert_eq!(fill_operands(&found), FillNode::linear(0x2000, 400, 0x0a));
        found.value = 0x0b0a_0b0a;
        found.height = 3;
        found.pitch = 512;
        let fill = fill_operands(&found);
        assert_eq!((fill.element, fill.value), (2, 0x0b0a));
        assert_eq!((fill.bytes, fill.rows, fill.pitch), (400, 3, 512));
        assert_eq!(fill.written().map(|range| range.len()), Some(2 * 512 + 400));
    }

    #[test]
    fn a_node_without_code_is_an_error_and_a_function_goes_before_a_kernel() {
        // SAFETY: all zeros is a value of the struct.
        let mut found: sys::CUDA_KERNEL_NODE_PARAMS =
            unsafe { MaybeUninit::zeroed().assume_init() };
        let Err(error) = Code::of(&found) else {
            panic!("a node without code was read");
        };
        assert_eq!(error.class, ErrorClass::NotSupported);
        found.kern = 0x10 as sys::CUkernel;
        assert!(matches!(Code::of(&found), Ok(Code::Kernel(_))));
        found.func = 0x20 as sys::CUfunction;
        assert!(matches!(Code::of(&found), Ok(Code::Function(_))));
    }
}
