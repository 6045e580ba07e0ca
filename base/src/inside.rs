//! Which capture the calling thread is in.
//!
//! CUDA forbids some calls inside a capture and lets others through that would
//! hurt (loading code may synchronise). Every operation that does not belong
//! inside asks here first, so that it is a typed error and not a broken
//! capture.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static CAPTURES: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// The name of the innermost capture of the calling thread.
pub fn inside() -> Option<Arc<str>> {
    CAPTURES.with_borrow(|captures| captures.last().cloned())
}

/// The calling thread is inside a capture while this lives.
#[derive(Debug)]
pub struct Inside {
    name: Arc<str>,
    // The mark is the thread's own.
    _not_send: PhantomData<*const ()>,
}

impl Inside {
    /// Marks the thread until this is dropped. Marks of one thread may be dropped
    /// in any order.
    #[must_use = "the mark goes with the value"]
    pub fn enter(name: Arc<str>) -> Self {
        CAPTURES.with_borrow_mut(|captures| captures.push(name.clone()));
        Self {
            name,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CAPTURES.with_borrow_mut(|captures| {
            // Captures of one thread need not end in the order they began.
            if let Some(at) = captures
                .iter()
                .rposition(|name| std::ptr::eq(&**name, &*self.name))
            {
                captures.remove(at);
            }
        });
    }
}
