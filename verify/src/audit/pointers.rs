//! Pointers only: a dump without an operator log, or one that is not to be
//! believed.
//!
//! Without operators nothing ties the allocator's events to nodes, so it is not
//! known which of several lives of an address a word means. Blocks that shared
//! bytes at different times therefore become one buffer, and a word in it may
//! touch any byte that a block around it had. Such a buffer has no alloc point:
//! whether one life of it destroys another is not asked.

use std::collections::BTreeMap;

use streamweir_trace::dump::Dump;
use streamweir_trace::{Access, AccessMode, Buffer, ByteRange, NodeKind, UnknownAccess};

use crate::accesses::known::{Known, KnownMemory, Life, Meaning, Memory};
use crate::accesses::words::scan;
use crate::audit::audited::{Audited, Mode};
use crate::audit::blocks::Blocks;
use crate::audit::graph::skeleton;
use crate::audit::memory::tombstones;

/// The trace that the parameters of the kernels make of `dump`.
pub(super) fn lower(mut dump: Dump) -> Audited {
    let (mut trace, operands) = skeleton(&mut dump);
    let blocks = Blocks::of(&dump);
    let mut ranges: Vec<ByteRange> = blocks.all.iter().map(|block| block.range).collect();
    ranges.retain(|range| !range.is_empty());
    let mut pieces: Vec<Memory> = tombstones(&dump).collect();
    for (range, extents) in clusters(&ranges) {
        let name = format!("memory at {:#x}", range.start);
        let id = trace.add_buffer(Buffer::persistent(name.clone(), range));
        pieces.extend(extents.into_iter().map(|(piece, extent)| Memory {
            range: piece,
            name: name.clone(),
            known: Known::Buffer {
                id,
                bytes: ByteRange::new(extent.start - range.start, extent.end - range.start),
                life: Life::WHOLE,
            },
        }));
    }
    let known = KnownMemory::new(pieces);
    for operand in &operands {
        let mode = match operand.written {
            true => AccessMode::Write,
            false => AccessMode::Read,
        };
        let (node, range) = (operand.node, operand.range);
        match known.at(range.start, node) {
            Some(Meaning::Buffer(buffer, _)) if trace.buffer(buffer).range.contains(&range) => {
                let base = trace.buffer(buffer).range.start;
                let bytes = ByteRange::new(range.start - base, range.end - base);
                trace.add_access(Access::new(node, buffer, bytes, mode));
            }
            _ if range.is_empty() => {}
            _ => trace.unknown.push(UnknownAccess { node, range, mode }),
        }
    }
    for node in &mut trace.nodes {
        node.analysed &= !matches!(node.kind, NodeKind::Kernel(_));
    }
    let words = scan(&trace, &known);
    trace.possible = words.possible;
    trace.stray = words.stray;
    trace.assumptions = vec![
        "no accesses of kernels are declared: a kernel is taken to touch only memory that its parameters hold an address of".to_owned(),
        "blocks that shared bytes at different times are taken for one buffer: whether one overwrites another is not checked".to_owned(),
    ];
    Audited {
        trace,
        mode: Mode::Pointers,
        loose: Default::default(),
    }
}

/// Ranges that touch each other over others, as one range each, and its pieces:
/// bytes that the same ranges hold, with all that those ranges hold.
fn clusters(ranges: &[ByteRange]) -> Vec<(ByteRange, Vec<(ByteRange, ByteRange)>)> {
    let mut bounds: Vec<(u64, bool, ByteRange)> = ranges
        .iter()
        .flat_map(|&range| [(range.start, true, range), (range.end, false, range)])
        .collect();
    // Ends come first, so that neighbours stay apart.
    bounds.sort_unstable();
    let mut clusters: Vec<(ByteRange, Vec<(ByteRange, ByteRange)>)> = Vec::new();
    // How many open ranges have each start, and each end.
    let mut starts: BTreeMap<u64, u32> = BTreeMap::new();
    let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
    let mut from = 0;
    for (at, opens, range) in bounds {
        let open = (starts.first_key_value(), ends.last_key_value());
        match (open, clusters.last_mut()) {
            ((Some((&start, _)), Some((&end, _))), Some((whole, pieces))) => {
                if from < at {
                    let piece = ByteRange::new(from, at);
                    pieces.push((piece, ByteRange::new(start, end)));
                }
                whole.end = whole.end.max(range.end);
            }
            _ => clusters.push((range, Vec::new())),
        }
        from = at;
        for (count, bound) in [(&mut starts, range.start), (&mut ends, range.end)] {
            let entry = count.entry(bound).or_insert(0);
            *entry = if opens {
                *entry + 1
            } else {
                entry.saturating_sub(1)
            };
            if *entry == 0 {
                count.remove(&bound);
            }
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_stands_for_all_that_ever_held_it() {
        let range = ByteRange::new;
        let found = clusters(&[range(0, 8), range(8, 16), range(12, 20), range(12, 14)]);
        assert_eq!(
            found,
            [
                (range(0, 8), vec![(range(0, 8), range(0, 8))]),
                (
                    range(8, 20),
                    vec![
                        (range(8, 12), range(8, 16)),
                        (range(12, 14), range(8, 20)),
                        (range(14, 16), range(8, 20)),
                        (range(16, 20), range(12, 20)),
                    ]
                ),
            ]
        );
    }
}
