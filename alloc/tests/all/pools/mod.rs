//! The pools of one capture.

use streamweir_alloc::{Policy, Pools};
use streamweir_trace::StreamId;

use crate::device::Device;

mod calls;
mod reuse;
mod room;

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
