//! The bytes of one pool under two streams and more.

use streamweir_base::{Backing, BackingError};

use super::*;
use crate::arena::{Arena, ArenaConfig};

#[derive(Debug)]
struct Addresses;

impl Backing for Addresses {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        Ok(ByteRange::new(1 << 20, (1 << 20) + bytes))
    }

    fn release(&self, _segment: ByteRange) {}
}

const PIECE: u64 = 8192;

/// main takes 64 blocks, side reads them, main frees them.
fn with_deferred(shared: bool) -> (Space, Clocks, StreamId, StreamId) {
    let arena = Arena::new(
        "test",
        std::sync::Arc::new(Addresses),
        ArenaConfig::default(),
    );
    let view = arena.open();
    let mut clocks = Clocks::default();
    let (main, side) = (clocks.add_stream(), clocks.add_stream());
    let mut space = Space::new(if shared { Whose::All } else { Whose::One(main) });
    let Ok(span) = view.grant(64 * PIECE, &[]) else {
        panic!("the arena is open")
    };
    space.add(span, &clocks);
    let chunks: Vec<u32> = (0..64)
        .map(|_| space.take(main, PIECE, &clocks).expect("room"))
        .collect();
    clocks.wait_for(side, main);
    for chunk in chunks {
        give_after_both(&mut space, &mut clocks, chunk, main, side);
    }
    (space, clocks, main, side)
}

fn give_after_both(
    space: &mut Space,
    clocks: &mut Clocks,
    chunk: u32,
    main: StreamId,
    side: StreamId,
) {
    let mut users = Clock::default();
    users.raise(clocks.record(main).expect("room"));
    users.raise(clocks.record(side).expect("room"));
    space.give(chunk, users, clocks);
}

fn join(space: &mut Space, clocks: &mut Clocks, into: StreamId, from: StreamId) {
    clocks.wait_for(into, from);
    space.open_reached(into, clocks);
}

#[test]
fn a_request_does_not_see_what_is_deferred() {
    for shared in [false, true] {
        let (mut space, mut clocks, main, side) = with_deferred(shared);
        assert_eq!(space.gaps.lowest(1, 0), None);
        assert_eq!(space.take(main, PIECE, &clocks), None);
        join(&mut space, &mut clocks, main, side);
        assert!(space.take(main, PIECE, &clocks).is_some());
    }
}

#[test]
fn what_was_deferred_is_one_piece_when_it_comes_back() {
    for shared in [false, true] {
        let (mut space, mut clocks, main, side) = with_deferred(shared);
        join(&mut space, &mut clocks, main, side);
        let gap = space
            .gaps
            .get(space.gaps.lowest(64 * PIECE, 0).expect("one gap"));
        assert_eq!(space.range(gap.first).len(), 64 * PIECE, "of one chunk");
        assert!(space.take(main, 64 * PIECE, &clocks).is_some());
    }
}

/// Main may use the even pieces, both may use the odd ones. What main takes
/// spans both kinds, and what is left over is as free as it was.
#[test]
fn a_piece_spans_chunks_that_different_streams_may_use() {
    let (mut space, mut clocks, main, side) = with_deferred(true);
    join(&mut space, &mut clocks, main, side);
    join(&mut space, &mut clocks, side, main);
    let pieces: Vec<u32> = (0..64)
        .map(|_| space.take(main, PIECE, &clocks).expect("room"))
        .collect();
    let used_by_main = clocks.record(main).expect("room");
    for (at, &piece) in pieces.iter().enumerate() {
        let mut need = Clock::default();
        if at % 2 == 0 {
            need.raise(used_by_main);
        }
        space.give(piece, need, &clocks);
    }
    assert_eq!(
        space.take(side, PIECE + 1, &clocks),
        None,
        "no piece is larger"
    );
    let wide = space.take(main, 3 * PIECE / 2, &clocks).expect("room");
    assert_eq!(
        space.range(wide),
        ByteRange::new(1 << 20, (1 << 20) + 3 * PIECE / 2)
    );
    let rest = space
        .take(side, PIECE / 2, &clocks)
        .expect("half of an odd one");
    assert_eq!(space.range(rest).start, space.range(wide).end);
}

/// 63 chunks wait for a stream `lazy`, while another one comes and goes between
/// main and side. The stream `idle` looks at it each time and reaches nothing.
#[test]
fn what_waits_long_is_kept_while_notes_of_the_rest_do_not_pile_up() {
    for idle_gets_it in [false, true] {
        let (mut space, mut clocks, main, side) = with_deferred(true);
        let (lazy, idle) = (clocks.add_stream(), clocks.add_stream());
        join(&mut space, &mut clocks, main, side);
        for chunk in [(); 63].map(|()| space.take(main, PIECE, &clocks).expect("room")) {
            give_after_both(&mut space, &mut clocks, chunk, main, lazy);
        }
        for _ in 0..2000 {
            let chunk = space.take(main, PIECE, &clocks).expect("it came back");
            give_after_both(&mut space, &mut clocks, chunk, main, side);
            join(&mut space, &mut clocks, idle, idle);
            join(&mut space, &mut clocks, side, main);
            join(&mut space, &mut clocks, main, side);
        }
        let bound = 5 * (65 + 2 * space.chunks.len());
        assert!(space.deferred.entries() <= bound);
        let waiter = if idle_gets_it { idle } else { lazy };
        join(&mut space, &mut clocks, waiter, main);
        join(&mut space, &mut clocks, waiter, lazy);
        assert!(space.take(waiter, 63 * PIECE, &clocks).is_some());
    }
}

/// Of ten pieces main holds some, and side may have those that nobody has used since it waited.
fn with_pieces_of_side(usable: [bool; 10]) -> (Space, Clocks, StreamId) {
    let (mut space, mut clocks, main, side) = with_deferred(true);
    join(&mut space, &mut clocks, main, side);
    join(&mut space, &mut clocks, side, main);
    let pieces = [(); 64].map(|()| space.take(main, PIECE, &clocks).expect("room"));
    let used_by_main = clocks.record(main).expect("room");
    for (&piece, usable) in pieces.iter().zip(usable) {
        let mut need = Clock::default();
        if !usable {
            need.raise(used_by_main);
        }
        space.give(piece, need, &clocks);
    }
    (space, clocks, side)
}

/// What was found to be the longest piece is the longest, wherever in the gap it lies.
#[test]
fn a_look_in_vain_remembers_the_longest_piece() {
    let (yes, no) = (true, false);
    for usable in [
        // In front of a shorter one.
        [yes, yes, no, yes, no, no, no, no, no, no],
        // At the end.
        [no, no, no, no, no, no, no, no, yes, yes],
        // Between shorter ones.
        [yes, no, no, yes, yes, no, yes, no, no, no],
    ] {
        let (mut space, clocks, side) = with_pieces_of_side(usable);
        assert_eq!(space.take(side, 3 * PIECE, &clocks), None, "{usable:?}");
        assert!(space.take(side, 2 * PIECE, &clocks).is_some(), "{usable:?}");
    }
}

/// Pieces of one size that begin where the one before ends.
#[derive(Debug)]
struct OneAfterTheOther(std::sync::atomic::AtomicU64);

impl Backing for OneAfterTheOther {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let start = self
            .0
            .fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
        Ok(ByteRange::new(start, start + bytes))
    }

    fn release(&self, _segment: ByteRange) {}
}

#[test]
fn no_piece_spans_two_segments_even_where_one_begins_where_the_other_ends() {
    let config = ArenaConfig {
        segment_bytes: PIECE,
        span_bytes: PIECE,
    };
    let backing = OneAfterTheOther(std::sync::atomic::AtomicU64::new(1 << 20));
    let arena = Arena::new("test", std::sync::Arc::new(backing), config);
    let view = arena.open();
    let mut clocks = Clocks::default();
    let main = clocks.add_stream();
    let mut space = Space::new(Whose::One(main));
    let mut end = 1 << 20;
    for _ in 0..2 {
        let Ok(span) = view.grant(PIECE, &[]) else {
            panic!("the arena is open")
        };
        assert_eq!(span.range.start, end, "beside each other");
        end = span.range.end;
        space.add(span, &clocks);
    }
    assert_eq!(space.take(main, 2 * PIECE, &clocks), None);
    assert!(space.take(main, PIECE, &clocks).is_some());
}

/// What is cut and merged again and again needs no more chunks than are there at one time.
#[test]
fn chunks_that_were_absorbed_are_used_again() {
    let (mut space, mut clocks, main, side) = with_deferred(false);
    join(&mut space, &mut clocks, main, side);
    for _ in 0..1000 {
        let pieces = [(); 4].map(|()| space.take(main, PIECE, &clocks).expect("room"));
        for piece in pieces {
            space.give(piece, Clock::default(), &clocks);
        }
    }
    assert!(space.chunks.len() <= 70, "{} chunks", space.chunks.len());
}
