//! Which capture the calling thread is in.
//!
//! CUDA forbids some calls inside a capture and lets others through that would
//! hurt (loading code may synchronise). Every operation that does not belong
//! inside asks here first, so that it is a typed error and not a broken
//! capture.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A capture's name, and the number of its device.
type Mark = (Arc<str>, usize);

thread_local! {
    static CAPTURES: RefCell<Vec<Mark>> = const { RefCell::new(Vec::new()) };
}

/// The name of the innermost capture of the calling thread.
pub fn inside() -> Option<Arc<str>> {
    CAPTURES.with_borrow(|captures| captures.last().map(|(name, _)| name.clone()))
}

/// The name of the innermost capture of the calling thread on a device.
pub fn inside_on(device: usize) -> Option<Arc<str>> {
    CAPTURES.with_borrow(|captures| {
        let mut on = captures.iter().rev().filter(|(_, on)| *on == device);
        on.next().map(|(name, _)| name.clone())
    })
}

/// The calling thread is inside a capture while this lives.
#[derive(Debug)]
pub struct Inside {
    name: Arc<str>,
    // The mark is the thread's own.
    _not_send: PhantomData<*const ()>,
}

impl Inside {
    /// Marks the thread until this is dropped: inside a capture on `device`, a number
    /// that no other live device has. Marks of one thread may be dropped in any order.
    #[must_use = "the mark goes with the value"]
    pub fn enter(name: Arc<str>, device: usize) -> Self {
        CAPTURES.with_borrow_mut(|captures| captures.push((name.clone(), device)));
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
                .rposition(|(name, _)| std::ptr::eq(&**name, &*self.name))
            {
                captures.remove(at);
            }
        });
    }
}
