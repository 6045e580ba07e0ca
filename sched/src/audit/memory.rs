//! Which memory the operands and words of a graph's nodes mean.

use std::collections::{BTreeMap, HashMap};

use streamweir_alloc::Lookup;
use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, NodeId, NodeKind, Trace,
    UnknownAccess,
};
use streamweir_verify::audit::{Known, KnownMemory, Meaning, Memory, scan};

use super::audited::Audit;
use super::inputs::{DeclaredAccess, KnownBuffer};
use super::lower::Lowered;
use crate::device::{Device, DeviceInner};
use crate::error::{During, Result};

/// A copy or fill of more rows is not analysed: its gaps would be taken for
/// bytes, or its rows for half the trace.
const MOST_ROWS: u64 = 4096;

/// Puts buffers and accesses into the trace.
pub(super) fn resolve(device: &Device, known: &[KnownBuffer], lowered: Lowered) -> Result<Audit> {
    let Lowered {
        mut trace,
        handles,
        declared,
        touches,
    } = lowered;
    for buffer in known {
        trace.add_buffer(Buffer::persistent(&*buffer.name, buffer.range));
    }
    // What a call declares is all that its kernels touch. A copy has operands
    // whoever made it.
    let standing = attribute(
        &device.inner,
        &mut trace,
        touches,
        Unnamed::IsUnknown,
        |_| true,
        |node| !declared.contains(&node),
    )?;
    Ok(Audit {
        trace,
        handles,
        standing,
    })
}

/// What device memory is that is allocated and that nobody has named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// Unknown memory: whoever asks has named all that the graph may touch.
    IsUnknown,
    /// Memory of an engine that has named only what it shares: a buffer like
    /// others, without a name.
    IsTheEngines,
}

/// Attributes to memory what nodes touch that nobody has declared: the operands
/// of copies and fills among the nodes `operated`, the words of kernels among
/// the nodes `undeclared`, and the accesses by address in `touches`. The memory
/// is that of the trace's buffers, of the device's persistent buffers, which
/// are added unless a buffer of the trace is there, of allocation nodes, and
/// what the driver knows of, which `unnamed` is about. Returns the buffers that
/// stand outside the graph and have a name.
pub(crate) fn attribute(
    device: &DeviceInner,
    trace: &mut Trace,
    mut touches: Vec<(NodeId, DeclaredAccess)>,
    unnamed: Unnamed,
    operated: impl Fn(NodeId) -> bool,
    undeclared: impl Fn(NodeId) -> bool,
) -> Result<Vec<BufferId>> {
    let named = trace.buffers.len();
    for entry in device.registry.entries() {
        let range = entry.range();
        if !trace.buffers[..named]
            .iter()
            .any(|buffer| buffer.range.overlaps(&range))
        {
            trace.add_buffer(Buffer::persistent(&**entry.name(), range));
        }
    }
    let standing = (0..trace.buffers.len())
        .map(BufferId::at)
        .filter(|&id| matches!(trace.buffer(id).kind, BufferKind::Persistent))
        .collect();
    graph_buffers(trace);
    operands(trace, &mut touches, operated);
    let mut more = strangers(device, trace, &touches, &undeclared)?;
    if unnamed == Unnamed::IsTheEngines {
        more.retain(|memory| {
            let live = memory.known == Known::Live;
            if live {
                let name = format!("memory of the engine at {:#x}", memory.range.start);
                trace.add_buffer(Buffer::persistent(name, memory.range));
            }
            !live
        });
    }
    let memory = KnownMemory::of_trace(trace, more);
    for &(node, DeclaredAccess { range, mode }) in &touches {
        touch(trace, &memory, node, range, mode);
    }
    let mut silent = 0_usize;
    for (at, node) in trace.nodes.iter_mut().enumerate() {
        if matches!(node.kind, NodeKind::Kernel(_)) && undeclared(NodeId::at(at)) {
            node.analysed = false;
            silent += 1;
        }
    }
    let mut words = scan(trace, &memory);
    words.possible.retain(|word| undeclared(word.node));
    words.stray.retain(|word| undeclared(word.node));
    trace.possible.extend(words.possible);
    trace.stray.extend(words.stray);
    if silent > 0 {
        trace.assumptions.push(format!(
            "no accesses of {silent} kernels are declared: a kernel is taken to touch only memory that its parameters hold an address of"
        ));
    }
    Ok(standing)
}

/// The memory of allocation nodes. A free node belongs to the first allocation
/// before it of the same address that has none yet.
fn graph_buffers(trace: &mut Trace) {
    let mut open: HashMap<u64, Vec<BufferId>> = HashMap::new();
    for at in 0..trace.nodes.len() {
        match trace.nodes[at].kind {
            NodeKind::MemAlloc(alloc) if alloc.at != 0 => {
                let Some(range) = ByteRange::from_len(alloc.at, alloc.bytes) else {
                    continue;
                };
                let id = trace.add_buffer(Buffer {
                    name: format!("memory of n{at}"),
                    kind: BufferKind::Graph {
                        alloc: NodeId::at(at),
                        free: None,
                    },
                    range,
                    carried: false,
                });
                open.entry(alloc.at).or_default().push(id);
            }
            NodeKind::MemFree(freed) => {
                if let Some(ids) = open.get_mut(&freed.at).filter(|ids| !ids.is_empty()) {
                    let id = ids.remove(0);
                    if let BufferKind::Graph { free, .. } = &mut trace.buffers[id.index()].kind {
                        *free = Some(NodeId::at(at));
                    }
                }
            }
            _ => {}
        }
    }
}

/// What the copies and fills among the nodes `of` touch, by address.
fn operands(
    trace: &mut Trace,
    touches: &mut Vec<(NodeId, DeclaredAccess)>,
    of: impl Fn(NodeId) -> bool,
) {
    for at in 0..trace.nodes.len() {
        let id = NodeId::at(at);
        if !of(id) {
            continue;
        }
        let sides = match &trace.nodes[at].kind {
            NodeKind::Memcpy(copy) => vec![
                (
                    copy.to,
                    copy.bytes,
                    copy.rows,
                    copy.to_pitch,
                    AccessMode::Write,
                ),
                (
                    copy.from,
                    copy.bytes,
                    copy.rows,
                    copy.from_pitch,
                    AccessMode::Read,
                ),
            ],
            NodeKind::Memset(fill) => {
                vec![(
                    fill.to,
                    fill.bytes,
                    fill.rows,
                    fill.pitch,
                    AccessMode::Write,
                )]
            }
            _ => continue,
        };
        let mut ranges = Vec::new();
        let known = sides.into_iter().all(|(start, bytes, rows, pitch, mode)| {
            // An array has no address.
            start != 0
                && bytes != 0
                && rows <= MOST_ROWS
                && (0..rows).all(|row| {
                    let first = row
                        .checked_mul(pitch)
                        .and_then(|skip| start.checked_add(skip));
                    match first.and_then(|first| ByteRange::from_len(first, bytes)) {
                        Some(range) => {
                            ranges.push((id, DeclaredAccess { range, mode }));
                            true
                        }
                        None => false,
                    }
                })
        });
        if known {
            touches.append(&mut ranges);
        } else {
            trace.nodes[at].analysed = false;
        }
    }
}

/// What the driver and the device say of addresses that no buffer holds: memory
/// that is there and that nobody named, and memory that is gone.
fn strangers(
    device: &DeviceInner,
    trace: &Trace,
    touches: &[(NodeId, DeclaredAccess)],
    undeclared: impl Fn(NodeId) -> bool,
) -> Result<Vec<Memory>> {
    let buffers = KnownMemory::of_trace(trace, []);
    let mut found: BTreeMap<u64, Memory> = BTreeMap::new();
    let mut asked = std::collections::HashSet::new();
    let words = trace.nodes.iter().enumerate().flat_map(|(at, node)| {
        let params = match &node.kind {
            NodeKind::Kernel(kernel) if undeclared(NodeId::at(at)) => &kernel.params[..],
            _ => &[],
        };
        let words = params.iter().flat_map(|param| param.bytes.chunks_exact(8));
        words.filter_map(move |word| {
            Some((NodeId::at(at), u64::from_le_bytes(word.try_into().ok()?)))
        })
    });
    let operands = touches
        .iter()
        .map(|(node, access)| (*node, access.range.start));
    for (node, address) in words.chain(operands) {
        if address == 0 || buffers.at(address, node).is_some() || !asked.insert(address) {
            continue;
        }
        if let Lookup::Gone(gone) = device.registry.find(address) {
            found.entry(gone.range.start).or_insert(Memory {
                range: gone.range,
                name: gone.name.to_string(),
                known: Known::Freed,
            });
        }
        let pointed = device
            .reclaim
            .pointer(address)
            .during(|| format!("asking what is at {address:#x}"))?;
        if let Some(pointed) = pointed.filter(|pointed| pointed.device) {
            // It is there now, whatever it was before.
            found.insert(
                pointed.range.start,
                Memory {
                    range: pointed.range,
                    name: String::new(),
                    known: Known::Live,
                },
            );
        }
    }
    Ok(found.into_values().collect())
}

/// One access by address: in the buffer that is there, or to unknown memory of
/// the device. Memory of the host is nobody's buffer.
fn touch(
    trace: &mut Trace,
    memory: &KnownMemory,
    node: NodeId,
    range: ByteRange,
    mode: AccessMode,
) {
    if range.is_empty() {
        return;
    }
    match memory.at(range.start, node) {
        Some(Meaning::Buffer(buffer, _)) if trace.buffer(buffer).range.contains(&range) => {
            let base = trace.buffer(buffer).range.start;
            let bytes = ByteRange::new(range.start - base, range.end - base);
            trace.add_access(Access::new(node, buffer, bytes, mode));
        }
        Some(_) => trace.unknown.push(UnknownAccess { node, range, mode }),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use streamweir_trace::{AllocNode, CopyNode, FillNode, FreeNode, Node};

    use super::*;

    fn trace(kinds: impl IntoIterator<Item = NodeKind>) -> Trace {
        let mut trace = Trace::new("test");
        for kind in kinds {
            trace.add_node(Node::new(kind, "node"));
        }
        trace
    }

    #[test]
    fn an_address_that_is_handed_out_twice_is_two_buffers() {
        let alloc = |bytes| NodeKind::MemAlloc(AllocNode { at: 0x7000, bytes });
        let free = || NodeKind::MemFree(FreeNode { at: 0x7000 });
        let mut trace = trace([alloc(64), free(), alloc(32), free(), free()]);
        graph_buffers(&mut trace);
        let found: Vec<_> = trace
            .buffers
            .iter()
            .map(|buffer| (buffer.range.len(), buffer.kind.clone()))
            .collect();
        let kind = |alloc, free| BufferKind::Graph {
            alloc: NodeId(alloc),
            free: Some(NodeId(free)),
        };
        assert_eq!(found, [(64, kind(0, 1)), (32, kind(2, 3))]);
    }

    #[test]
    fn rows_are_touched_one_by_one_and_what_has_no_address_is_not_analysed() {
        let strided = CopyNode {
            rows: 2,
            to_pitch: 256,
            from_pitch: 64,
            ..CopyNode::linear(0x7000, 0x9000, 64)
        };
        let to_array = CopyNode::linear(0, 0x9000, 64);
        let tall = FillNode {
            rows: MOST_ROWS + 1,
            pitch: 2,
            ..FillNode::linear(0x7000, 1, 0)
        };
        let mut trace = trace([
            NodeKind::Memcpy(strided),
            NodeKind::Memcpy(to_array),
            NodeKind::Memset(tall),
            // Not asked for.
            NodeKind::Memset(FillNode::linear(0x7000, 1, 0)),
        ]);
        let mut touches = Vec::new();
        operands(&mut trace, &mut touches, |node| node.0 < 3);
        let found: Vec<_> = touches
            .iter()
            .map(|(node, access)| (node.0, access.range.start, access.range.len(), access.mode))
            .collect();
        let (read, write) = (AccessMode::Read, AccessMode::Write);
        assert_eq!(
            found,
            [
                (0, 0x7000, 64, write),
                (0, 0x7100, 64, write),
                (0, 0x9000, 64, read),
                (0, 0x9040, 64, read),
            ]
        );
        let analysed: Vec<bool> = trace.nodes.iter().map(|node| node.analysed).collect();
        assert_eq!(analysed, [true, false, false, true]);
    }
}
