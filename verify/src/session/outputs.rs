//! Outputs that a step may not find where it is to read them: it may run before
//! the step that it reads from, or another step may have written in between.
//!
//! # What is raised
//! `reader` is to find the bytes that `source` wrote.
//!
//! | what the order of the session leaves open | raised |
//! | --- | --- |
//! | `reader` before `source` | unless the two are a conflict already |
//! | a write of those bytes, not meant either, between the two | unless it is a conflict with the one that it is not ordered with |
//!
//! What is not ordered and conflicts is found as an unordered conflict (R5, R12)
//! and not said twice. What remains are steps in order, and atomics: these may
//! meet in any order without a race, and yet the reader finds something else.
//!
//! # What it costs
//! Each reader looks once at the writes between it and its sources, and at the
//! atomic ones outside if it or a source is atomic itself. A session in which that
//! comes to more than [`MOST_LOOKS`] is refused. Of what is found the list is kept
//! as long as the report's and the rest is counted, up to [`MOST_FOUND`].

use std::cell::Cell;
use std::collections::BTreeMap;

use streamweir_trace::session::Session;
use streamweir_trace::{Access, AccessMode, BufferId, ByteRange, NodeId, Phase, RangeSet, StepId};

use crate::context::Context;
use crate::error::VerifyError;
use crate::rule::Rule;

/// How many writes are looked at, and bytes compared, for all readers together.
const MOST_LOOKS: u64 = 1 << 30;

/// How many findings are counted. One cause may have as many as there are pairs of
/// steps, and none of the later ones says anything new.
const MOST_FOUND: u64 = 1 << 20;

/// An output that a step may not find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// The step that wrote it.
    pub(super) source: StepId,
    /// The step that overwrites it; `None` when the reader may come before the
    /// source.
    pub(super) by: Option<StepId>,
    /// Whether `by` comes between the two in every order, or only in some.
    pub(super) surely: bool,
    /// The step that is to read it.
    pub(super) reader: StepId,
    /// The lowest addresses concerned.
    pub(super) bytes: ByteRange,
}

impl Lost {
    /// The step at fault and the reader, as a report names them.
    pub(super) fn pair(&self) -> (StepId, StepId) {
        (self.by.unwrap_or(self.source), self.reader)
    }
}

/// What was found: the first ones in the order of a report, and how many there
/// are in all, each pair of steps counted once.
#[derive(Debug, Default)]
pub(super) struct LostOutputs {
    pub(super) first: BTreeMap<(Rule, StepId, StepId), Lost>,
    pub(super) total: u64,
    /// Whether there may be more that were not counted.
    pub(super) more: bool,
}

/// Every output that may not be found. `context` is that of the lowered session;
/// `rule` says which rule a finding breaks.
pub(super) fn lost(
    session: &Session,
    context: &Context<'_>,
    limit: usize,
    rule: impl Fn(&Lost) -> Rule,
) -> Result<LostOutputs, VerifyError> {
    let mut found = LostOutputs::default();
    if session.steps.iter().all(|step| step.reads_from.is_empty()) {
        return Ok(found);
    }
    let search = Search {
        context,
        touches: Touches::new(context),
        left: Cell::new(MOST_LOOKS),
    };
    for (at, step) in session.steps.iter().enumerate() {
        if step.reads_from.is_empty() {
            continue;
        }
        if found.total >= MOST_FOUND {
            found.more = true;
            break;
        }
        for (pair, lost) in search.of_reader(NodeId::at(at), &step.reads_from)? {
            found.total += 1;
            found.first.insert((rule(&lost), pair.0, pair.1), lost);
            if found.first.len() > limit {
                found.first.pop_last();
            }
        }
    }
    Ok(found)
}

struct Search<'a> {
    context: &'a Context<'a>,
    touches: Touches<'a>,
    left: Cell<u64>,
}

/// Bytes of a region that a reader is to find as one step left them.
struct Wanted {
    source: NodeId,
    bytes: RangeSet,
}

impl<'a> Search<'a> {
    fn before(&self, first: NodeId, then: NodeId) -> bool {
        (self.context.reach).ends_before(first, then, Phase::AfterWait)
    }

    fn look(&self, at: usize) -> Result<(), VerifyError> {
        let left = self.left.get().checked_sub(at as u64);
        self.left.set(left.ok_or(VerifyError::TooManyOutputs)?);
        Ok(())
    }

    /// What one reader may not find, by the pair of steps.
    fn of_reader(
        &'a self,
        reader: NodeId,
        sources: &[StepId],
    ) -> Result<BTreeMap<(StepId, StepId), Lost>, VerifyError> {
        let mut found = BTreeMap::new();
        let mut meant: Vec<NodeId> = sources.iter().map(|source| NodeId(source.0)).collect();
        meant.sort_unstable();
        meant.dedup();
        let mut wanted: BTreeMap<BufferId, Vec<Wanted>> = BTreeMap::new();
        for &source in &meant {
            let shared = self.touches.handed_over(source, reader);
            self.look(shared.len() + 1)?;
            if !self.before(source, reader) {
                if let Some((region, shared)) = shared.first()
                    && let Some(&bytes) = shared.as_slice().first()
                    && !self.conflict(source, reader)?
                {
                    self.add(
                        &mut found,
                        *region,
                        Lost {
                            source: StepId(source.0),
                            by: None,
                            surely: false,
                            reader: StepId(reader.0),
                            bytes,
                        },
                    );
                }
                continue;
            }
            for (region, bytes) in shared {
                wanted
                    .entry(region)
                    .or_default()
                    .push(Wanted { source, bytes });
            }
        }
        for (region, wanted) in wanted {
            self.overwritten(region, &wanted, reader, &meant, &mut found)?;
        }
        Ok(found)
    }

    /// The writes of a region that may come between `reader` and what it wants.
    fn overwritten(
        &'a self,
        region: BufferId,
        wanted: &[Wanted],
        reader: NodeId,
        meant: &[NodeId],
        found: &mut BTreeMap<(StepId, StepId), Lost>,
    ) -> Result<(), VerifyError> {
        let first = wanted.iter().map(|wanted| wanted.source).min();
        let first = first.unwrap_or(reader);
        let part = |all: &'a [Access], inside: bool| {
            let from = all.partition_point(|write| write.node <= first);
            let to = all.partition_point(|write| write.node < reader);
            match inside {
                true => [&all[from..to], &[]],
                false => [&all[..from], &all[to..]],
            }
        };
        // A write that stands outside of the two in the list of calls comes between
        // them only if nothing orders it with one of them, and is a conflict unless
        // both are atomic.
        let atomic = |node| self.touches.is_atomic(node);
        let mut outside = [&[][..]; 2];
        if atomic(reader) || wanted.iter().any(|wanted| atomic(wanted.source)) {
            outside = part(self.touches.atomics_of(region), false);
        }
        let [inside, _] = part(self.touches.writes_of(region), true);
        let all = [inside, outside[0], outside[1]];
        self.look(all.iter().map(|writes| writes.len()).sum())?;
        for write in all.into_iter().flatten() {
            if write.node == reader || meant.binary_search(&write.node).is_ok() {
                continue;
            }
            let pair = (StepId(write.node.0), StepId(reader.0));
            for wanted in wanted {
                self.look(1)?;
                let Some(bytes) = wanted.bytes.shared(write.bytes).next() else {
                    continue;
                };
                let known = found.get(&pair).map(|lost| lost.bytes.start);
                let start = self.touches.start_of(region);
                if known.is_some_and(|known| known <= bytes.start + start) {
                    continue;
                }
                if let Some(surely) = self.between(wanted.source, write.node, reader)? {
                    self.add(
                        found,
                        region,
                        Lost {
                            source: StepId(wanted.source.0),
                            by: Some(pair.0),
                            surely,
                            reader: pair.1,
                            bytes,
                        },
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether `by` may come between two steps in order without that being a
    /// conflict; and if so, whether it surely does.
    fn between(
        &self,
        source: NodeId,
        by: NodeId,
        reader: NodeId,
    ) -> Result<Option<bool>, VerifyError> {
        if self.before(by, source) || self.before(reader, by) {
            return Ok(None);
        }
        let behind = self.before(source, by);
        let ahead = self.before(by, reader);
        if !behind && self.conflict(source, by)? || !ahead && self.conflict(by, reader)? {
            return Ok(None);
        }
        Ok(Some(behind && ahead))
    }

    /// Whether two steps touch the same bytes in ways that are a race.
    fn conflict(&self, a: NodeId, b: NodeId) -> Result<bool, VerifyError> {
        let (a, b) = (self.touches.of(a), self.touches.of(b));
        self.look(a.len().saturating_mul(b.len()))?;
        Ok(a.iter().any(|a| {
            b.iter().any(|b| {
                a.buffer == b.buffer && a.mode.conflicts(b.mode) && a.bytes.overlaps(&b.bytes)
            })
        }))
    }

    /// Takes note of a finding whose bytes are counted from a region's first.
    fn add(&self, found: &mut BTreeMap<(StepId, StepId), Lost>, region: BufferId, mut lost: Lost) {
        let start = self.touches.start_of(region);
        lost.bytes = ByteRange::new(lost.bytes.start + start, lost.bytes.end + start);
        let slot = found.entry(lost.pair()).or_insert(lost);
        if lost.bytes < slot.bytes {
            *slot = lost;
        }
    }
}

/// The accesses of a lowered session by step, and its writes by region.
struct Touches<'a> {
    accesses: &'a [Access],
    starts: Vec<u64>,
    writes: Vec<Vec<Access>>,
    /// Those among them that are atomic.
    atomics: Vec<Vec<Access>>,
    /// By step.
    has_atomics: Vec<bool>,
}

impl<'a> Touches<'a> {
    fn new(context: &Context<'a>) -> Self {
        let trace = context.trace;
        let mut writes = vec![Vec::new(); trace.buffers.len()];
        let mut atomics = writes.clone();
        let mut has_atomics = vec![false; trace.nodes.len()];
        for access in trace.accesses.iter().filter(|access| access.mode.writes()) {
            writes[access.buffer.index()].push(*access);
            if access.mode == AccessMode::Atomic {
                atomics[access.buffer.index()].push(*access);
                has_atomics[access.node.index()] = true;
            }
        }
        Self {
            accesses: &trace.accesses,
            starts: trace
                .buffers
                .iter()
                .map(|buffer| buffer.range.start)
                .collect(),
            writes,
            atomics,
            has_atomics,
        }
    }

    fn start_of(&self, region: BufferId) -> u64 {
        self.starts[region.index()]
    }

    /// The accesses of a step. A lowered session has them in the order of its
    /// steps.
    fn of(&self, step: NodeId) -> &'a [Access] {
        let from = self.accesses.partition_point(|access| access.node < step);
        let len = self.accesses[from..].partition_point(|access| access.node == step);
        &self.accesses[from..from + len]
    }

    /// The bytes that `source` writes and `reader` reads, by region.
    fn handed_over(&self, source: NodeId, reader: NodeId) -> Vec<(BufferId, RangeSet)> {
        let sets = |step: NodeId, wanted: fn(AccessMode) -> bool| {
            let mut ranges: BTreeMap<BufferId, Vec<ByteRange>> = BTreeMap::new();
            for access in self.of(step).iter().filter(|access| wanted(access.mode)) {
                ranges.entry(access.buffer).or_default().push(access.bytes);
            }
            let sets = ranges.into_iter();
            sets.map(|(region, ranges)| (region, ranges.into_iter().collect::<RangeSet>()))
                .collect::<BTreeMap<_, _>>()
        };
        let reads = sets(reader, AccessMode::reads);
        let mut shared = Vec::new();
        for (region, written) in sets(source, AccessMode::writes) {
            let read = reads.get(&region).map_or(&[][..], RangeSet::as_slice);
            let both: RangeSet = read.iter().flat_map(|read| written.shared(*read)).collect();
            if !both.is_empty() {
                shared.push((region, both));
            }
        }
        shared
    }

    /// Whether a step has an atomic access.
    fn is_atomic(&self, step: NodeId) -> bool {
        self.has_atomics[step.index()]
    }

    fn atomics_of(&self, region: BufferId) -> &[Access] {
        &self.atomics[region.index()]
    }

    /// The writes of a region, in the order of the steps.
    fn writes_of(&self, region: BufferId) -> &[Access] {
        &self.writes[region.index()]
    }
}
