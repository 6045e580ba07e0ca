//! Memory behind reserved addresses.

use std::ffi::{c_int, c_uchar, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::library::Library;
use crate::driver::{DriverResult, ErrorClass};

/// `CUmemLocation`. The bindings of newer versions have a union here, with the
/// same layout; so it is written down once, and held against theirs below.
#[repr(C)]
#[derive(Clone, Copy)]
struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
struct Property {
    kind: c_uint,
    handle_kinds: c_uint,
    location: Location,
    win32: *mut c_void,
    flags: [c_uchar; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
}

const _: () = assert!(size_of::<Property>() == size_of::<sys::CUmemAllocationProp>());
const _: () = assert!(align_of::<Property>() == align_of::<sys::CUmemAllocationProp>());
const _: () = assert!(size_of::<Access>() == size_of::<sys::CUmemAccessDesc>());

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const ON_DEVICE: c_uint = 1;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: c_uint = 3;

const fn location(ordinal: u32) -> Location {
    Location {
        kind: ON_DEVICE,
        id: ordinal as c_int,
    }
}

const fn property(ordinal: u32) -> Property {
    Property {
        kind: PINNED,
        handle_kinds: 0,
        location: location(ordinal),
        win32: ptr::null_mut(),
        flags: [0; 8],
    }
}

/// The unit of pieces on a device; `None` where it has no virtual memory
/// management, which some virtual machines do not pass on.
pub(super) fn unit(library: &Library, ordinal: u32) -> DriverResult<Option<u64>> {
    let property = property(ordinal);
    let mut unit = 0;
    let smallest = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: the pointers are to locals, and the layout is the driver's.
    let answer = unsafe {
        library.cuMemGetAllocationGranularity(&raw mut unit, (&raw const property).cast(), smallest)
    };
    match answer {
        Ok(()) => Ok(Some(unit as u64)),
        Err(error) if error.class == ErrorClass::NotSupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// Backs a part of a reserved range with new memory, which goes when the part
/// is unmapped.
///
/// # Safety
/// The bytes lie in one live range, and nothing is mapped there.
pub(super) unsafe fn map(
    library: &Library,
    ordinal: u32,
    address: u64,
    bytes: u64,
) -> DriverResult<()> {
    let bytes = bytes as usize;
    let property = property(ordinal);
    let access = Access {
        location: location(ordinal),
        flags: READ_WRITE,
    };
    let mut memory = 0;
    // SAFETY: the pointers are to locals, and the layouts are the driver's; the
    // addresses are the caller's promise. The handle is given up in any case: a
    // mapping keeps its memory alive by itself.
    unsafe {
        library.cuMemCreate(&raw mut memory, bytes, (&raw const property).cast(), 0)?;
        let mapped = library.cuMemMap(address, bytes, 0, memory, 0);
        let released = library.cuMemRelease(memory);
        mapped?;
        let allowed = released
            .and_then(|()| library.cuMemSetAccess(address, bytes, (&raw const access).cast(), 1));
        if allowed.is_err() {
            // The first failure is the one to tell.
            let _ = library.cuMemUnmap(address, bytes);
        }
        allowed
    }
}
