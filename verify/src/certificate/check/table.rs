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

/// Of an operand with more rows the bytes from the first to the last may be touched,
/// where the trace has more than so many in all.
const ROWS: u64 = 64;
const ROWS_IN_ALL: u64 = 1 << 18;

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
    let mut operands = Vec::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        let id = NodeId::at(at);
        for operand in Operand::all_of(id, &node.kind) {
            let own = stated[at]
                .iter()
                .filter(|e| e.declared && operand.is_in(e.access.mode));
            let covering: RangeSet = own.map(|e| e.addresses).collect();
            if !covering.covers(&operand.extent()) {
                operands.push((operand, covering));
            }
        }
        if let NodeKind::Kernel(kernel) = &node.kind {
            words(&buffers, id, &kernel.params, &stated[at], &mut all)?;
        }
    }
    let rows = operands.iter().map(|(operand, _)| operand.rows);
    let few = rows.fold(0, u64::saturating_add) <= ROWS_IN_ALL;
    let ranges = trace.buffers.iter().chain(made).map(|buffer| buffer.range);
    let mut cuts: Vec<u64> = ranges.flat_map(|range| [range.start, range.end]).collect();
    cuts.sort_unstable();
    for (operand, covering) in &operands {
        let known = all.len();
        operand.add(
            &buffers,
            covering,
            &cuts,
            few || operand.rows <= ROWS,
            &mut all,
        )?;
        // A fill is of device memory, which somebody must keep if the graph does not
        // allocate it.
        let lost =
            |entry: &Entry| entry.access.buffer == UNNAMED && !allocated.covers(&entry.addresses);
        let lost = operand.of_fill && all[known..].iter().any(lost);
        refuse_if("R3", operand.node, lost)?;
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

/// One side of a copy, or what a fill writes.
struct Operand {
    node: NodeId,
    mode: AccessMode,
    of_fill: bool,
    start: u64,
    bytes: u64,
    rows: u64,
    pitch: u64,
}

impl Operand {
    /// Those of a node. At null an operand is not known.
    fn all_of(node: NodeId, kind: &NodeKind) -> Vec<Self> {
        let new = |mode, start, bytes, rows, pitch| Self {
            node,
            mode,
            of_fill: matches!(kind, NodeKind::Memset(_)),
            start,
            bytes,
            rows,
            pitch,
        };
        let mut all = match kind {
            NodeKind::Memcpy(copy) => {
                let copy = copy.flattened();
                let CopyNode { bytes, rows, .. } = copy;
                vec![
                    new(AccessMode::Read, copy.from, bytes, rows, copy.from_pitch),
                    new(AccessMode::Write, copy.to, bytes, rows, copy.to_pitch),
                ]
            }
            NodeKind::Memset(fill) => {
                let fill = fill.flattened();
                let FillNode { bytes, rows, .. } = fill;
                vec![new(AccessMode::Write, fill.to, bytes, rows, fill.pitch)]
            }
            _ => Vec::new(),
        };
        all.retain(|operand| operand.start != 0 && operand.bytes != 0 && operand.rows != 0);
        all
    }

    /// Whether an access in this mode declares it.
    fn is_in(&self, mode: AccessMode) -> bool {
        match self.mode {
            AccessMode::Read => mode.reads(),
            _ => mode.writes(),
        }
    }

    fn row(&self, at: u64) -> ByteRange {
        let first = self.start.saturating_add(self.pitch.saturating_mul(at));
        ByteRange::new(first, first.saturating_add(self.bytes))
    }

    fn extent(&self) -> ByteRange {
        ByteRange::new(self.start, self.row(self.rows - 1).end)
    }

    /// Adds the bytes that the node does not declare in a mode that covers them: all
    /// `exact`, or those from the first to the last as bytes that may be touched.
    fn add(
        &self,
        buffers: &Memory<'_>,
        covering: &RangeSet,
        cuts: &[u64],
        exact: bool,
        all: &mut Vec<Entry>,
    ) -> Result<(), Refusal> {
        let mode = if exact {
            self.mode
        } else {
            AccessMode::ReadWrite
        };
        for at in 0..if exact { self.rows } else { 1 } {
            let row = if exact { self.row(at) } else { self.extent() };
            for mut gap in covering.gaps(row) {
                let from = cuts.partition_point(|&at| at <= gap.start);
                let inside = cuts[from..].iter().take_while(|&&at| at < gap.end);
                for end in inside.copied().chain([gap.end]) {
                    let addresses = ByteRange::new(gap.start, end);
                    gap.start = end;
                    if addresses.is_empty() {
                        continue;
                    }
                    let there = buffers.there(addresses.start, self.node)?;
                    let buffer = there.unwrap_or(UNNAMED);
                    all.push(Entry {
                        access: Access::new(self.node, buffer, ByteRange::default(), mode),
                        declared: exact,
                        addresses,
                    });
                }
            }
        }
        Ok(())
    }
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
        Promised::Touches | Promised::Unchecked | Promised::Waits | Promised::Narrowed => false,
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
