//! More threads than a model can have: each item leaves the queue once. The
//! `nightly` step runs this under the AddressSanitizer, too.
#![cfg(not(streamweir_loom))]

use std::sync::atomic::{AtomicUsize, Ordering};

use streamweir_base::RetireQueue;

/// Four threads retire while four collect: each item leaves once, when it may.
#[test]
fn each_item_leaves_the_retire_queue_once() {
    const EACH: usize = 1000;
    let queue = RetireQueue::<usize, usize>::new();
    let passed = AtomicUsize::new(0);
    let seen: Vec<AtomicUsize> = (0..4 * EACH).map(|_| AtomicUsize::new(0)).collect();
    let count = |items: Vec<(usize, usize)>| {
        for (_, item) in items {
            seen[item].fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let (queue, passed, count) = (&queue, &passed, &count);
        for thread in 0..4 {
            scope.spawn(move || {
                for at in 0..EACH {
                    queue.retire(at, thread * EACH + at);
                    passed.fetch_max(at.saturating_sub(10), Ordering::Relaxed);
                }
            });
            scope.spawn(move || {
                for _ in 0..200 {
                    let now = passed.load(Ordering::Relaxed);
                    let gone = queue.collect(|&event| event < now);
                    assert!(gone.iter().all(|&(event, _)| event < now));
                    count(gone);
                }
            });
        }
    });
    count(queue.drain());
    assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
}
