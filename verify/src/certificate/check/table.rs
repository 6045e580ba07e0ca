//! All accesses of a trace, as the checker sees them: those that are declared,
//! the words that the trace lists, and what the nodes show.
//!
//! Written from `docs/certificate.md`, and shared with nothing.

use std::cmp::Reverse;

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, CopyNode, FillNode, NodeId,
    NodeKind, Param, Promise, Promised, RangeSet, Trace,
};

use super::super::error::CertificateError as Refusal;

/// Stands for memory in no buffer, which operands may name.
pub(super) const UNNAMED: BufferId = BufferId(u32::MAX);

/// Of more rows of a copy or fill the bytes from the first to the last count.
const ROWS: u64 = 4096;

/// An access of device addresses.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) access: Access,
    /// False for a word of a parameter, which may be any access.
    pub(super) declared: bool,
    pub(super) addresses: ByteRange,
}

/// What the graph allocates and no buffer names, as buffers whose numbers go on
/// behind those of the trace: of each allocation node the runs of bytes that are in no
/// buffer of its own, and in none but scratch and the graph's other memory.
pub(super) fn unnamed(trace: &Trace) -> Vec<Buffer> {
    let mut all = Vec::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        let alloc = NodeId::at(at);
        let NodeKind::MemAlloc(made) = &node.kind else {
            continue;
        };
        let names = |buffer: &&Buffer| match buffer.kind {
            BufferKind::Graph { alloc: of, .. } => of == alloc,
            BufferKind::Scratch { .. } => false,
            _ => true,
        };
        let named = trace.buffers.iter().filter(names);
        let named: RangeSet = named.map(|buffer| buffer.range).collect();
        let bytes = ByteRange::from_len(made.at, made.bytes).filter(|_| made.at != 0);
        for range in named.gaps(bytes.unwrap_or_default()) {
            all.push(Buffer {
                kind: BufferKind::Graph { alloc, free: None },
                carried: false,
                ..Buffer::persistent("", range)
            });
        }
    }
    all
}

/// Every access of at least one byte. `made` is what no buffer names.
pub(super) fn table(trace: &Trace, made: &[Buffer]) -> Result<Vec<Entry>, Refusal> {
    let mut all: Vec<Entry> = Vec::new();
    for access in &trace.accesses {
        all.extend(entry(trace, *access, true));
    }
    for word in &trace.possible {
        let mode = AccessMode::ReadWrite;
        let access = Access::new(word.node, word.buffer, word.bytes, mode);
        all.extend(entry(trace, access, false));
    }
    let allocs = trace.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::MemAlloc(alloc) if alloc.at != 0 => ByteRange::from_len(alloc.at, alloc.bytes),
        _ => None,
    });
    let allocated: RangeSet = allocs.collect();
    let buffers = Memory { trace, made };
    // What is stated of a node, by node.
    let mut stated: Vec<Vec<Entry>> = vec![Vec::new(); trace.nodes.len()];
    for entry in &all {
        stated[entry.access.node.index()].push(*entry);
    }
    for (at, node) in trace.nodes.iter().enumerate() {
        let id = NodeId::at(at);
        match &node.kind {
            NodeKind::Memcpy(copy) => {
                let CopyNode {
                    to,
                    from,
                    bytes,
                    rows,
                    to_pitch,
                    from_pitch,
                } = copy.flattened();
                for (start, pitch, mode) in [
                    (from, from_pitch, AccessMode::Read),
                    (to, to_pitch, AccessMode::Write),
                ] {
                    for row in rows_of(start, bytes, rows, pitch) {
                        operand(&buffers, id, mode, row, &stated[at], &mut all)?;
                    }
                }
            }
            NodeKind::Memset(fill) => {
                let FillNode {
                    to,
                    bytes,
                    rows,
                    pitch,
                    ..
                } = fill.flattened();
                for row in rows_of(to, bytes, rows, pitch) {
                    let known = all.len();
                    operand(&buffers, id, AccessMode::Write, row, &stated[at], &mut all)?;
                    // A fill is of device memory, which somebody must keep if the
                    // graph does not allocate it.
                    let lost = |entry: &Entry| {
                        entry.access.buffer == UNNAMED && !allocated.covers(&entry.addresses)
                    };
                    refuse_if("R3", id, all[known..].iter().any(lost))?;
                }
            }
            NodeKind::Kernel(kernel) => words(&buffers, id, &kernel.params, &stated[at], &mut all)?,
            _ => {}
        }
    }
    Ok(all)
}

fn entry(trace: &Trace, access: Access, declared: bool) -> Option<Entry> {
    let start = trace.buffer(access.buffer).range.start;
    let addresses = ByteRange::new(start + access.bytes.start, start + access.bytes.end);
    (!addresses.is_empty()).then_some(Entry {
        access,
        declared,
        addresses,
    })
}

fn refuse_if(rule: &'static str, node: NodeId, broken: bool) -> Result<(), Refusal> {
    let node = Some(node);
    match broken {
        true => Err(Refusal::NotEstablished { rule, node }),
        false => Ok(()),
    }
}

/// The bytes of an operand, which at null is not known.
fn rows_of(start: u64, bytes: u64, rows: u64, pitch: u64) -> Vec<ByteRange> {
    let row = |at: u64| {
        let first = start.saturating_add(pitch.saturating_mul(at));
        ByteRange::new(first, first.saturating_add(bytes))
    };
    match (start, rows) {
        (0, _) | (_, 0) => Vec::new(),
        (_, rows) if rows > ROWS => vec![ByteRange::new(start, row(rows - 1).end)],
        (_, rows) => (0..rows).map(row).collect(),
    }
}

/// Adds the bytes of an operand that its node does not declare in a mode that
/// covers it.
fn operand(
    buffers: &Memory<'_>,
    node: NodeId,
    mode: AccessMode,
    row: ByteRange,
    stated: &[Entry],
    all: &mut Vec<Entry>,
) -> Result<(), Refusal> {
    let covers = |entry: &&Entry| {
        let other = entry.access.mode;
        let same = mode.reads() && other.reads() || mode.writes() && other.writes();
        entry.declared && same
    };
    let covering: Vec<ByteRange> = stated.iter().filter(covers).map(|e| e.addresses).collect();
    if covering.iter().any(|known| known.contains(&row)) {
        return Ok(());
    }
    let ranges = buffers.trace.buffers.iter().chain(buffers.made);
    let ranges = ranges.map(|buffer| buffer.range);
    let bounds = covering.iter().copied().chain(ranges);
    let mut cuts: Vec<u64> = bounds.flat_map(|range| [range.start, range.end]).collect();
    cuts.retain(|&at| row.start < at && at < row.end);
    cuts.extend([row.start, row.end]);
    cuts.sort_unstable();
    cuts.dedup();
    for part in cuts.windows(2).map(|ends| ByteRange::new(ends[0], ends[1])) {
        if covering.iter().any(|known| known.contains(&part)) {
            continue;
        }
        let buffer = buffers.there(part.start, node)?.unwrap_or(UNNAMED);
        all.push(Entry {
            access: Access::new(node, buffer, ByteRange::default(), mode),
            declared: true,
            addresses: part,
        });
    }
    Ok(())
}

/// Adds the buffers that words of parameters point into, where nothing explains
/// the word.
fn words(
    buffers: &Memory<'_>,
    node: NodeId,
    params: &[Param],
    stated: &[Entry],
    all: &mut Vec<Entry>,
) -> Result<(), Refusal> {
    let promised = |of: &Promised, address: u64| match of {
        Promised::LeftOver { .. } => true,
        Promised::Keeps { range, .. } => range.contains_byte(address),
        Promised::Touches | Promised::Waits | Promised::Narrowed => false,
    };
    let explained = |address: u64| {
        let here = |promise: &&Promise| promise.nodes.contains(&node);
        let mut promises = buffers.trace.promises.iter().filter(here);
        stated.iter().any(|e| e.addresses.contains_byte(address))
            || promises.any(|promise| promised(&promise.what, address))
    };
    let word = |id: BufferId| Entry {
        access: Access::new(node, id, ByteRange::default(), AccessMode::ReadWrite),
        declared: false,
        addresses: buffers.buffer(id).range,
    };
    for param in params {
        let skip = (8 - param.offset as usize % 8) % 8;
        let aligned = param.bytes.get(skip..).unwrap_or_default();
        let mut found = Vec::new();
        for (place, bytes) in aligned.as_chunks::<8>().0.iter().enumerate() {
            let at = (skip + 8 * place) as u32;
            if param.pointers().all(|(of, _)| of.abs_diff(at) >= 8) {
                found.push(u64::from_le_bytes(*bytes));
            }
        }
        // A declared pointer is a word of its buffer, unless the node declares what it
        // touches of that; one past the end it is a word like others.
        for (at, to) in param.pointers() {
            let (Some(id), Some(address)) = (to.buffer, param.word(at)) else {
                continue;
            };
            let mut own = buffers.trace.accesses.iter();
            let said = own.any(|access| (access.node, access.buffer) == (node, id));
            if !said && to.offset >= buffers.buffer(id).range.len() {
                found.push(address);
            } else if !said && !explained(address) {
                all.push(word(id));
            }
        }
        for address in found {
            if address != 0
                && !explained(address)
                && let Some(id) = buffers.there(address, node)?
            {
                all.push(word(id));
            }
        }
    }
    Ok(())
}

/// The buffers of a trace, and what the graph allocates and none of them names.
pub(super) struct Memory<'a> {
    pub(super) trace: &'a Trace,
    pub(super) made: &'a [Buffer],
}

impl Memory<'_> {
    pub(super) fn buffer(&self, id: BufferId) -> &Buffer {
        let known = self.trace.buffers.len();
        match id.index().checked_sub(known) {
            Some(at) => &self.made[at],
            None => self.trace.buffer(id),
        }
    }

    /// The buffer that an address means to a node: of those that were there when it
    /// was recorded the one with the shortest life, named ones first. None where
    /// nothing is or was; R4 where all that was there had been freed.
    fn there(&self, address: u64, node: NodeId) -> Result<Option<BufferId>, Refusal> {
        let mut freed = false;
        let mut found = None;
        for (id, buffer) in (0..)
            .map(BufferId)
            .zip(self.trace.buffers.iter().chain(self.made))
        {
            if !buffer.range.contains_byte(address) {
                continue;
            }
            let (from, until) = match &buffer.kind {
                BufferKind::Scratch {
                    alloc,
                    freed_before,
                    ..
                } => (alloc.before.0, freed_before.map_or(u32::MAX, |free| free.0)),
                BufferKind::Graph { alloc, .. } => (alloc.0, u32::MAX),
                _ => (0, u32::MAX),
            };
            if from <= node.0 && node.0 < until {
                let named = id.index() < self.trace.buffers.len();
                let life = (named, Reverse(until - from));
                found = found.max(Some((life, buffer.range, id)));
            }
            freed |= until <= node.0;
        }
        refuse_if("R4", node, found.is_none() && freed)?;
        Ok(found.map(|(.., id)| id))
    }
}
