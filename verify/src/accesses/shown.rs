//! The table of accesses of a trace: what is declared of its nodes, and what the
//! nodes show.
//!
//! # What is guaranteed
//! What a node shows, and a declaration does not cover, is an access all the
//! same:
//!
//! | shown | declared | access |
//! | --- | --- | --- |
//! | operand of a copy or a fill | in a mode that covers it | none more |
//! | | not | one that is proven, of the buffer that is there at the node |
//! | | not, and outside of all buffers | one that is proven, of memory without a name; R3 is possible of a fill, since the other side of a copy may be the host's |
//! | | not, and the trace shows more rows than are looked at one by one | one that is possible, of the bytes from the first row to the last |
//! | word of a kernel's parameters inside a buffer, or inside memory that the graph allocates | an access, a word that the trace lists, or a kept range of the node contains it; or the node's words are left over | none more |
//! | | nothing explains it | one that is possible, of the buffer that is there at the node |
//! | word inside a buffer that was freed | | none, and R4 is possible |
//!
//! All who judge a trace go through here, so a capture, an attachment, an audit
//! and a file are judged alike.
//!
//! # What it costs
//! A walk over the nodes for a trace that shows nothing new, which then is not
//! copied.

use std::borrow::Cow;

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, CopyNode, FillNode, Keeper,
    NodeId, NodeKind, RangeSet, Trace,
};

use super::known::{Known, KnownMemory, Meaning};
use super::made::Made;
use super::words::{scan_with, unknown_word};
use crate::error::VerifyError;

/// The most rows of copies and fills, in all, that are looked at one by one.
const ROWS_IN_ALL: u64 = 1 << 18;

/// How many rows of one copy or fill are looked at one by one when there are more in
/// all. Of an operand with more, the bytes from its first to its last count, as bytes
/// that it may touch.
const ROWS: u64 = 1 << 6;

/// The most accesses that operands may show and nothing declares.
const MOST_SHOWN: usize = 1 << 20;

/// A trace with the accesses that its nodes show.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    given: &'a Trace,
    trace: Cow<'a, Trace>,
    named: usize,
}

impl<'a> Shown<'a> {
    /// The table of `given`.
    ///
    /// # Errors
    /// When the tables of the trace do not fit together.
    pub fn new(given: &'a Trace) -> Result<Self, VerifyError> {
        given.check()?;
        let shows = |kind: &NodeKind| match kind {
            NodeKind::Kernel(kernel) => !kernel.params.is_empty(),
            NodeKind::Memcpy(copy) => copy.to != 0 || copy.from != 0,
            NodeKind::Memset(fill) => fill.to != 0,
            _ => false,
        };
        let mut trace = Cow::Borrowed(given);
        if given.nodes.iter().any(|node| shows(&node.kind)) {
            let known = KnownMemory::of_trace(given, []);
            let made = Made::of(given);
            let at = |address, node| made.at(&known, address, node);
            if !made.buffers.is_empty() {
                trace.to_mut().buffers.extend_from_slice(&made.buffers);
            }
            let named = trace.buffers.len();
            add_operands(&mut trace, given, &at)?;
            add_words(&mut trace, &at);
            return Ok(Self {
                given,
                trace,
                named,
            });
        }
        Ok(Self {
            given,
            trace,
            named: given.buffers.len(),
        })
    }

    /// How many buffers have a name or an allocation node: what comes behind them is
    /// memory that only operands show.
    pub(crate) fn named(&self) -> usize {
        self.named
    }

    /// The trace as it was given.
    pub fn given(&self) -> &'a Trace {
        self.given
    }

    /// The trace with all accesses: those that were declared first, in their
    /// places; and behind the buffers what the graph allocates and no buffer names,
    /// and then the memory without a name.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The accesses that nodes show and nothing declares.
    pub fn undeclared(&self) -> &[Access] {
        &self.trace.accesses[self.given.accesses.len()..]
    }
}

/// One operand of a node.
struct Operand {
    node: NodeId,
    mode: AccessMode,
    start: u64,
    bytes: u64,
    rows: u64,
    pitch: u64,
    /// A copy's, of which either side may be the host's.
    of_copy: bool,
}

impl Operand {
    fn of(node: NodeId, kind: &NodeKind) -> Vec<Self> {
        let operand = |mode, start, bytes, rows, pitch, of_copy| Self {
            node,
            mode,
            start,
            bytes,
            rows,
            pitch,
            of_copy,
        };
        let mut all = match kind {
            NodeKind::Memcpy(copy) => {
                let CopyNode {
                    to,
                    from,
                    bytes,
                    rows,
                    to_pitch,
                    from_pitch,
                } = copy.flattened();
                vec![
                    operand(AccessMode::Read, from, bytes, rows, from_pitch, true),
                    operand(AccessMode::Write, to, bytes, rows, to_pitch, true),
                ]
            }
            NodeKind::Memset(fill) => {
                let FillNode {
                    to,
                    bytes,
                    rows,
                    pitch,
                    ..
                } = fill.flattened();
                vec![operand(AccessMode::Write, to, bytes, rows, pitch, false)]
            }
            _ => Vec::new(),
        };
        // Null stands for an operand that is not known.
        all.retain(|operand| operand.start != 0 && operand.bytes != 0);
        all
    }

    /// One of its rows. What runs past the addresses is cut off there.
    fn row(&self, at: u64) -> ByteRange {
        let start = self.start.saturating_add(at.saturating_mul(self.pitch));
        ByteRange::new(start, start.saturating_add(self.bytes))
    }

    /// From the first byte of its first row to the last of its last.
    fn extent(&self) -> ByteRange {
        ByteRange::new(self.start, self.row(self.rows.saturating_sub(1)).end)
    }

    /// Its bytes: row by row, or all from the first to the last.
    fn parts(&self, whole: bool) -> impl Iterator<Item = ByteRange> + '_ {
        let rows = if whole { 0 } else { self.rows };
        let extent = whole.then(|| self.extent());
        (0..rows).map(|at| self.row(at)).chain(extent)
    }
}

/// An operand and what its node declares of its bytes.
struct Uncovered {
    operand: Operand,
    covered: RangeSet,
}

/// The operands of which the nodes do not declare all bytes.
fn uncovered(given: &Trace) -> Vec<Uncovered> {
    let mut declared: Vec<usize> = (0..given.accesses.len()).collect();
    declared.sort_by_key(|&at| given.accesses[at].node);
    let mut all = Vec::new();
    for (node, kind) in given.nodes.iter().enumerate() {
        for operand in Operand::of(NodeId::at(node), &kind.kind) {
            let here = |at: &usize| given.accesses[*at].node;
            let from = declared.partition_point(|at| here(at) < operand.node);
            let len = declared[from..].partition_point(|at| here(at) == operand.node);
            let covered = covered(given, &operand, &declared[from..from + len]);
            if operand.rows > 0 && !covered.covers(&operand.extent()) {
                all.push(Uncovered { operand, covered });
            }
        }
    }
    all
}

fn add_operands<'m>(
    trace: &mut Cow<'_, Trace>,
    given: &Trace,
    known: &impl Fn(u64, NodeId) -> Option<Meaning<'m>>,
) -> Result<(), VerifyError> {
    let all = uncovered(given);
    let rows = all.iter().map(|it| it.operand.rows);
    let few = rows.fold(0, u64::saturating_add) <= ROWS_IN_ALL;
    let bounds = Bounds::of(trace);
    let mut outside: Vec<Outside> = Vec::new();
    let mut left = MOST_SHOWN;
    for Uncovered { operand, covered } in &all {
        let (node, mode) = (operand.node, operand.mode);
        let possible = !few && operand.rows > ROWS;
        for row in operand.parts(possible) {
            for part in covered.gaps(row).flat_map(|gap| bounds.cut(gap)) {
                let refused = VerifyError::TooMuchShown { most: MOST_SHOWN };
                left = left.checked_sub(1).ok_or(refused)?;
                match known(part.start, node).and_then(buffer_of) {
                    Some(buffer) => {
                        let start = trace.buffer(buffer).range.start;
                        let bytes = ByteRange::new(part.start - start, part.end - start);
                        let access = Access::new(node, buffer, bytes, mode);
                        add(trace.to_mut(), access, possible);
                    }
                    None => outside.push(Outside {
                        node,
                        mode,
                        part,
                        of_copy: operand.of_copy,
                        possible,
                    }),
                }
            }
        }
    }
    add_outside(trace, &outside);
    Ok(())
}

/// Bytes of an operand in no buffer.
struct Outside {
    node: NodeId,
    mode: AccessMode,
    part: ByteRange,
    of_copy: bool,
    possible: bool,
}

/// Adds an access, or one that may be.
fn add(trace: &mut Trace, access: Access, possible: bool) {
    if possible {
        let Access {
            node,
            buffer,
            bytes,
            ..
        } = access;
        trace.possible.push(unknown_word(node, buffer, bytes));
    } else {
        trace.add_access(access);
    }
}

/// The buffer that an address means, be it one that had been freed.
fn buffer_of(meaning: Meaning<'_>) -> Option<BufferId> {
    match meaning {
        Meaning::Buffer(id, _) => Some(id),
        Meaning::Freed(piece) | Meaning::Live(piece) => match piece.known {
            Known::Buffer { id, .. } => Some(id),
            Known::Live | Known::Freed => None,
        },
    }
}

/// The bytes that the node of an operand declares in a mode that covers it.
fn covered(trace: &Trace, operand: &Operand, declared: &[usize]) -> RangeSet {
    let covers = |mode: AccessMode| match operand.mode {
        AccessMode::Read => mode.reads(),
        _ => mode.writes(),
    };
    let accesses = declared.iter().map(|&at| &trace.accesses[at]);
    let known = accesses
        .filter(|access| covers(access.mode))
        .filter_map(|access| {
            access
                .bytes
                .shifted(trace.buffer(access.buffer).range.start)
        });
    let unknown = trace.unknown.iter();
    let unknown = unknown.filter(|access| access.node == operand.node && covers(access.mode));
    known.chain(unknown.map(|access| access.range)).collect()
}

/// Adds what lies in no buffer as memory without a name.
fn add_outside(trace: &mut Cow<'_, Trace>, outside: &[Outside]) {
    if outside.is_empty() {
        return;
    }
    let trace = trace.to_mut();
    let first = trace.buffers.len();
    let all: RangeSet = outside.iter().map(|it| it.part).collect();
    // What the graph allocates itself is nobody else's to keep.
    let made = trace.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::MemAlloc(alloc) if alloc.at != 0 => ByteRange::from_len(alloc.at, alloc.bytes),
        _ => None,
    });
    let made: RangeSet = made.collect();
    let fills = outside
        .iter()
        .filter(|it| !it.of_copy && !made.covers(&it.part));
    let fills: RangeSet = fills.map(|it| it.part).collect();
    for range in all.as_slice() {
        trace.add_buffer(Buffer {
            name: format!("memory at {:#x}", range.start),
            kind: match fills.overlaps(range) {
                true => BufferKind::Foreign {
                    keeper: Keeper::Nobody,
                },
                false => BufferKind::Persistent,
            },
            range: *range,
            carried: true,
        });
    }
    for it in outside {
        let at = (all.as_slice()).partition_point(|range| range.end <= it.part.start);
        let start = all.as_slice()[at].start;
        let bytes = ByteRange::new(it.part.start - start, it.part.end - start);
        let access = Access::new(it.node, BufferId::at(first + at), bytes, it.mode);
        add(trace, access, it.possible);
    }
}

/// The addresses at which a buffer begins or ends.
struct Bounds(Vec<u64>);

impl Bounds {
    fn of(trace: &Trace) -> Self {
        let ranges = trace.buffers.iter().map(|buffer| buffer.range);
        let mut all: Vec<u64> = ranges.flat_map(|range| [range.start, range.end]).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// The parts of a range that no buffer begins or ends inside of.
    fn cut(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let from = self.0.partition_point(|&at| at <= range.start);
        let inside = self.0[from..].iter().copied();
        let mut start = range.start;
        inside
            .take_while(move |&at| at < range.end)
            .chain([range.end])
            .map(move |end| {
                let part = ByteRange::new(start, end);
                start = end;
                part
            })
    }
}

fn add_words<'m>(trace: &mut Cow<'_, Trace>, known: &impl Fn(u64, NodeId) -> Option<Meaning<'m>>) {
    let words = scan_with(trace, known);
    if !words.possible.is_empty() || !words.stray.is_empty() {
        let trace = trace.to_mut();
        trace.possible.extend(words.possible);
        trace.stray.extend(words.stray);
    }
}
