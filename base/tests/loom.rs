//! Models of the retire queue, explored by loom.
//!
//! Empty unless built with `--cfg streamweir_loom`, for then the locks of the
//! crate are loom's, which work inside a model only:
//!
//! ```text
//! RUSTFLAGS="--cfg streamweir_loom" cargo test -p streamweir-base --test loom --release
//! ```
//!
//! Each model names a mutation that makes it fail. Shared ownership is std's
//! `Arc`, whose counts loom does not explore; the threads of a model own clones
//! and the model joins them.
#![cfg(streamweir_loom)]

use std::sync::Arc;

use loom::thread;
use streamweir_base::RetireQueue;

/// Two threads collect while one of them retires: each item leaves once, none
/// before its event, and what is left is in order.
///
/// Fails when `Out::drop` puts its entries in front without sorting.
#[test]
fn loom_retire_queue() {
    loom::model(|| {
        let queue = Arc::new(RetireQueue::new());
        queue.retire(1, 'a');
        queue.retire(9, 'b');
        let other = Arc::clone(&queue);
        let thread = thread::spawn(move || {
            other.retire(9, 'c');
            other.collect(|&event| event < 5)
        });
        let mut out = queue.collect(|&event| event < 5);
        out.extend(thread.join().unwrap());
        out.extend(queue.collect(|&event| event < 5));
        assert_eq!(out, [(1, 'a')]);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.drain(), [(9, 'b'), (9, 'c')]);
    });
}
