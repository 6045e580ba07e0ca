use std::error::Error;
use std::sync::Arc;

use streamweir_alloc::{
    AllocError, Arena, ArenaConfig, Backing, BackingError, Policy, Pools, View,
};
use streamweir_trace::ByteRange;

use crate::device::Device;

const KIB: u64 = 1024;

/// A capture that holds blocks of these sizes at once.
fn capture(arena: &Arc<Arena>, sizes: &[u64]) -> Pools {
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    for &bytes in sizes {
        pools.alloc(main, bytes, "x").unwrap();
    }
    pools
}

#[test]
fn an_arena_reserves_the_maximum_over_its_captures() {
    let device = Device::new();
    let arena = device.arena(64 * KIB, 4 * KIB);
    let large = capture(&arena, &[40 * KIB]).finish().unwrap();
    let small = capture(&arena, &[8 * KIB, 16 * KIB]).finish().unwrap();
    assert_eq!(device.bytes(), 64 * KIB);
    let (large, small) = (large.ranges().next(), small.ranges().next());
    assert!(large.unwrap().contains(&small.unwrap()));
}

#[test]
fn growth_keeps_old_segments_in_place() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    let first = capture(&arena, &[16 * KIB]).finish().unwrap();
    let before = arena.segments();
    let second = capture(&arena, &[16 * KIB, 48 * KIB]).finish().unwrap();
    assert_eq!(arena.segments()[0], before[0]);
    assert_eq!(arena.reserved(), 64 * KIB);
    assert_eq!(first.bytes(), 16 * KIB);
    assert_eq!(second.bytes(), 64 * KIB);
}

#[test]
fn a_capture_that_fails_leaves_the_arena_as_it_was() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    let lease = capture(&arena, &[16 * KIB]).finish().unwrap();
    let before = device.live();

    capture(&arena, &[16 * KIB, 32 * KIB]).abort();
    assert_eq!(device.live(), before);
    drop(capture(&arena, &[32 * KIB]));
    assert_eq!(device.live(), before, "a drop is an abort");

    // What one capture reserved, another one that is open may use.
    let failing = capture(&arena, &[16 * KIB, 32 * KIB]);
    let succeeding = capture(&arena, &[16 * KIB, 32 * KIB]);
    let grown = device.live();
    assert_eq!(grown.len(), 2);
    failing.abort();
    assert_eq!(device.live(), grown, "the other capture uses it");
    let second = succeeding.finish().unwrap();
    assert_eq!(device.live(), grown);

    // Two that both fail leave nothing, whichever made the arena grow.
    let one = capture(&arena, &[64 * KIB]);
    let two = capture(&arena, &[64 * KIB]);
    one.abort();
    two.abort();
    assert_eq!(device.live(), grown);
    drop((lease, second));
}

#[test]
fn an_aborted_capture_keeps_what_an_earlier_one_committed() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    drop(capture(&arena, &[16 * KIB]).finish().unwrap());
    capture(&arena, &[16 * KIB]).abort();
    assert_eq!(device.bytes(), 16 * KIB);
}

#[test]
fn trim_hands_back_what_no_lease_covers() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    let small = capture(&arena, &[16 * KIB]).finish().unwrap();
    let large = capture(&arena, &[16 * KIB, 32 * KIB]).finish().unwrap();
    assert_eq!(arena.trim(), 0);
    drop(large);
    assert_eq!(arena.trim(), 32 * KIB);
    assert_eq!(device.bytes(), 16 * KIB);
    drop(small);
    assert_eq!(arena.trim(), 16 * KIB);
    assert_eq!(device.bytes(), 0);
}

#[test]
fn a_lease_outlives_the_arenas_handles() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    let lease = capture(&arena, &[KIB]).finish().unwrap();
    drop(arena);
    assert_eq!(device.bytes(), 16 * KIB);
    drop(lease);
    assert_eq!(device.bytes(), 0);
}

#[test]
fn out_of_memory_names_everything_and_leaves_the_pools_usable() {
    let device = Device::new();
    device.limit(16 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let side = pools.add_stream("side", "indexer").unwrap();
    let first = pools.alloc(side, 8 * KIB, "first").unwrap();
    let error = pools.alloc(side, 64 * KIB, "scores").unwrap_err();
    assert!(error.is_out_of_memory());
    let text = error.to_string();
    for part in [
        "65536 bytes",
        "\"scores\"",
        "\"side\"",
        "\"indexer\"",
        "\"decode\"",
        "holds 16384",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let root = error.source().unwrap().source().unwrap();
    assert_eq!(root.to_string(), "CUDA_ERROR_OUT_OF_MEMORY");

    pools.free(first.id).unwrap();
    assert_eq!(
        pools.alloc(side, 8 * KIB, "again").unwrap().range,
        first.range
    );
    pools.abort();
    assert_eq!(device.bytes(), 0);
    assert_eq!(
        capture(&arena, &[16 * KIB]).finish().unwrap().bytes(),
        16 * KIB
    );
}

#[test]
fn another_failure_is_not_called_out_of_memory() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    device.set_broken(true);
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    let error = pools.alloc(main, 1, "x").unwrap_err();
    assert!(matches!(error, AllocError::Backing { .. }), "{error}");
    device.set_broken(false);
    pools.alloc(main, 1, "x").unwrap();
}

/// Gives half of what is asked for, at an odd address.
struct Careless(std::sync::Mutex<Vec<ByteRange>>);

impl Backing for Careless {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let range = ByteRange::new(0x1001, 0x1001 + bytes / 2);
        self.0.lock().unwrap().push(range);
        Ok(range)
    }

    fn release(&self, segment: ByteRange) {
        self.0.lock().unwrap().retain(|live| *live != segment);
    }
}

#[test]
fn a_backing_that_breaks_its_promise_is_an_error_not_an_overlap() {
    let backing = Arc::new(Careless(std::sync::Mutex::default()));
    let arena = Arena::new("a", backing.clone(), ArenaConfig::default());
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    let error = pools.alloc(main, 512, "x").unwrap_err();
    let root = error.source().unwrap().source().unwrap().to_string();
    assert!(root.contains("0x1001"), "{root}");
    assert!(backing.0.lock().unwrap().is_empty());
}

/// Panics on the first call.
struct Panicking(std::sync::atomic::AtomicBool, Arc<Device>);

impl Backing for Panicking {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        assert!(
            self.0.swap(true, std::sync::atomic::Ordering::Relaxed),
            "first call"
        );
        self.1.reserve(bytes)
    }

    fn release(&self, segment: ByteRange) {
        self.1.release(segment);
    }
}

#[test]
fn a_backing_that_panics_does_not_lock_out_the_next_capture() {
    let backing = Panicking(Default::default(), Device::new());
    let arena = Arena::new("a", Arc::new(backing), ArenaConfig::default());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        capture(&arena, &[KIB]);
    }));
    assert!(panicked.is_err());
    capture(&arena, &[KIB]).finish().unwrap();
}

#[test]
fn two_threads_capture_in_one_arena_at_once() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..50 {
                    let pools = capture(&arena, &[4 * KIB, 12 * KIB, 8 * KIB]);
                    if round % 2 == 0 {
                        pools.abort();
                    } else {
                        assert!(pools.finish().unwrap().bytes() >= 24 * KIB);
                    }
                }
            });
        }
    });
    drop(arena);
    assert_eq!(device.live(), []);
}

/// A capture that takes one piece.
fn planned(arena: &Arc<Arena>, bytes: u64) -> View {
    let view = arena.open();
    view.take(bytes).unwrap();
    view
}

#[test]
fn a_segment_grows_in_place_for_a_larger_bucket() {
    let device = Device::extending(256 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let small = planned(&arena, 12 * KIB).finish().unwrap();
    let before = arena.segments();
    let large = planned(&arena, 40 * KIB).finish().unwrap();
    assert_eq!(arena.segments().len(), 1, "one range");
    assert_eq!(arena.segments()[0].start, before[0].start, "nothing moves");
    assert_eq!(arena.reserved(), 40 * KIB, "the maximum over both");
    assert_eq!(device.bytes(), 40 * KIB);
    let (small, large) = (small.ranges().next(), large.ranges().next());
    assert!(large.unwrap().contains(&small.unwrap()));
}

#[test]
fn growth_beyond_the_reservation_is_a_new_segment() {
    let device = Device::extending(64 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let _small = planned(&arena, 60 * KIB).finish().unwrap();
    let large = planned(&arena, 80 * KIB).finish().unwrap();
    assert_eq!(arena.segments().len(), 2);
    assert_eq!(large.ranges().len(), 1, "a layout is one piece");
    assert_eq!(device.bytes(), (60 + 80) * KIB);
}

#[test]
fn a_failed_capture_gives_the_end_of_a_segment_back() {
    let device = Device::extending(256 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let lease = planned(&arena, 12 * KIB).finish().unwrap();
    let before = device.live();
    drop(planned(&arena, 100 * KIB));
    assert_eq!(device.live(), before);
    // The end that another open capture needs stays as long as that one does.
    let (longer, shorter) = (planned(&arena, 100 * KIB), planned(&arena, 30 * KIB));
    drop(longer);
    assert_eq!(arena.reserved(), 100 * KIB, "one piece holds both");
    drop(shorter);
    assert_eq!(device.live(), before);
    drop(lease);
}

#[test]
fn trim_gives_back_what_no_lease_covers() {
    let device = Device::extending(256 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let small = planned(&arena, 12 * KIB).finish().unwrap();
    let large = planned(&arena, 100 * KIB).finish().unwrap();
    assert_eq!(arena.trim(), 0);
    drop(large);
    assert_eq!(arena.reserved(), 100 * KIB, "kept for the next capture");
    assert_eq!(arena.trim(), 84 * KIB);
    assert_eq!(arena.reserved(), 16 * KIB);
    drop(small);
    assert_eq!(arena.trim(), 16 * KIB);
    assert_eq!(device.live(), []);
    // It grows anew after that.
    let again = planned(&arena, 20 * KIB).finish().unwrap();
    assert_eq!(again.bytes(), 20 * KIB);
}

#[test]
fn growth_that_fails_leaves_the_segment_and_says_what_was_needed() {
    let device = Device::extending(256 * KIB);
    let arena = device.arena(16 * KIB, 4 * KIB);
    let _lease = planned(&arena, 12 * KIB).finish().unwrap();
    device.limit(64 * KIB);
    let error = arena.open().take(100 * KIB).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let text = error.to_string();
    for word in ["\"decode\"", "102400", "16384", "largest bucket first"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert_eq!(arena.reserved(), 16 * KIB);
    planned(&arena, 64 * KIB).finish().unwrap();
}

#[test]
fn a_view_that_has_ended_gives_nothing() {
    let device = Device::new();
    let arena = device.arena(16 * KIB, 4 * KIB);
    let view = planned(&arena, 12 * KIB);
    let _lease = view.finish().unwrap();
    assert!(matches!(view.take(256), Err(AllocError::Ended { .. })));
    assert!(matches!(view.finish(), Err(AllocError::Ended { .. })));
    let error = arena.open().take(u64::MAX).unwrap_err();
    assert!(matches!(error, AllocError::TooLarge { .. }), "{error}");
}
