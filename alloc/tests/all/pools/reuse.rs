//! Which bytes may go to whom, and when.

use streamweir_alloc::{AllocError, Policy};
use streamweir_trace::StreamId;

use super::{KIB, forked, pools};

#[test]
fn a_block_is_used_again_on_its_own_stream_at_once() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let a = pools.alloc(main, 1000, "a").unwrap();
    pools.record(main, &[a.id]).unwrap();
    pools.free(a.id).unwrap();
    assert_eq!(pools.alloc(main, 1000, "b").unwrap().range, a.range);
}

/// main:  w(a) --fork-- free(a) -- alloc(b) ------- join -- alloc(c)
/// side:           \--- r(a) ------------------------/
#[test]
fn a_block_that_a_side_stream_reads_waits_for_the_join() {
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let (pools, main, side) = forked(policy);
        let a = pools.alloc(main, 4096, "a").unwrap();
        pools.record(main, &[a.id]).unwrap();
        pools.fork(main, side).unwrap();
        pools.record(side, &[a.id]).unwrap();
        pools.free(a.id).unwrap();
        let b = pools.alloc(main, 4096, "b").unwrap();
        assert!(!b.range.overlaps(&a.range), "{policy}");
        pools.join(main, side).unwrap();
        let c = pools.alloc(main, 4096, "c").unwrap();
        assert_eq!(c.range, a.range, "{policy}");
    }
}

/// The reader is not known: the side stream, which is ordered after the alloc
/// point, may have been one; the stream that forked before it was taken cannot.
///
/// main:  n --+-- alloc(a) ---+-- free(a) -- alloc(b) --- join(side) -- alloc(c)
/// early:      \-------------- | --------------------
/// side:                       \--- n ---------------/
#[test]
fn with_unknown_users_all_streams_after_the_alloc_point_count() {
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let pools = pools(policy);
        let [main, early, side] =
            ["main", "early", "side"].map(|name| pools.add_stream(name, name).unwrap());
        pools.record(main, &[]).unwrap();
        pools.fork(main, early).unwrap();
        pools.record(main, &[]).unwrap();
        let a = pools.alloc(main, 4096, "a").unwrap();
        pools.fork(main, side).unwrap();
        for stream in [main, early, side] {
            pools.record(stream, &[]).unwrap();
        }
        pools.free_unknown(a.id).unwrap();
        let b = pools.alloc(main, 4096, "b").unwrap();
        assert!(!b.range.overlaps(&a.range), "{policy}");
        pools.join(main, side).unwrap();
        let c = pools.alloc(main, 4096, "c").unwrap();
        assert_eq!(c.range, a.range, "{policy}");
        let again = pools.free_unknown(a.id);
        assert!(matches!(again, Err(AllocError::Freed { .. })), "{again:?}");
    }
}

/// a waits with main, which took it, and side, which read it; a third stream
/// joins both before either of them comes by again.
#[test]
fn what_waits_goes_to_a_third_stream_that_gets_there_first() {
    let pools = pools(Policy::ORDERED);
    let [main, side, third] =
        ["main", "side", "third"].map(|name| pools.add_stream(name, name).unwrap());
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.fork(main, side).unwrap();
    pools.record(side, &[a.id]).unwrap();
    pools.record(main, &[a.id]).unwrap();
    pools.free(a.id).unwrap();
    let fill = pools.alloc(third, 60 * KIB, "fill").unwrap();
    assert!(!fill.range.overlaps(&a.range));
    pools.join(third, main).unwrap();
    pools.join(third, side).unwrap();
    assert_eq!(pools.alloc(third, 4096, "b").unwrap().range, a.range);
}

#[test]
fn host_order_hands_it_out_at_once() {
    let (pools, main, side) = forked(Policy::HOST_ORDER);
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.record(main, &[a.id]).unwrap();
    pools.fork(main, side).unwrap();
    pools.record(side, &[a.id]).unwrap();
    pools.free(a.id).unwrap();
    assert_eq!(pools.alloc(side, 4096, "b").unwrap().range, a.range);
}

#[test]
fn isolated_tags_share_no_bytes_even_in_order() {
    let (pools, main, side) = forked(Policy::ISOLATED);
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.free(a.id).unwrap();
    pools.fork(main, side).unwrap();
    let b = pools.alloc(side, 4096, "b").unwrap();
    assert!(!b.range.overlaps(&a.range));

    let (pools, main, side) = forked(Policy::ORDERED);
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.free(a.id).unwrap();
    pools.fork(main, side).unwrap();
    assert_eq!(pools.alloc(side, 4096, "b").unwrap().range, a.range);
}

/// Bytes that need nothing are anybody's, even a stream's that was not there when
/// they were freed and has waited for nothing.
#[test]
fn a_stream_that_is_new_finds_what_needs_nothing() {
    let pools = pools(Policy::ORDERED);
    let main = pools.add_stream("main", "main").unwrap();
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.free(a.id).unwrap();
    let late = pools.add_stream("late", "late").unwrap();
    assert_eq!(pools.alloc(late, 4096, "b").unwrap().range, a.range);
    assert_eq!(pools.report().reserved, 4 * KIB);
}

/// a: read on side, freed. b: taken over on main, which has joined side, but
/// never used, and freed. third has joined neither and may not have the bytes.
#[test]
fn a_block_that_was_never_used_still_stands_for_its_alloc_point() {
    let (pools, main, side) = forked(Policy::ORDERED);
    let third = pools.add_stream("third", "third").unwrap();
    pools.fork(main, third).unwrap();
    let a = pools.alloc(main, 4096, "a").unwrap();
    pools.record(side, &[a.id]).unwrap();
    pools.free(a.id).unwrap();
    pools.join(main, side).unwrap();
    let b = pools.alloc(main, 4096, "b").unwrap();
    assert_eq!(b.range, a.range);
    pools.free(b.id).unwrap();
    let c = pools.alloc(third, 4096, "c").unwrap();
    assert!(!c.range.overlaps(&a.range));
    pools.join(third, main).unwrap();
    assert_eq!(pools.alloc(third, 4096, "d").unwrap().range, a.range);
}

#[test]
fn an_event_orders_like_a_join() {
    let (pools, main, side) = forked(Policy::ISOLATED);
    let a = pools.alloc(main, 4096, "a").unwrap();
    let read = pools.record(side, &[a.id]).unwrap();
    let event = pools.snapshot(side).unwrap();
    let later = pools.record(side, &[]).unwrap();
    pools.free(a.id).unwrap();
    assert!(!pools.reached(main, read));
    pools.wait(main, &event).unwrap();
    assert!(pools.reached(main, read));
    assert!(!pools.reached(main, later));
    assert_eq!(pools.alloc(main, 4096, "b").unwrap().range, a.range);
}

/// Two neighbours merge that main alone may use. Then side comes to reach the use
/// of the first, and not that of the second.
///
/// main:  r(a) -- e -- r(b) -- free(a), free(b)
/// side:           \---------------------------- alloc, alloc
#[test]
fn merged_bytes_need_what_both_parts_needed() {
    for first in [0, 1] {
        let (pools, main, side) = forked(Policy::ORDERED);
        let blocks = ["a", "b"].map(|name| pools.alloc(main, 4096, name).unwrap());
        pools.record(main, &[blocks[first].id]).unwrap();
        let event = pools.snapshot(main).unwrap();
        pools.record(main, &[blocks[1 - first].id]).unwrap();
        for block in blocks {
            pools.free(block.id).unwrap();
        }
        pools.wait(side, &event).unwrap();
        for name in ["c", "d"] {
            let block = pools.alloc(side, 4096, name).unwrap();
            assert!(!block.range.overlaps(&blocks[1 - first].range), "{name}");
        }
    }
}

#[test]
fn visibility_follows_the_alloc_point() {
    let (pools, main, side) = forked(Policy::ISOLATED);
    pools.record(main, &[]).unwrap();
    let a = pools.alloc(main, 64, "a").unwrap();
    assert!(pools.visible(a.id, main));
    assert!(!pools.visible(a.id, side));
    pools.fork(main, side).unwrap();
    assert!(pools.visible(a.id, side));
    pools.free(a.id).unwrap();
    assert!(!pools.visible(a.id, main));
    assert!(!pools.visible(a.id, StreamId(9)));
}
