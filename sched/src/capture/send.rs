//! One command to the driver: the same whether it is emitted when it is
//! recorded or after all of them have been placed.

use std::ffi::c_void;

use super::record::What;
use crate::driver::{DriverResult, EventScope};
use crate::owned::OwnedStream;

/// Sends a command that is not a foreign call to `stream`. `param_bytes` are
/// those of the recording, and `external` is the scope of events that the world
/// outside records or waits for.
pub(super) fn send(
    what: &What,
    param_bytes: &mut [u8],
    external: EventScope,
    stream: &OwnedStream,
) -> DriverResult<()> {
    match what {
        What::Kernel {
            info,
            shape,
            start,
            params,
            ..
        } => {
            let base = param_bytes[params.start as usize..].as_mut_ptr();
            let mut pointers: Vec<*mut c_void> = info
                .slots
                .iter()
                // SAFETY: `Binder` has written each slot of the declaration into
                // this launch's part of the buffer, so the offset is inside it.
                .map(|slot| unsafe { base.add(slot.offset as usize) }.cast())
                .collect();
            // SAFETY: `Module::kernel` has checked that the function takes these
            // slots; the bytes are the recording's; and the memory the pointers
            // among them point to is kept by the graph: persistent buffers and
            // arena lease by `Keep`. Only a kernel that declares to wait starts
            // early (`Core::start_of`).
            unsafe { stream.launch(&info.function, *shape, *start, &mut pointers) }
        }
        &What::Copy { to, from, bytes } => {
            // SAFETY: both ranges are of memory that the graph keeps.
            unsafe { stream.copy(to.address, from.address, bytes) }
        }
        &What::Fill {
            to, bytes, value, ..
        } => {
            // SAFETY: the range is of memory that the graph keeps.
            unsafe { stream.fill(to.address, value, bytes) }
        }
        What::EventRecord(event) => event.event.record(stream, external),
        What::EventWait(event) => event.event.order(stream, external),
        // Its own closure enqueues it.
        What::Foreign { .. } => Ok(()),
    }
}
