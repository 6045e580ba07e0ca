//! What the calls of a capture's pools say, errors included.

use std::sync::Arc;

use streamweir_alloc::{AllocError, BlockKind, Policy};
use streamweir_trace::{ByteRange, NodeId, StreamId};

use super::{KIB, forked};

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
fn after_an_abort_nothing_is_taken_though_bytes_are_free() {
    let (pools, main, _) = forked(Policy::ISOLATED);
    let a = pools.alloc(main, 100, "a").unwrap();
    pools.free(a.id).unwrap();
    let arena = Arc::clone(pools.view().arena());
    pools.abort();
    assert_eq!(arena.reserved(), 0);
    pools.abort();
    assert!(matches!(
        pools.alloc(main, 100, "b"),
        Err(AllocError::Ended { .. })
    ));
    assert!(matches!(pools.finish(), Err(AllocError::Ended { .. })));
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
