//! The arguments of a kernel node, in both forms in which the driver keeps
//! them.
//!
//! A launch passes either an array of pointers, one for each parameter, or one
//! packed buffer announced in `extra`; cuBLAS does the latter. The parameters'
//! places come from the function itself. Bytes of the buffer that no parameter
//! claims are never lost: when the places do not fit the buffer, all of it is
//! given as one parameter, and a search for pointers still sees every word.

use std::ffi::c_void;

use streamweir_trace::Param;

use crate::driver::{DriverResult, ErrorClass, ParamSlot};

/// What `extra` is made of: key, value, ..., end.
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// The arguments of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParamBytes {
    /// The raw bytes of every parameter.
    Read(Vec<Param>),
    /// The kernel takes parameters and the driver gives none.
    Absent,
}

/// Asks for the place of parameter 0, 1, ... until there is no such parameter.
///
/// The number of parameters itself cannot be asked for before CUDA 13.1.
pub(super) fn slots(
    mut ask: impl FnMut(usize, *mut usize, *mut usize) -> DriverResult<()>,
) -> DriverResult<Vec<ParamSlot>> {
    let mut slots = Vec::new();
    loop {
        let (mut offset, mut size) = (0usize, 0usize);
        match ask(slots.len(), &raw mut offset, &raw mut size) {
            // Parameters take at most 32,764 bytes, so both fit.
            Ok(()) => slots.push(ParamSlot {
                offset: offset as u32,
                size: size as u32,
            }),
            Err(error) if error.class == ErrorClass::InvalidValue => return Ok(slots),
            Err(error) => return Err(error),
        }
    }
}

/// Reads the arguments.
///
/// # Safety
/// `pointers`, when not null, points to a readable pointer to `size` readable
/// bytes for each slot; `extra`, when not null, is a list as `cuLaunchKernel`
/// takes it, whose buffer is readable.
pub(super) unsafe fn read(
    slots: &[ParamSlot],
    pointers: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> ParamBytes {
    if !pointers.is_null() && !slots.is_empty() {
        // SAFETY: by the caller.
        return ParamBytes::Read(unsafe { from_pointers(slots, pointers) });
    }
    // SAFETY: by the caller.
    match unsafe { buffer(extra) } {
        Some(bytes) => ParamBytes::Read(from_buffer(slots, bytes)),
        None if slots.is_empty() => ParamBytes::Read(Vec::new()),
        None => ParamBytes::Absent,
    }
}

unsafe fn from_pointers(slots: &[ParamSlot], pointers: *mut *mut c_void) -> Vec<Param> {
    slots
        .iter()
        .enumerate()
        .map(|(index, slot)| {
            // SAFETY: there is a pointer for each slot, to as many bytes as it
            // holds; bytes have no alignment.
            let bytes = unsafe {
                let value = pointers.add(index).read().cast::<u8>();
                std::slice::from_raw_parts(value, slot.size as usize)
            };
            param(slot.offset, bytes)
        })
        .collect()
}

fn from_buffer(slots: &[ParamSlot], buffer: &[u8]) -> Vec<Param> {
    let whole = || vec![param(0, buffer)];
    if slots.is_empty() {
        return whole();
    }
    slots
        .iter()
        .map(|slot| {
            let start = slot.offset as usize;
            let bytes = buffer.get(start..start.checked_add(slot.size as usize)?)?;
            Some(param(slot.offset, bytes))
        })
        .collect::<Option<Vec<_>>>()
        .unwrap_or_else(whole)
}

fn param(offset: u32, bytes: &[u8]) -> Param {
    Param {
        name: String::new(),
        offset,
        bytes: bytes.to_vec(),
        pointer: None,
        fields: Vec::new(),
    }
}

/// The packed buffer that `extra` announces.
unsafe fn buffer<'a>(extra: *mut *mut c_void) -> Option<&'a [u8]> {
    if extra.is_null() {
        return None;
    }
    let (mut start, mut size) = (None, None);
    let mut entry = extra;
    loop {
        // SAFETY: the list goes on until its end marker, and every key before
        // that has a value.
        let (key, value) = unsafe {
            let key = entry.read() as usize;
            if key == END {
                break;
            }
            (key, entry.add(1).read())
        };
        match key {
            BUFFER_POINTER => start = Some(value.cast::<u8>().cast_const()),
            // SAFETY: the value of this key points to the size.
            BUFFER_SIZE => size = Some(unsafe { value.cast::<usize>().read() }),
            // There is no other key; a list with one cannot be followed.
            _ => return None,
        }
        // SAFETY: not past the end marker.
        entry = unsafe { entry.add(2) };
    }
    let start = start.filter(|start| !start.is_null())?;
    // SAFETY: the buffer has `size` readable bytes.
    Some(unsafe { std::slice::from_raw_parts(start, size?) })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::driver::DriverError;

    const SLOTS: [ParamSlot; 2] = [
        ParamSlot { offset: 0, size: 8 },
        ParamSlot { offset: 8, size: 4 },
    ];

    fn bytes(found: &ParamBytes) -> Vec<(u32, Vec<u8>)> {
        match found {
            ParamBytes::Read(params) => params
                .iter()
                .map(|param| (param.offset, param.bytes.clone()))
                .collect(),
            ParamBytes::Absent => panic!("no arguments were read"),
        }
    }

    /// Announces a buffer the way a launch does.
    fn with_extra<R>(buffer: &mut [u8], size: usize, f: impl FnOnce(*mut *mut c_void) -> R) -> R {
        let mut size = size;
        let mut extra = [
            BUFFER_POINTER as *mut c_void,
            buffer.as_mut_ptr().cast(),
            BUFFER_SIZE as *mut c_void,
            (&raw mut size).cast(),
            END as *mut c_void,
        ];
        f(extra.as_mut_ptr())
    }

    #[test]
    fn an_array_of_pointers_gives_each_value() {
        let (mut address, mut count) = (0x1122_3344_5566_7788u64, 7u32);
        let mut pointers = [(&raw mut address).cast(), (&raw mut count).cast()];
        // SAFETY: two pointers to values of the slots' sizes.
        let found = unsafe { read(&SLOTS, pointers.as_mut_ptr(), ptr::null_mut()) };
        assert_eq!(
            bytes(&found),
            [
                (0, address.to_le_bytes().to_vec()),
                (8, count.to_le_bytes().to_vec())
            ]
        );
    }

    #[test]
    fn a_packed_buffer_is_cut_at_the_slots() {
        let mut buffer: Vec<u8> = (0..16).collect();
        let found = with_extra(&mut buffer, 16, |extra| {
            // SAFETY: a well-formed list over a live buffer.
            unsafe { read(&SLOTS, ptr::null_mut(), extra) }
        });
        assert_eq!(
            bytes(&found),
            [(0, (0..8).collect()), (8, (8..12).collect())]
        );
    }

    #[test]
    fn a_buffer_that_the_slots_do_not_fit_is_given_whole() {
        let mut buffer: Vec<u8> = (0..10).collect();
        for slots in [&SLOTS[..], &[]] {
            let found = with_extra(&mut buffer, 10, |extra| {
                // SAFETY: a well-formed list over a live buffer.
                unsafe { read(slots, ptr::null_mut(), extra) }
            });
            assert_eq!(bytes(&found), [(0, (0..10).collect())]);
        }
    }

    #[test]
    fn arguments_that_the_driver_does_not_give_are_not_taken_for_none() {
        // SAFETY: null in both forms.
        let found = unsafe { read(&SLOTS, ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(found, ParamBytes::Absent);
        // SAFETY: as above.
        let found = unsafe { read(&[], ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(found, ParamBytes::Read(Vec::new()));
    }

    #[test]
    fn an_unknown_key_in_the_list_is_not_followed() {
        let mut extra = [9 as *mut c_void, ptr::null_mut(), END as *mut c_void];
        // SAFETY: a list that ends.
        let found = unsafe { read(&SLOTS, ptr::null_mut(), extra.as_mut_ptr()) };
        assert_eq!(found, ParamBytes::Absent);
    }

    #[test]
    fn slots_are_asked_for_until_there_are_no_more() {
        let found = slots(|index, offset, size| {
            let Some(slot) = SLOTS.get(index) else {
                return Err(DriverError::of(
                    "cuFuncGetParamInfo",
                    ErrorClass::InvalidValue,
                ));
            };
            // SAFETY: pointers to locals of `slots`.
            unsafe {
                offset.write(slot.offset as usize);
                size.write(slot.size as usize);
            }
            Ok(())
        });
        assert_eq!(found.as_deref(), Ok(&SLOTS[..]));
        let gone = DriverError::of("cuFuncGetParamInfo", ErrorClass::Deinitialized);
        assert_eq!(slots(|_, _, _| Err(gone.clone())), Err(gone));
    }
}
