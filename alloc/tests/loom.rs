//! Models of the structures that threads share, explored by loom.
//!
//! Empty unless built with `--cfg streamweir_loom`, for then the locks of the
//! crate are loom's, which work inside a model only:
//!
//! ```text
//! RUSTFLAGS="--cfg streamweir_loom" cargo test -p streamweir-alloc --test loom --release
//! ```
//!
//! Each model names a mutation that makes it fail. Shared ownership is std's
//! `Arc`, whose counts loom does not explore; the threads of a model own clones
//! and the model joins them.
#![cfg(streamweir_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loom::thread;
use streamweir_alloc::{
    AllocError, Arena, ArenaConfig, Backing, BackingError, Lookup, Policy, Pools, Registry,
};
use streamweir_trace::ByteRange;

/// Counts what is reserved. Its atomics are std's: they keep books and order
/// nothing. Yields to the scheduler, as a call that takes its time.
#[derive(Default)]
struct Device {
    next: AtomicU64,
    live: AtomicU64,
    most: AtomicU64,
}

impl Backing for Device {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        thread::yield_now();
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(live, Ordering::Relaxed);
        let start = 0x1000 + self.next.fetch_add(bytes, Ordering::Relaxed);
        Ok(ByteRange::new(start, start + bytes))
    }

    fn release(&self, segment: ByteRange) {
        self.live.fetch_sub(segment.len(), Ordering::Relaxed);
    }
}

fn arena(segment_bytes: u64) -> (Arc<Device>, Arc<Arena>) {
    let device = Arc::new(Device::default());
    let config = ArenaConfig {
        segment_bytes,
        span_bytes: 256,
    };
    (Arc::clone(&device), Arena::new("decode", device, config))
}

/// A handle is dropped on another thread while this one allocates: what is handed
/// out overlaps nothing that is held, and the bytes come back once.
///
/// Fails when `Pools::free` checks that the block is held under one lock and
/// gives its bytes back under another: both frees succeed then.
#[test]
fn loom_pool_free_on_another_thread() {
    loom::model(|| {
        let (_, arena) = arena(1024);
        let pools = Arc::new(Pools::new(arena.open(), Policy::ISOLATED));
        let main = pools.add_stream("main", "main").unwrap();
        let old = pools.alloc(main, 256, "old").unwrap();
        let held = pools.alloc(main, 256, "held").unwrap();

        let other = Arc::clone(&pools);
        let dropper = thread::spawn(move || other.free(old.id));
        let new = pools.alloc(main, 256, "new").unwrap();
        assert!(!new.range.overlaps(&held.range));
        // Called twice by mistake, from both threads: one of them is told.
        let here = pools.free(old.id);
        let there = dropper.join().unwrap();
        assert!(here.is_ok() != there.is_ok());

        let after = [(); 2].map(|()| pools.alloc(main, 256, "after").unwrap().range);
        assert!(!after[0].overlaps(&after[1]));
        for range in after {
            assert!(!range.overlaps(&new.range) && !range.overlaps(&held.range));
        }
    });
}

/// Two threads allocate in one capture, and both have to grow.
///
/// Fails when `Pools::take` takes the new span for its own without looking for a
/// chunk again after it has relocked (the two blocks overlap), and when a grower
/// does not wake those that wait for it.
#[test]
fn loom_pool_alloc_on_two_threads() {
    loom::model(|| {
        let (_, arena) = arena(256);
        let pools = Arc::new(Pools::new(arena.open(), Policy::ORDERED));
        let main = pools.add_stream("main", "main").unwrap();
        let side = pools.add_stream("side", "side").unwrap();
        let other = Arc::clone(&pools);
        let thread = thread::spawn(move || other.alloc(side, 256, "b").unwrap().range);
        let a = pools.alloc(main, 256, "a").unwrap().range;
        let b = thread.join().unwrap();
        assert!(!a.overlaps(&b));
        assert_eq!(pools.report().used, 512);
    });
}

/// A block that both streams have used is freed on one thread while another one
/// joins the streams. It is deferred before the join or open after it, and is had
/// by the next that asks in either case.
///
/// Fails when `Pools::free` finds out under one lock that nobody may have the
/// bytes and defers them under another: a join between the two is the last look
/// at what is deferred, and the bytes are lost to the capture.
#[test]
fn loom_deferred_block_beside_a_join() {
    loom::model(|| {
        let (_, arena) = arena(512);
        let pools = Arc::new(Pools::new(arena.open(), Policy::ORDERED));
        let main = pools.add_stream("main", "main").unwrap();
        let side = pools.add_stream("side", "side").unwrap();
        let shared = pools.alloc(main, 256, "shared").unwrap();
        pools.fork(main, side).unwrap();
        pools.record(side, &[shared.id]).unwrap();
        pools.record(main, &[shared.id]).unwrap();

        let other = Arc::clone(&pools);
        let dropper = thread::spawn(move || other.free(shared.id).unwrap());
        pools.join(main, side).unwrap();
        let beside = pools.alloc(main, 256, "beside").unwrap().range;
        dropper.join().unwrap();
        let after = pools.alloc(main, 256, "after").unwrap().range;
        assert!(!beside.overlaps(&after));
        assert!(beside == shared.range || after == shared.range);
        assert_eq!(pools.report().reserved, 512);
    });
}

/// A capture ends while another thread still allocates in it: the thread gets a
/// block that the lease covers, or is told that the capture is over; nothing stays
/// reserved once all is dropped.
///
/// Fails when a segment that arrives after its view has ended is not released
/// (`Arena::grant`, the arm `GrantError::Ended` without its range).
#[test]
fn loom_pool_end_while_another_thread_allocates() {
    loom::model(|| {
        let (device, arena) = arena(256);
        let pools = Arc::new(Pools::new(arena.open(), Policy::ISOLATED));
        let main = pools.add_stream("main", "main").unwrap();
        let other = Arc::clone(&pools);
        let thread = thread::spawn(move || other.alloc(main, 256, "late"));
        let lease = pools.finish().unwrap();
        match thread.join().unwrap() {
            Ok(block) => assert!(lease.ranges().any(|range| range.contains(&block.range))),
            Err(error) => assert!(matches!(error, AllocError::Ended { .. })),
        }
        assert_eq!(arena.reserved(), device.live.load(Ordering::Relaxed));
        drop((lease, pools, arena));
        assert_eq!(device.live.load(Ordering::Relaxed), 0);
    });
}

/// Two captures grow one arena at once: it reserves what the larger of them
/// needs, not what both need together; the one that fails takes nothing with it
/// that the other uses.
///
/// Fails when a view that finds another one growing does not wait for it
/// (`most` is 512), and when `Segments::grant` does not count the view as a holder
/// (the segment goes back under the lease).
#[test]
fn loom_arena_growth_from_two_views() {
    loom::model(|| {
        let (device, arena) = arena(256);
        let other = Arc::clone(&arena);
        let failing = thread::spawn(move || {
            let pools = Pools::new(other.open(), Policy::ISOLATED);
            let main = pools.add_stream("main", "main").unwrap();
            pools.alloc(main, 256, "a").unwrap();
            pools.abort();
        });
        let pools = Pools::new(arena.open(), Policy::ISOLATED);
        let main = pools.add_stream("main", "main").unwrap();
        let block = pools.alloc(main, 256, "b").unwrap();
        let lease = pools.finish().unwrap();
        failing.join().unwrap();

        assert_eq!(device.most.load(Ordering::Relaxed), 256);
        assert!(arena.segments().contains(&block.range));
        drop((lease, pools, arena));
        assert_eq!(device.live.load(Ordering::Relaxed), 0);
    });
}

/// Memory that grows at its end, and a book of what is mapped.
#[derive(Default)]
struct Growing {
    pieces: std::sync::Mutex<Vec<ByteRange>>,
}

impl Growing {
    fn add(&self, start: u64, bytes: u64) -> ByteRange {
        let piece = ByteRange::new(start, start + bytes);
        let mut pieces = self.pieces.lock().unwrap();
        assert!(!pieces.iter().any(|other| other.overlaps(&piece)));
        pieces.push(piece);
        piece
    }

    fn bytes(&self) -> u64 {
        self.pieces.lock().unwrap().iter().map(ByteRange::len).sum()
    }
}

impl Backing for Growing {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        thread::yield_now();
        let ranges = self
            .pieces
            .lock()
            .unwrap()
            .iter()
            .map(|p| p.start >> 20)
            .max();
        Ok(self.add((ranges.unwrap_or(0) + 1) << 20, bytes))
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        thread::yield_now();
        assert!(self.pieces.lock().unwrap().contains(&piece), "it is gone");
        Ok(Some(self.add(piece.end, bytes)))
    }

    fn release(&self, piece: ByteRange) {
        let mut pieces = self.pieces.lock().unwrap();
        let at = pieces.iter().position(|other| *other == piece);
        pieces.swap_remove(at.expect("a piece goes once"));
    }
}

/// One capture makes the segment longer while another thread trims the arena and
/// a capture fails there: the segment is in one place, what the lease covers is
/// mapped, and nothing is left when all is gone.
///
/// Fails when `Segments::take` takes the last piece of the segment that is being
/// made longer ("it is gone").
#[test]
fn loom_arena_grows_at_its_end_beside_a_trim() {
    loom::model(|| {
        let device = Arc::new(Growing::default());
        let config = ArenaConfig {
            segment_bytes: 256,
            span_bytes: 256,
        };
        let arena = Arena::new("decode", device.clone(), config);
        drop(Pools::new(arena.open(), Policy::ISOLATED));
        let small = arena.open();
        small.take(256).unwrap();
        let small = small.finish().unwrap();

        let other = Arc::clone(&arena);
        let trimmer = thread::spawn(move || {
            drop(small);
            other.trim();
        });
        let view = arena.open();
        let taken = view.take(768).unwrap();
        let lease = view.finish().unwrap();
        trimmer.join().unwrap();
        assert_eq!(taken.len(), 768);
        assert!(lease.ranges().any(|range| range.contains(&taken)));
        let whole = arena.segments();
        assert!(
            whole.iter().any(|segment| segment.contains(&taken)),
            "{whole:?}"
        );
        assert_eq!(arena.reserved(), device.bytes());
        drop(lease);
        arena.trim();
        assert_eq!(device.bytes(), 0);
    });
}

/// One thread lets go of a persistent buffer while another one looks it up and
/// registers the same addresses again.
///
/// Fails when `Table::bury` does not compare the number: the late drop of the old
/// entry takes the new one out.
#[test]
fn loom_registry_register_and_release() {
    loom::model(|| {
        let registry = Registry::new();
        let range = ByteRange::new(0x1000, 0x2000);
        let old = registry.register(range, "old", Arc::new(())).unwrap();
        let dropper = thread::spawn(move || drop(old));
        match registry.find(0x1000) {
            Lookup::Live(entry) => assert_eq!(&**entry.name(), "old"),
            Lookup::Gone(gone) => assert_eq!(&*gone.name, "old"),
            Lookup::Unknown => panic!("what was registered is remembered"),
        }
        let new = registry.register(range, "new", Arc::new(()));
        dropper.join().unwrap();
        match (new, registry.find(0x1000)) {
            (Ok(new), Lookup::Live(found)) => assert!(Arc::ptr_eq(&new, &found)),
            (Err(_), Lookup::Gone(gone)) => assert_eq!(&*gone.name, "old"),
            (new, found) => panic!("{new:?} but {found:?}"),
        }
    });
}
