//! Where in its pool a block lies, and what the pool takes from the arena.

use streamweir_alloc::{ALIGNMENT, Policy};
use streamweir_trace::{ByteRange, StreamId};

use super::{KIB, forked};

/// The lowest hole that is large enough, and not the one that fits best.
#[test]
fn the_lowest_room_is_taken_and_split() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let sizes = [1024, 256, 8192, 256, 3072, 256, 16384, 256];
    let blocks = sizes.map(|bytes| pools.alloc(main, bytes, "x").unwrap());
    for at in [6, 0, 4, 2] {
        pools.free(blocks[at].id).unwrap();
    }
    // The neighbours of the holes are held, so each is by itself.
    let fit = pools.alloc(main, 2560, "fit").unwrap();
    assert_eq!(
        fit.range.start, blocks[2].range.start,
        "the first is too small"
    );
    let rest = pools.alloc(main, 4096, "rest").unwrap();
    assert_eq!(rest.range.start, fit.range.end);
    let small = pools.alloc(main, 512, "small").unwrap();
    assert_eq!(small.range.start, blocks[0].range.start);
}

/// What is free at the end counts towards what is asked for: the pool grows by
/// the difference.
#[test]
fn the_end_of_a_pool_is_made_longer() {
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let (pools, main, side) = forked(policy);
        let held = pools.alloc(main, 4 * KIB, "held").unwrap();
        let end = pools.alloc(main, 12 * KIB, "end").unwrap();
        pools.free(end.id).unwrap();
        let longer = pools.alloc(main, 20 * KIB, "longer").unwrap();
        assert_eq!(longer.range.start, end.range.start, "{policy}");
        assert_eq!(pools.report().reserved, 24 * KIB, "{policy}");
        // Not by what another stream may not have.
        pools.record(main, &[longer.id, held.id]).unwrap();
        pools.free(longer.id).unwrap();
        let other = pools.alloc(side, 24 * KIB, "other").unwrap();
        assert!(!other.range.overlaps(&longer.range), "{policy}");
        assert_eq!(pools.report().reserved, 48 * KIB, "{policy}");
    }
}

/// The segment has less left than side asks for, and what is free before that is
/// not for side: nothing of the segment is taken for it in vain.
#[test]
fn what_a_stream_may_not_have_is_no_end_for_it() {
    let (pools, main, side) = forked(Policy::ORDERED);
    let most = pools.alloc(main, 60 * KIB, "most").unwrap();
    pools.record(main, &[most.id]).unwrap();
    pools.free(most.id).unwrap();
    let other = pools.alloc(side, 8 * KIB, "other").unwrap();
    assert!(!other.range.overlaps(&most.range));
    assert_eq!(pools.report().reserved, 68 * KIB);
}

/// Two neighbours, of which side may have the second alone: main gets both in one
/// piece, and what it leaves of the second is still for either.
#[test]
fn one_piece_may_lie_in_bytes_of_different_needs() {
    let (pools, main, side) = forked(Policy::ORDERED);
    let [a, b] = ["a", "b"].map(|name| pools.alloc(main, 4 * KIB, name).unwrap());
    pools.free(b.id).unwrap();
    pools.record(main, &[a.id]).unwrap();
    pools.free(a.id).unwrap();
    let both = pools.alloc(main, 6 * KIB, "both").unwrap();
    assert_eq!(both.range.start, a.range.start);
    let rest = pools.alloc(side, 2 * KIB, "rest").unwrap();
    assert_eq!(rest.range.start, both.range.end);
    assert_eq!(pools.report().reserved, 8 * KIB);
}

/// A gap of three, of which side may have the one in the middle, and a gap further
/// up: the lower one is too small for what main asks for first, and just right for
/// what it asks for then.
#[test]
fn a_look_in_vain_hides_no_room_from_a_smaller_request() {
    let (pools, main, side) = forked(Policy::ORDERED);
    let a = pools.alloc(main, 8 * KIB, "a").unwrap();
    let b = pools.alloc(side, 8 * KIB, "b").unwrap();
    let c = pools.alloc(main, 8 * KIB, "c").unwrap();
    pools.alloc(main, 4 * KIB, "wall").unwrap();
    let room = pools.alloc(main, 12 * KIB, "room").unwrap();
    assert_eq!((a.range.end, b.range.end), (b.range.start, c.range.start));
    for (stream, block) in [(main, a), (side, b), (main, c), (main, room)] {
        pools.record(stream, &[block.id]).unwrap();
        pools.free(block.id).unwrap();
    }
    let large = pools.alloc(main, 12 * KIB, "large").unwrap();
    assert_eq!(large.range, room.range);
    let fits = pools.alloc(main, 8 * KIB, "fits").unwrap();
    assert_eq!(fits.range, a.range);
}

#[test]
fn neighbours_merge_into_room_for_a_larger_block() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let blocks = [(); 4].map(|()| pools.alloc(main, 1024, "part").unwrap());
    // Middle ones first, so that a merge has to look both ways.
    for at in [1, 3, 0, 2] {
        pools.free(blocks[at].id).unwrap();
    }
    let whole = pools.alloc(main, 4096, "whole").unwrap();
    assert_eq!(whole.range.start, blocks[0].range.start);
    assert_eq!(pools.report().reserved, 4096);
}

/// Two neighbours, one of them read by side. A merge on the free of either would
/// lock the other one's bytes until the join.
#[test]
fn a_merge_locks_no_bytes_and_is_made_up_for_after_the_join() {
    for read_first in [true, false] {
        let (pools, main, side) = forked(Policy::ISOLATED);
        let a = pools.alloc(main, 2048, "a").unwrap();
        let b = pools.alloc(main, 2048, "b").unwrap();
        pools.record(main, &[a.id, b.id]).unwrap();
        pools.fork(main, side).unwrap();
        pools.record(side, &[b.id]).unwrap();
        for id in if read_first {
            [b.id, a.id]
        } else {
            [a.id, b.id]
        } {
            pools.free(id).unwrap();
        }
        let c = pools.alloc(main, 2048, "c").unwrap();
        assert_eq!(c.range, a.range);
        pools.free(c.id).unwrap();
        pools.join(main, side).unwrap();
        let both = pools.alloc(main, 4096, "both").unwrap();
        assert_eq!(both.range.start, a.range.start);
        assert_eq!(pools.report().reserved, 4096);
    }
}

#[test]
fn addresses_are_aligned_and_empty_buffers_have_their_own() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let blocks = [0, 1, 0, 257, 0].map(|bytes| pools.alloc(main, bytes, "x").unwrap());
    for (i, block) in blocks.iter().enumerate() {
        assert_eq!(block.range.start % ALIGNMENT, 0);
        assert!(!block.range.is_empty());
        assert!(
            blocks[..i]
                .iter()
                .all(|other| !other.range.overlaps(&block.range))
        );
    }
    assert_eq!(pools.bytes_of(blocks[3].id), Some(257));
    assert_eq!(pools.bytes_of(blocks[0].id), Some(ALIGNMENT));
}

/// What is held is more than what blocks lie in: whole spans, freed or not.
#[test]
fn what_is_reserved_is_told_by_stream_where_pools_are_apart() {
    let bytes = |held: &[(Option<StreamId>, ByteRange)], stream| -> u64 {
        let held = held.iter().filter(|held| held.0 == stream);
        held.map(|held| held.1.len()).sum()
    };
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let (pools, main, side) = forked(policy);
        assert_eq!(pools.reserved(), []);
        let a = pools.alloc(main, 4096, "a").unwrap();
        pools.free(a.id).unwrap();
        let b = pools.alloc(side, 5000, "b").unwrap();
        let held = pools.reserved();
        for (block, stream) in [(a, main), (b, side)] {
            let owner = policy.is_isolated().then_some(stream);
            let found = held.iter().find(|held| held.1.contains(&block.range));
            assert_eq!(found.unwrap().0, owner, "{policy}");
        }
        match policy.is_isolated() {
            true => assert_eq!(
                [main, side].map(|stream| bytes(&held, Some(stream))),
                [4 * KIB, 8 * KIB]
            ),
            false => assert_eq!(bytes(&held, None), pools.report().reserved),
        }
        let total: u64 = held.iter().map(|held| held.1.len()).sum();
        assert_eq!(total, pools.report().reserved, "{policy}");
    }
}
