//! Which memory the operands and words of nodes mean that no buffer of their trace
//! holds.
//!
//! What nodes show enters the verdict by the verifier's table of accesses, which
//! knows the buffers of the trace and nothing else. Here the device and the driver
//! are asked what else is there, and it becomes a buffer:
//!
//! | what is at the address | in the trace |
//! | --- | --- |
//! | a persistent buffer | that buffer; who judges a graph of his own keeps it alive |
//! | memory that only the driver knows | one buffer without a name, with who keeps it |
//! | memory that is gone, or was said to be freed | a word of it is a possible R4 |
//! | nothing, or memory of the host | nothing |

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use streamweir_alloc::{Lookup, PersistentEntry};
use streamweir_trace::{
    Buffer, BufferKind, ByteRange, Keeper, NodeId, NodeKind, RangeSet, StrayMemory, StrayWord,
    Trace,
};
use streamweir_verify::audit::{Known, KnownMemory, Memory};

use crate::device::DeviceInner;
use crate::error::{During, Result};

/// What was found beside the buffers that the trace has now.
#[derive(Default)]
pub(crate) struct AddedMemory {
    /// Memory that is gone.
    pub(crate) gone: Vec<Memory>,
    /// The persistent buffers that were added.
    pub(crate) persistent: Vec<Arc<PersistentEntry>>,
}

/// Adds the memory that nodes show, or touch at an address that somebody gave, and
/// that no buffer of the trace holds. `keeper` says who keeps memory that only the
/// driver knows, at an address that a node shows.
pub(crate) fn add_memory(
    device: &DeviceInner,
    trace: &mut Trace,
    by_address: &[(NodeId, ByteRange)],
    keeper: impl Fn(NodeId, u64) -> Keeper,
) -> Result<AddedMemory> {
    let mut found = AddedMemory::default();
    said_to_be_freed(device, trace);
    let mut unknown = Unknown::of(trace, &keeper);
    found.gone.append(&mut unknown.not_yet);
    unknown.spans.extend(by_address);
    if unknown.spans.is_empty() {
        return Ok(found);
    }
    let entries = device.registry.entries();
    let mut taken: RangeSet = trace.buffers.iter().map(|buffer| buffer.range).collect();
    let named = taken.clone();
    taken.extend(entries.iter().map(|entry| entry.range()));
    let mut unnamed: BTreeMap<u64, (ByteRange, Keeper)> = BTreeMap::new();
    let mut nothing: HashSet<u64> = HashSet::new();
    for &(node, span) in &unknown.spans {
        for gap in named.gaps(span) {
            let mut at = gap.start;
            while at < gap.end && !nothing.contains(&at) {
                if let Lookup::Live(entry) = device.registry.find(at) {
                    at = entry.range().end;
                    let known = &mut found.persistent;
                    if !known.iter().any(|known| Arc::ptr_eq(known, &entry)) {
                        known.push(entry);
                    }
                    continue;
                }
                let kept_by = keeper(node, at);
                let known = unnamed.range_mut(..=at).next_back();
                if let Some((_, (range, keeper))) = known
                    && range.contains_byte(at)
                {
                    *keeper = kept_by.min(*keeper);
                    at = range.end;
                    continue;
                }
                match live(device, at, &taken)? {
                    Some(range) => {
                        unnamed.insert(range.start, (range, kept_by));
                        at = range.end;
                    }
                    None => {
                        nothing.insert(at);
                        if let Lookup::Gone(gone) = device.registry.find(at) {
                            found.gone.push(Memory {
                                range: gone.range,
                                name: gone.name.to_string(),
                                known: Known::Freed,
                            });
                        }
                    }
                }
            }
        }
    }
    for entry in &found.persistent {
        trace.add_buffer(Buffer::persistent(&**entry.name(), entry.range()));
    }
    for (range, keeper) in unnamed.into_values() {
        let whose = match keeper {
            Keeper::Engine => "memory of the engine",
            Keeper::Nobody | Keeper::Call => "memory",
        };
        trace.add_buffer(Buffer {
            name: format!("{whose} at {:#x}", range.start),
            kind: BufferKind::Foreign { keeper },
            range,
            carried: true,
        });
    }
    Ok(found)
}

/// The allocation at an address, as far as nothing else is known of its bytes.
fn live(device: &DeviceInner, at: u64, taken: &RangeSet) -> Result<Option<ByteRange>> {
    let pointed = device
        .reclaim
        .pointer(at)
        .during(|| format!("asking what is at {at:#x}"))?;
    let Some(pointed) = pointed.filter(|pointed| pointed.device) else {
        return Ok(None);
    };
    let free = taken.gaps(pointed.range).find(|gap| gap.contains_byte(at));
    Ok(free)
}

/// The words and operands of a trace that lie in no buffer that was there.
#[derive(Default)]
struct Unknown {
    spans: Vec<(NodeId, ByteRange)>,
    /// Buffers that a node shows an address of before they are there.
    not_yet: Vec<Memory>,
}

impl Unknown {
    fn of(trace: &Trace, keeper: impl Fn(NodeId, u64) -> Keeper) -> Self {
        let known = KnownMemory::of_trace(trace, []);
        let buffers: RangeSet = trace.buffers.iter().map(|buffer| buffer.range).collect();
        let mut this = Self::default();
        for (at, node) in trace.nodes.iter().enumerate() {
            let id = NodeId::at(at);
            for (_, _, address) in words(&node.kind) {
                // What a call keeps explains its words.
                if keeper(id, address) == Keeper::Call {
                    continue;
                }
                if !buffers.contains_byte(address) {
                    this.spans
                        .push((id, ByteRange::new(address, address.saturating_add(1))));
                } else if known.at(address, id).is_none() {
                    this.not_yet(trace, address);
                }
            }
            for span in operands(&node.kind) {
                if !buffers.covers(&span) {
                    this.spans.push((id, span));
                }
            }
        }
        this
    }

    /// Bytes that nobody has been given yet are nobody's.
    fn not_yet(&mut self, trace: &Trace, address: u64) {
        let later = trace.buffers.iter();
        let later = later.filter(|buffer| buffer.range.contains_byte(address));
        for buffer in later {
            if !self.not_yet.iter().any(|known| known.range == buffer.range) {
                self.not_yet.push(Memory {
                    range: buffer.range,
                    name: format!("{} (taken later)", buffer.name),
                    known: Known::Freed,
                });
            }
        }
    }
}

/// Nodes that use memory which somebody has said to be freed, declared or not. Scratch
/// of the graph's own is there whatever was said.
fn said_to_be_freed(device: &DeviceInner, trace: &mut Trace) {
    let mut freed = device.registry.freed();
    if freed.is_empty() {
        return;
    }
    for buffer in &trace.buffers {
        if !matches!(buffer.kind, BufferKind::Persistent) {
            freed.remove(buffer.range);
        }
    }
    let mut strays: Vec<StrayWord> = Vec::new();
    let mut note = |node: NodeId, param, offset, at| {
        let known = |stray: &StrayWord| stray.node == node && stray.at == at;
        if !strays.iter().any(known) {
            strays.push(StrayWord {
                node,
                param,
                offset,
                at,
                memory: StrayMemory::Freed,
                name: String::new(),
            });
        }
    };
    for (at, node) in trace.nodes.iter().enumerate() {
        let id = NodeId::at(at);
        for (param, offset, address) in all_words(&node.kind) {
            if freed.contains_byte(address) {
                note(id, param, offset, address);
            }
        }
        for span in operands(&node.kind) {
            if let Some(shared) = freed.shared(span).next() {
                note(id, 0, 0, shared.start);
            }
        }
    }
    trace.stray.extend(strays);
}

/// The persistent buffers that the nodes `of` show.
pub(crate) fn persistent(
    device: &DeviceInner,
    trace: &Trace,
    of: impl Fn(NodeId) -> bool,
) -> Vec<Arc<PersistentEntry>> {
    let mut shown = RangeSet::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        if of(NodeId::at(at)) {
            let word = |(_, _, address): (u32, u32, u64)| ByteRange::from_len(address, 1);
            shown.extend(words(&node.kind).filter_map(word));
            shown.extend(operands(&node.kind));
        }
    }
    let mut entries = device.registry.entries();
    entries.retain(|entry| shown.overlaps(&entry.range()));
    entries
}

/// The words of a kernel's parameters that are not declared as addresses: the
/// parameter, the offset in it, the word.
pub(crate) fn words(kind: &NodeKind) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
    let declared = move |place: u32, offset: u32| match kind {
        NodeKind::Kernel(kernel) => {
            let param = &kernel.params[place as usize];
            param.pointer.is_some() || param.fields.iter().any(|field| field.at == offset)
        }
        _ => false,
    };
    all_words(kind).filter(move |&(place, offset, _)| !declared(place, offset))
}

fn all_words(kind: &NodeKind) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
    let params = match kind {
        NodeKind::Kernel(kernel) => &kernel.params[..],
        _ => &[],
    };
    (0..).zip(params).flat_map(|(place, param)| {
        // Where the calling convention puts addresses.
        let skip = (8 - param.offset % 8) % 8;
        (skip..)
            .step_by(8)
            .map_while(move |offset| Some((place, offset, param.word(offset)?)))
            .filter(|&(_, _, word)| word != 0)
    })
}

/// From the first to the last byte of each operand of a copy or a fill. What has no
/// address, an array say, is left out.
fn operands(kind: &NodeKind) -> Vec<ByteRange> {
    let span = |start: u64, bytes: u64, rows: u64, pitch: u64| {
        let last = rows.saturating_sub(1).saturating_mul(pitch);
        let end = start.saturating_add(last).saturating_add(bytes);
        (start != 0 && bytes != 0 && rows != 0).then(|| ByteRange::new(start, end))
    };
    match kind {
        NodeKind::Memcpy(copy) => [
            span(copy.to, copy.bytes, copy.rows, copy.to_pitch),
            span(copy.from, copy.bytes, copy.rows, copy.from_pitch),
        ]
        .into_iter()
        .flatten()
        .collect(),
        NodeKind::Memset(fill) => span(fill.to, fill.bytes, fill.rows, fill.pitch)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}
