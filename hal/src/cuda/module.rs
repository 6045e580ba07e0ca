//! Loading code, with the compiler's own words when it is refused.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::library::Library;
use crate::driver::code::no_kernel;
use crate::driver::{DriverError, DriverResult, ErrorClass};

/// The most that is kept of what the driver's compiler says about PTX.
const LOG_BYTES: usize = 8192;

/// Loads a cubin, a fatbin or PTX.
///
/// The driver finds the end of an image by reading it, so a cubin or fatbin
/// that is cut short is read past its end; the caller gets its images from a
/// compiler and keeps them whole.
///
/// # Safety
/// A context is current.
pub(super) unsafe fn load(library: &Library, image: &[u8]) -> DriverResult<sys::CUmodule> {
    const CALL: &str = "cuModuleLoadDataEx";
    if image.is_empty() {
        return Err(DriverError::of(CALL, ErrorClass::InvalidImage).with("the image is empty"));
    }
    // The driver takes text up to a NUL.
    let with_end;
    let image = if is_text(image) && image.last() != Some(&0) {
        with_end = [image, &[0]].concat();
        &with_end
    } else {
        image
    };
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
    let mut module = ptr::null_mut();
    // SAFETY: text ends in a NUL and other images carry their length; there are
    // two options with two values, a buffer and its size passed by value.
    let loaded = unsafe {
        library.cuModuleLoadDataEx(
            &raw mut module,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match loaded {
        Ok(()) => Ok(module),
        Err(error) => Err(match text_of(&log) {
            Some(text) => error.with(text),
            None => error.with(format!("image of {} bytes", image.len())),
        }),
    }
}

/// Looks a kernel up and loads its code, so that its first launch, which may be
/// inside a capture, has nothing left to load.
///
/// # Safety
/// The module is live and its context is current.
pub(super) unsafe fn function(
    library: &Library,
    module: sys::CUmodule,
    symbol: &str,
) -> DriverResult<sys::CUfunction> {
    let Ok(name) = CString::new(symbol) else {
        return Err(DriverError::of("cuModuleGetFunction", ErrorClass::NotFound)
            .with(format!("kernel {symbol:?}: a symbol holds no zero byte")));
    };
    let mut function = ptr::null_mut();
    // SAFETY: a live module and a string that ends in a zero.
    unsafe {
        library
            .cuModuleGetFunction(&raw mut function, module, name.as_ptr().cast::<c_char>())
            .and_then(|()| library.cuFuncLoad(function))
    }
    .map_err(|error| match error.class {
        // SAFETY: the module is live and its context is current.
        ErrorClass::NotFound => error.with(no_kernel(symbol, unsafe { names(library, module) })),
        _ => error.with(format!("kernel {symbol}")),
    })?;
    Ok(function)
}

/// The kernels of a module, as far as the driver names them.
///
/// # Safety
/// The module is live and its context is current.
unsafe fn names(library: &Library, module: sys::CUmodule) -> Vec<String> {
    let mut count = 0;
    // SAFETY: a live module; the pointer is to a local.
    if unsafe { library.cuModuleGetFunctionCount(&raw mut count, module) }.is_err() {
        return Vec::new();
    }
    let mut functions = vec![ptr::null_mut(); count as usize];
    // SAFETY: as above; there is room for as many as said.
    if unsafe { library.cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module) }.is_err()
    {
        return Vec::new();
    }
    let named = functions.into_iter().filter_map(|function| {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the driver gave the function, and writes a pointer to its symbol,
        // which lives as long as the module.
        unsafe {
            library.cuFuncGetName(&raw mut name, function).ok()?;
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    });
    named.collect()
}

/// Whether an image is PTX: neither a cubin (ELF) nor a fatbin.
fn is_text(image: &[u8]) -> bool {
    const ELF: [u8; 4] = *b"\x7fELF";
    const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
    const FATBIN_WRAPPER: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
    !image
        .first_chunk()
        .is_some_and(|magic| [ELF, FATBIN, FATBIN_WRAPPER].contains(magic))
}

/// The text of a log, up to its zero; `None` when nothing was said.
fn text_of(log: &[u8]) -> Option<String> {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_binaries() {
        assert!(is_text(b".version 8.0"));
        assert!(is_text(b"//"));
        assert!(!is_text(b"\x7fELF\x02\x01"));
        assert!(!is_text(&[0x50, 0xed, 0x55, 0xba, 1, 0]));
        assert!(!is_text(&[0xb1, 0x43, 0x62, 0x46, 1, 0]));
    }

    #[test]
    fn a_log_ends_at_its_zero() {
        assert_eq!(
            text_of(b"ptxas: line 3 \n\0junk").as_deref(),
            Some("ptxas: line 3")
        );
        assert_eq!(text_of(b"\0junk"), None);
        assert_eq!(text_of(b"full"), Some("full".to_owned()));
    }
}
