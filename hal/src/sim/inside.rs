//! Functions of the host, which a stream calls: while one runs, its thread calls no
//! driver. A device that is asked all the same refuses, where a lock would hang.

use std::cell::Cell;

use crate::driver::HostCall;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside such a function.
pub(super) fn is_inside() -> bool {
    INSIDE.get()
}

/// Makes a call.
pub(super) fn call(call: HostCall) {
    INSIDE.set(true);
    // SAFETY: whoever enqueued the call promised that it may be made until it has ended,
    // and that it does not unwind.
    unsafe { (call.function)(call.data) };
    INSIDE.set(false);
}
