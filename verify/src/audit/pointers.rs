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
use streamweir_trace::{Access, Buffer, ByteRange, NodeId, NodeKind, UnknownAccess};

use crate::accesses::known::{Known, KnownMemory, Life, Meaning, Memory};
use crate::accesses::words::{scan, unknown_word};
use crate::audit::audited::{Audited, Mode};
use crate::audit::blocks::Blocks;
use crate::audit::budget::Budget;
use crate::audit::error::AuditError;
use crate::audit::graph::{Operand, Side, Skeleton};
use crate::audit::host::HostMemory;
use crate::audit::memory::tombstones;

/// The trace that the parameters of the kernels make of `dump`.
///
/// # Errors
/// When kernels of unknown parameters make for too many accesses.
pub(super) fn lower(mut dump: Dump) -> Result<Audited, AuditError> {
    let skeleton = Skeleton::of(&mut dump);
    let unknowns = skeleton.assumptions(&dump);
    let Skeleton {
        mut trace,
        mut operands,
        unknown,
        ..
    } = skeleton;
    let blocks = Blocks::of(&dump);
    let (gone, held): (Vec<_>, Vec<_>) = (blocks.all.iter()).partition(|block| block.abandoned());
    let mut ranges: Vec<ByteRange> = held.iter().map(|block| block.range).collect();
    ranges.retain(|range| !range.is_empty());
    let mut pieces: Vec<Memory> = tombstones(&dump).collect();
    pieces.extend(gone.iter().map(|block| Memory {
        range: block.range,
        name: String::new(),
        known: Known::Freed,
    }));
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
    let is_device = |operand: &Operand| known.at(operand.range.start, operand.node).is_some();
    let host = HostMemory::new(&mut operands, is_device, &mut trace);
    for operand in operands.iter().filter(|operand| !operand.range.is_empty()) {
        let (node, range, mode) = (operand.node, operand.range, operand.mode());
        let found = match (operand.side, known.at(range.start, node)) {
            (Side::Host, _) => host.locate(range),
            (_, Some(Meaning::Buffer(buffer, _))) => {
                let all = trace.buffer(buffer).range;
                let bytes = |_| ByteRange::new(range.start - all.start, range.end - all.start);
                let inside = all.contains(&range).then_some(buffer);
                inside.map(|buffer| (buffer, bytes(buffer)))
            }
            _ => None,
        };
        match found {
            Some((buffer, bytes)) => trace.add_access(Access::new(node, buffer, bytes, mode)),
            None => trace.unknown.push(UnknownAccess { node, range, mode }),
        }
    }
    for node in &mut trace.nodes {
        node.analysed &= !matches!(node.kind, NodeKind::Kernel(_));
    }
    let words = scan(&trace, &known);
    trace.possible = words.possible;
    trace.stray = words.stray;
    let mut budget = Budget::new(trace.nodes.len(), 0);
    let unknown = (0..)
        .map(NodeId)
        .zip(&unknown)
        .filter(|(_, unknown)| **unknown);
    for (node, _) in unknown {
        budget.take(known.len() as u64)?;
        let anything = known.buffers_at(node);
        let anything = anything.map(|(buffer, bytes)| unknown_word(node, buffer, bytes));
        trace.possible.extend(anything);
    }
    trace.assumptions = vec![
        "no accesses of kernels are declared: a kernel is taken to touch only memory that its parameters hold an address of".to_owned(),
        "blocks that shared bytes at different times are taken for one buffer: whether one overwrites another is not checked".to_owned(),
    ];
    trace.assumptions.extend(unknowns);
    Ok(Audited {
        trace,
        mode: Mode::Pointers,
        shapes: Default::default(),
    })
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
