//! Which memory the operands and words of a graph's nodes mean.

use std::collections::HashMap;

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, Keeper, NodeId, NodeKind, Trace,
    UnknownAccess,
};
use streamweir_verify::audit::{KnownMemory, Meaning, Memory, scan};

use super::audited::Audit;
use super::inputs::{DeclaredAccess, KnownBuffer};
use super::lower::Lowered;
use super::shown::{AddedMemory, add_memory};
use crate::device::{Device, DeviceInner};
use crate::error::Result;

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
    // Kernels of a call that says what they touch are analysed by that; words that it
    // does not explain count all the same. A copy has operands whoever made it.
    let Attributed { standing, gone, .. } = attribute(
        &device.inner,
        &mut trace,
        touches,
        |_, _| Keeper::Nobody,
        |_| true,
        |node| !declared.contains(&node),
    )?;
    let words = scan(&trace, &KnownMemory::of_trace(&trace, gone));
    trace.possible.extend(words.possible);
    trace.stray.extend(words.stray);
    Ok(Audit {
        trace,
        handles,
        standing,
    })
}

/// Attributes to memory what nodes touch that nobody has declared: the operands
/// of copies and fills among the nodes `operated`, and the accesses by address in
/// `touches`; the words of kernels are left to be scanned for. Kernels among the nodes `undeclared` count as
/// not analysed. The memory is that of the trace's buffers, of the device's
/// persistent buffers, which are added unless a buffer of the trace is there, of
/// allocation nodes, and what the driver knows of. Returns the buffers that stand
/// outside the graph and have a name.
pub(crate) fn attribute(
    device: &DeviceInner,
    trace: &mut Trace,
    mut touches: Vec<(NodeId, DeclaredAccess)>,
    keeper: impl Fn(NodeId, u64) -> Keeper,
    operated: impl Fn(NodeId) -> bool,
    undeclared: impl Fn(NodeId) -> bool,
) -> Result<Attributed> {
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
    let by_address: Vec<_> = touches
        .iter()
        .map(|(node, access)| (*node, access.range))
        .collect();
    operands(trace, &mut touches, operated);
    let AddedMemory { gone, .. } = add_memory(device, trace, &by_address, keeper)?;
    let memory = KnownMemory::of_trace(trace, gone.iter().cloned());
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
    if silent > 0 {
        trace.assumptions.push(format!(
            "no accesses of {silent} kernels are declared: a kernel is taken to touch only memory that its parameters hold an address of"
        ));
    }
    Ok(Attributed { standing, gone })
}

/// What has become of the memory of a graph.
pub(crate) struct Attributed {
    /// The buffers that stand outside the graph and have a name.
    pub(crate) standing: Vec<BufferId>,
    /// Memory that is gone, and that a node shows.
    pub(crate) gone: Vec<Memory>,
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

/// One access by address: in the buffers that are there, or to memory that was said
/// to be gone. Memory of the host is nobody's buffer.
fn touch(
    trace: &mut Trace,
    memory: &KnownMemory,
    node: NodeId,
    range: ByteRange,
    mode: AccessMode,
) {
    let mut at = range.start;
    while at < range.end {
        let (buffer, piece) = match memory.at(at, node) {
            Some(Meaning::Buffer(buffer, piece)) => (Some(buffer), piece),
            Some(Meaning::Live(piece) | Meaning::Freed(piece)) => (None, piece),
            None => return,
        };
        let end = piece.range.end.min(range.end);
        match buffer {
            Some(buffer) => {
                let base = trace.buffer(buffer).range.start;
                let bytes = ByteRange::new(at - base, end - base);
                trace.add_access(Access::new(node, buffer, bytes, mode));
            }
            None => {
                let range = ByteRange::new(at, end);
                trace.unknown.push(UnknownAccess { node, range, mode });
            }
        }
        at = end;
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
