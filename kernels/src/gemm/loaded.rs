//! Whether a library of CUDA's can be loaded.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};

use streamweir_sched::cudarc::driver::sys::CUDA_VERSION;

/// Whether the library can be loaded, under one of the names that cudarc tries.
/// cudarc's own question is compiled out in a program that links the library,
/// as an engine may make it.
pub(super) fn is_present(name: &str) -> bool {
    let major = CUDA_VERSION / 1000;
    [
        format!("{DLL_PREFIX}{name}{DLL_SUFFIX}"),
        format!("{DLL_PREFIX}{name}64_{major}{DLL_SUFFIX}"),
        format!("{DLL_PREFIX}{name}{DLL_SUFFIX}.{major}"),
        format!("{DLL_PREFIX}{name}{DLL_SUFFIX}.12"),
    ]
    .iter()
    // SAFETY: the library's initialisers have no requirement.
    .any(|name| unsafe { libloading::Library::new(name) }.is_ok())
}
