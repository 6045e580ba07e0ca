//! Which hazards must show: found in the trace alone, by all pairs.
//!
//! Every rule below names two runs of whole nodes one after the other, of which
//! at least one differs from what the capture means. There are hazards that
//! never show: two writes that nobody reads, bytes that are written again
//! before anyone looks.

use streamweir::trace::{Access, AccessMode, NodeId, Trace};

use super::order::{Order, addresses, common};

/// Why a wrong result must come out of some interleaving, if it must.
pub(crate) fn observable(trace: &Trace) -> Option<&'static str> {
    let order = Order::new(trace, None);
    let see = See {
        trace,
        order: &order,
    };
    let touching: Vec<&Access> = trace
        .accesses
        .iter()
        .filter(|access| !access.bytes.is_empty())
        .collect();
    for &one in &touching {
        if reads(one) && see.reads_unwritten(one) {
            return Some("reads what nobody wrote before");
        }
        for &two in &touching {
            if one.node == two.node {
                continue;
            }
            let shared = common(addresses(trace, one), addresses(trace, two));
            if shared.is_empty() {
                continue;
            }
            let concurrent = order.concurrent(one.node, two.node);
            if one.mode.writes() && reads(two) && concurrent {
                return Some("reads before or after a concurrent write");
            }
            for byte in shared {
                let same = one.buffer == two.buffer;
                if !same && one.mode.writes() && see.replaces(one, two, byte) {
                    return Some("another buffer's write replaces what is read or kept");
                }
                if same && concurrent && one.mode.writes() && see.last_of_two(one, two, byte) {
                    return Some("either of two writes may be the last");
                }
            }
        }
    }
    None
}

/// Whether what it reads decides what the node does. An atomic adds blindly.
fn reads(access: &Access) -> bool {
    matches!(access.mode, AccessMode::Read | AccessMode::ReadWrite)
}

struct See<'a> {
    trace: &'a Trace,
    order: &'a Order,
}

impl See<'_> {
    fn touches(&self, access: &Access, byte: u64) -> bool {
        addresses(self.trace, access).contains_byte(byte)
    }

    /// The nodes that write the byte, through any buffer.
    fn writers(&self, byte: u64) -> impl Iterator<Item = NodeId> {
        self.trace
            .accesses
            .iter()
            .filter(move |access| access.mode.writes() && self.touches(access, byte))
            .map(|access| access.node)
    }

    /// Run what the reader waits for, and then the reader: the bytes are those
    /// from before the replay.
    fn reads_unwritten(&self, read: &Access) -> bool {
        let buffer = self.trace.buffer(read.buffer);
        let bytes = addresses(self.trace, read);
        !buffer.carried
            && (bytes.start..bytes.end).any(|byte| {
                !self.trace.accesses.iter().any(|write| {
                    write.buffer == read.buffer
                        && write.mode.writes()
                        && self.touches(write, byte)
                        && self.order.before(write.node, read.node)
                })
            })
    }

    /// Whether there is a run in which `write` is the last to write the byte
    /// before `other`, of another buffer, reads it or the replay ends; and
    /// where each buffer has its own memory the byte never comes from there.
    fn replaces(&self, write: &Access, other: &Access, byte: u64) -> bool {
        let own = self.trace.accesses.iter().any(|access| {
            access.node == write.node
                && access.buffer == other.buffer
                && access.mode.writes()
                && self.touches(access, byte)
        });
        if own {
            return false;
        }
        let earlier = |node| node == write.node || self.order.before(node, write.node);
        let read = reads(other)
            && !self.order.before(other.node, write.node)
            && self.writers(byte).all(|node| {
                earlier(node) || node == other.node || self.order.before(other.node, node)
            });
        let kept = self.trace.buffer(other.buffer).carried && self.writers(byte).all(earlier);
        read || kept
    }

    /// Whether two concurrent writes of one buffer are the only ones of the
    /// byte, and somebody sees which came last.
    fn last_of_two(&self, one: &Access, two: &Access, byte: u64) -> bool {
        if !two.mode.writes() || !one.mode.conflicts(two.mode) {
            return false;
        }
        let only = self
            .writers(byte)
            .all(|node| node == one.node || node == two.node);
        let read = self.trace.accesses.iter().any(|access| {
            access.buffer == one.buffer
                && reads(access)
                && self.touches(access, byte)
                && self.order.before(one.node, access.node)
                && self.order.before(two.node, access.node)
        });
        only && (read || self.trace.buffer(one.buffer).carried)
    }
}
