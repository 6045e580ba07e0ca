//! Values that live as long as a graph and all that is instantiated from it.
//!
//! The driver counts references to a user object: one for the graph, one for
//! each executable instantiated from it, one for each unfinished launch. When
//! the last goes it calls the destructor on a thread of its own, where no
//! driver call is allowed.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use cudarc::driver::sys;

use super::library::Library;
use crate::driver::DriverResult;

/// What is kept. Boxed twice: the driver holds one thin pointer.
type Keep = Box<dyn Any + Send + Sync>;

const NO_DESTRUCTOR_SYNC: u32 = sys::CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC as u32;
const MOVE: u32 = sys::CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE as u32;

/// Ties `keep` to `graph`. On failure it is dropped.
///
/// # Safety
/// The graph is live, and its context is current.
pub(super) unsafe fn retain(
    library: &Library,
    graph: sys::CUgraph,
    keep: Keep,
) -> DriverResult<()> {
    let value = Box::into_raw(Box::new(keep)).cast::<c_void>();
    let mut object = ptr::null_mut();
    // SAFETY: `destroy` takes the value back, from any thread (it is `Send`),
    // once.
    let created = unsafe {
        library.cuUserObjectCreate(&raw mut object, value, Some(destroy), 1, NO_DESTRUCTOR_SYNC)
    };
    if let Err(error) = created {
        // SAFETY: the driver has not taken the value.
        unsafe { destroy(value) };
        return Err(error);
    }
    // SAFETY: the graph is live, the object has one reference, and that one
    // moves to the graph.
    let retained = unsafe { library.cuGraphRetainUserObject(graph, object, 1, MOVE) };
    retained.map_err(|error| {
        // SAFETY: the reference did not move; releasing it destroys the value.
        match unsafe { library.cuUserObjectRelease(object, 1) } {
            Ok(()) => error,
            Err(leaked) => error.with(format!("and the value to keep is leaked, for {leaked}")),
        }
    })
}

/// Takes a value back from the driver and drops it.
///
/// A panic must not unwind into the driver. It has printed its message by then,
/// and there is nobody else to tell.
unsafe extern "C" fn destroy(value: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `retain`, and given back once.
    let keep = unsafe { Box::from_raw(value.cast::<Keep>()) };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(keep))) {
        // Its own destructor could panic again.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counts(Arc<AtomicUsize>);

    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_destructor_drops_the_value_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let keep: Keep = Box::new(Counts(drops.clone()));
        let value = Box::into_raw(Box::new(keep)).cast::<c_void>();
        // SAFETY: made as `retain` makes it.
        unsafe { destroy(value) };
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_panic_of_the_value_stays_on_this_side_of_the_driver() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new("dropped"));
            }
        }
        let keep: Keep = Box::new(Panics);
        let value = Box::into_raw(Box::new(keep)).cast::<c_void>();
        // SAFETY: made as `retain` makes it.
        unsafe { destroy(value) };
    }
}
