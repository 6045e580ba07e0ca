//! Functions of the host, called by a stream in its turn.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use streamweir_hal::driver::HostCall;
use streamweir_trace::AccessMode;

use super::host_use::PinnedInner;
use super::pinned::Pinned;

/// Page-locked memory that a function of the host touches. See
/// [`Stream::host_call_unchecked`](crate::Stream::host_call_unchecked).
pub struct HostTouch {
    pub(crate) memory: Arc<PinnedInner>,
    pub(crate) mode: AccessMode,
}

impl HostTouch {
    /// The function reads the memory.
    pub fn reads<T>(memory: &Pinned<T>) -> Self {
        Self {
            memory: memory.inner.clone(),
            mode: AccessMode::Read,
        }
    }

    /// The function writes the memory, and may read it.
    pub fn updates<T>(memory: &mut Pinned<T>) -> Self {
        memory.inner.note_written();
        Self {
            memory: memory.inner.clone(),
            mode: AccessMode::ReadWrite,
        }
    }
}

/// A function of the host with what it touches. The graph that calls it holds it.
pub(crate) struct HostFn {
    pub(crate) name: String,
    body: Box<dyn Fn() + Send + Sync>,
    /// What tells of a panic.
    touched: Vec<Arc<PinnedInner>>,
    /// Whether its touches are the caller's word.
    pub(crate) vouched: bool,
}

impl HostFn {
    pub(crate) fn new(
        name: &str,
        body: Box<dyn Fn() + Send + Sync>,
        touched: Vec<Arc<PinnedInner>>,
        vouched: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            body,
            touched,
            vouched,
        })
    }

    /// The call, good as long as this is held.
    pub(crate) fn call(self: &Arc<Self>) -> HostCall {
        HostCall {
            function: called,
            data: Arc::as_ptr(self).cast_mut().cast(),
        }
    }

    fn run(&self) {
        // A panic must not unwind into the driver. What is touched tells of it.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.body)())) {
            let said = words(&*panic);
            for memory in &self.touched {
                memory.poison(format!("host function \"{}\" panicked: {said}", self.name));
            }
        }
    }
}

/// # Safety
/// `data` is a live [`HostFn`].
unsafe extern "C" fn called(data: *mut c_void) {
    // SAFETY: by the caller.
    let function = unsafe { &*data.cast_const().cast::<HostFn>() };
    function.run();
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
