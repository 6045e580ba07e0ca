//! Who uses page-locked memory beside its owner, and when the host may have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use streamweir_base::sync::Mutex;
use streamweir_hal::owned::HostMemory;

use super::persistent::PersistentInner;
use crate::error::{Error, FeedError, Result};

/// Page-locked memory, shared by its owner, recordings and graphs.
pub(crate) struct PinnedInner {
    /// As a buffer: its name and addresses, in traces, reports and footprints.
    pub(crate) buffer: Arc<PersistentInner>,
    memory: Arc<HostMemory>,
    /// The host holds it: nothing that touches it is launched.
    held: AtomicBool,
    /// A copy to it was recorded since its owner was last alone with it.
    written: AtomicBool,
    /// Captures and eager runs in progress that have a copy from or to it.
    recordings: AtomicUsize,
    /// Graphs of engines that have one.
    engines: AtomicUsize,
    /// Why what is in it means nothing.
    poison: Mutex<Option<String>>,
}

impl PinnedInner {
    pub(super) fn new(buffer: Arc<PersistentInner>, memory: Arc<HostMemory>) -> Self {
        Self {
            buffer,
            memory,
            held: AtomicBool::new(false),
            written: AtomicBool::new(false),
            recordings: AtomicUsize::new(0),
            engines: AtomicUsize::new(0),
            poison: Mutex::new(None),
        }
    }

    pub(crate) fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Notes that a copy to it is recorded.
    pub(crate) fn note_written(&self) {
        self.written.store(true, Ordering::Release);
    }

    /// Notes why what is in it means nothing.
    pub(crate) fn poison(&self, why: String) {
        self.poison.lock().get_or_insert(why);
    }

    /// Why what is in it means nothing, if that is so.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.poison.lock().clone()
    }

    /// The owner is alone with it, and what happened to it is over.
    pub(super) fn note_alone(&self) {
        *self.poison.lock() = None;
        self.set_held(false);
        self.written.store(false, Ordering::Release);
    }

    pub(super) fn is_written(&self) -> bool {
        self.written.load(Ordering::Acquire)
    }

    /// Whether the host holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }

    pub(super) fn set_held(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }

    /// Refuses memory of which nobody can say when it is free.
    pub(super) fn check_known(&self) -> Result<()> {
        let refused = |why| {
            Err(Error::Feed(FeedError::NotHeld {
                buffer: self.buffer.name.to_string(),
                why,
            }))
        };
        if self.recordings.load(Ordering::SeqCst) > 0 {
            return refused(
                "a capture or an eager run that is not over has a copy from or to it; end that first",
            );
        }
        if self.engines.load(Ordering::SeqCst) > 0 {
            return refused(
                "a graph of an engine has a copy from or to it, and nobody here knows when the \
                 engine replays that; drop the engine's graph first",
            );
        }
        Ok(())
    }
}

macro_rules! counted {
    ($(#[$doc:meta])* $name:ident, $count:ident) => {
        $(#[$doc])*
        pub(crate) struct $name(Arc<PinnedInner>);

        impl $name {
            pub(crate) fn of(memory: &Arc<PinnedInner>) -> Self {
                memory.$count.fetch_add(1, Ordering::SeqCst);
                Self(memory.clone())
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.0.$count.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
}

counted!(
    /// A capture or an eager run in progress has a copy from or to the memory.
    Recorded, recordings
);
counted!(
    /// A graph of an engine has one.
    OfEngine, engines
);

impl Recorded {
    pub(crate) fn memory(&self) -> &Arc<PinnedInner> {
        &self.0
    }
}

// A call of a library keeps a copy of its draft.
impl Clone for Recorded {
    fn clone(&self) -> Self {
        Self::of(&self.0)
    }
}
