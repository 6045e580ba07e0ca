//! Processor time and heap, so that a machine which is not idle gives the same
//! table as one that is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The system's allocator, which also keeps count of the bytes in use.
struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    HIGHEST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is handed on to `System` unchanged, and counting does not
// allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        // SAFETY: the caller keeps to the contract of `realloc`.
        let moved = unsafe { System.realloc(at, layout, size) };
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        moved
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The most bytes of heap that `run` had in use at once, above those that were
/// in use before it. A block that moves counts twice while it does.
pub(crate) fn heap<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = IN_USE.load(Ordering::Relaxed);
    HIGHEST.store(before, Ordering::Relaxed);
    let value = run();
    (value, HIGHEST.load(Ordering::Relaxed) - before)
}

/// The least processor time of this thread that one of `runs` runs took.
pub(crate) fn least(runs: usize, mut run: impl FnMut()) -> Duration {
    let times = (0..runs).map(|_| {
        let begin = now();
        run();
        now().saturating_sub(begin)
    });
    times.min().unwrap_or_default()
}

/// The processor time of this thread so far.
#[cfg(unix)]
fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that lives through the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "every Unix of today has a clock for each thread");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Elsewhere the time that has passed.
#[cfg(not(unix))]
fn now() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}
