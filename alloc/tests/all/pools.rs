use std::sync::Arc;

use streamweir_alloc::{ALIGNMENT, AllocError, BlockKind, Policy, Pools};
use streamweir_trace::{ByteRange, NodeId, StreamId};

use crate::device::Device;

const KIB: u64 = 1024;

pub(crate) fn pools(policy: Policy) -> Pools {
    let arena = Device::new().arena(64 * KIB, 4 * KIB);
    Pools::new(arena.open(), policy)
}

/// main forks side; nothing is recorded.
fn forked(policy: Policy) -> (Pools, StreamId, StreamId) {
    let pools = pools(policy);
    let main = pools.add_stream("main", "main").unwrap();
    let side = pools.add_stream("side", "side").unwrap();
    pools.fork(main, side).unwrap();
    (pools, main, side)
}

// SAFETY: no graph is captured; only addresses are looked at.
const HOST_ORDER: Policy = unsafe { Policy::host_order() };

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
    let (pools, main, side) = forked(HOST_ORDER);
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
fn the_best_fit_is_taken_and_split() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let sizes = [8192, 256, 3072, 256, 2048, 256, 16384, 256];
    let blocks = sizes.map(|bytes| pools.alloc(main, bytes, "x").unwrap());
    for at in [0, 2, 4, 6] {
        pools.free(blocks[at].id).unwrap();
    }
    // The neighbours of the holes are held, so nothing has merged.
    let fit = pools.alloc(main, 2560, "fit").unwrap();
    assert_eq!(fit.range.start, blocks[2].range.start);
    let rest = pools.alloc(main, 512, "rest").unwrap();
    assert_eq!(rest.range.start, fit.range.start + 2560);
}

#[test]
fn the_best_of_nearly_equal_fits_is_taken() {
    // One span, so that the blocks lie side by side.
    let arena = Device::new().arena(64 * KIB, 64 * KIB);
    let pools = Pools::new(arena.open(), Policy::ISOLATED);
    let main = pools.add_stream("main", "main").unwrap();
    let blocks =
        [8448, 256, 8192, 256, 8448, 256].map(|bytes| pools.alloc(main, bytes, "x").unwrap());
    for at in [0, 2, 4] {
        pools.free(blocks[at].id).unwrap();
    }
    let fit = pools.alloc(main, 8192, "fit").unwrap();
    assert_eq!(fit.range, blocks[2].range);
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

#[test]
fn records_say_where_blocks_were_taken_and_freed() {
    let (pools, main, side) = forked(Policy::ISOLATED);
    pools.record(main, &[]).unwrap();
    let a = pools.alloc(main, 100, "a").unwrap();
    let b = pools.alloc(side, 100, String::from("b")).unwrap();
    pools.record(main, &[a.id]).unwrap();
    pools.record(side, &[b.id]).unwrap();
    pools.free(a.id).unwrap();
    let [first, second] = pools.buffers().try_into().unwrap();
    assert_eq!(
        (first.name.as_ref(), first.stream, first.range),
        ("a", main, a.range)
    );
    assert_eq!(
        (first.alloc_before, first.freed_before),
        (NodeId(1), Some(NodeId(3)))
    );
    assert_eq!((first.held, first.kind), (256, BlockKind::Scratch));
    assert_eq!(
        (second.alloc_before, second.freed_before),
        (NodeId(1), None)
    );
    assert_eq!(pools.nodes(), NodeId(3));
}

#[test]
fn a_workspace_is_held_to_the_end_on_its_own_stream() {
    let (pools, main, side) = forked(Policy::ORDERED);
    let ws = pools.workspace(main, 4096, "cublasLt").unwrap();
    pools.free(ws.id).unwrap();
    assert!(pools.visible(ws.id, main));
    assert!(!pools.visible(ws.id, side));
    let a = pools.alloc(main, 4096, "a").unwrap();
    assert!(!a.range.overlaps(&ws.range));
    let record = &pools.buffers()[0];
    assert_eq!(
        (record.kind, record.freed_before),
        (BlockKind::Workspace, None)
    );
}

#[test]
fn bad_input_is_a_typed_error_and_changes_nothing() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let (other, _, _) = forked(Policy::ISOLATED);
    for _ in 0..2 {
        other.alloc(main, 100, "other").unwrap();
    }
    let a = pools.alloc(main, 100, "a").unwrap();
    pools.free(a.id).unwrap();

    let twice = pools.free(a.id).unwrap_err();
    assert!(matches!(twice, AllocError::Freed { .. }));
    assert!(
        twice.to_string().contains("\"a\" of stream \"main\""),
        "{twice}"
    );
    let used = pools.record(main, &[a.id]).unwrap_err();
    assert!(matches!(used, AllocError::Freed { .. }));
    assert_eq!(pools.nodes(), NodeId(0));

    let b = pools.alloc(main, 100, "b").unwrap();
    assert!(matches!(
        other.free(b.id),
        Err(AllocError::OtherCapture { .. })
    ));
    assert!(matches!(
        other.record(main, &[b.id]),
        Err(AllocError::OtherCapture { .. })
    ));
    assert!(!other.visible(b.id, main));
    assert_eq!(other.bytes_of(b.id), None);

    let nowhere = StreamId(7);
    assert!(matches!(
        pools.alloc(nowhere, 1, "x"),
        Err(AllocError::UnknownStream { .. })
    ));
    assert!(matches!(
        pools.fork(nowhere, main),
        Err(AllocError::UnknownStream { .. })
    ));
    assert!(matches!(
        pools.join(main, nowhere),
        Err(AllocError::UnknownStream { .. })
    ));
    assert!(matches!(
        pools.record(nowhere, &[]),
        Err(AllocError::UnknownStream { .. })
    ));
    assert!(matches!(
        pools.snapshot(nowhere),
        Err(AllocError::UnknownStream { .. })
    ));

    assert!(matches!(
        pools.alloc(main, u64::MAX, "x"),
        Err(AllocError::TooLarge { .. })
    ));
    let taken = pools.add_stream("again", "side").unwrap_err();
    assert!(matches!(taken, AllocError::TagTaken { .. }));
    assert!(
        taken.to_string().contains("stream \"side\" has it"),
        "{taken}"
    );
}

#[test]
fn after_the_end_only_frees_are_quiet() {
    let (pools, main, side) = forked(Policy::ISOLATED);
    let a = pools.alloc(main, 100, "a").unwrap();
    let lease = pools.finish().unwrap();
    assert!(lease.ranges().any(|range| range.contains(&a.range)));
    pools.free(a.id).unwrap();
    pools.free(a.id).unwrap();
    assert_eq!(pools.buffers()[0].freed_before, None);
    assert!(!pools.visible(a.id, main));
    assert!(matches!(
        pools.alloc(main, 1, "x"),
        Err(AllocError::Ended { .. })
    ));
    assert!(matches!(
        pools.record(main, &[]),
        Err(AllocError::Ended { .. })
    ));
    assert!(matches!(
        pools.join(main, side),
        Err(AllocError::Ended { .. })
    ));
    assert!(matches!(pools.finish(), Err(AllocError::Ended { .. })));
    pools.abort();
    assert_eq!(
        lease.arena().reserved(),
        64 * KIB,
        "an abort after the end is none"
    );
}

#[test]
fn a_handle_may_be_dropped_on_another_thread_while_this_one_allocates() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let pools = Arc::new(pools);
    let (send, receive) = std::sync::mpsc::channel();
    let freeing = Arc::clone(&pools);
    let dropper = std::thread::spawn(move || {
        for id in receive {
            freeing.free(id).unwrap();
        }
    });
    let mut held: Vec<(ByteRange, _)> = Vec::new();
    for i in 0..5000u64 {
        let block = pools.alloc(main, i * 37 % 5000, "x").unwrap();
        assert!(held.iter().all(|(range, _)| !range.overlaps(&block.range)));
        held.push((block.range, block.id));
        if held.len() > 12 {
            let (_, id) = held.swap_remove((i % 12) as usize);
            send.send(id).unwrap();
        }
    }
    drop(send);
    dropper.join().unwrap();
    assert_eq!(pools.report().buffers.len(), held.len());
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
