//! Buffers that share bytes and whose lives are not apart: the only ones of
//! which ordered accesses can break R2.

use std::collections::HashMap;

use streamweir_trace::{BufferId, ByteRange};

use super::bits::Bits;
use crate::accesses::{Life, Touch};
use crate::context::Context;
use crate::error::VerifyError;

/// The most pairs of buffers that are looked at.
const MOST_TANGLED: usize = 1 << 21;

/// Which of two buffers comes first, as the accesses that are declared say, and
/// as all of them do. `None` when there is nothing to say it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Direction {
    pub(crate) declared: Option<BufferId>,
    pub(crate) all: Option<BufferId>,
}

impl Direction {
    /// The one of buffers whose lives are apart.
    pub(super) fn from_first(first: BufferId) -> Self {
        Self {
            declared: Some(first),
            all: Some(first),
        }
    }
}

/// The buffers that a buffer is tangled with, for those that are at all.
#[derive(Debug, Default)]
pub(super) struct Tangle {
    partners: HashMap<BufferId, Vec<(BufferId, Direction)>>,
    users: HashMap<BufferId, Users>,
}

impl Tangle {
    pub(super) fn new(context: &Context<'_>, tangled: &Bits) -> Result<Self, VerifyError> {
        let mut this = Self::default();
        if tangled.is_empty() {
            return Ok(this);
        }
        for (a, b) in overlapping_lives(context, tangled)? {
            for buffer in [a, b] {
                this.users
                    .entry(buffer)
                    .or_insert_with(|| Users::of(context, buffer));
            }
            let direction = this.direction(context, a, b);
            this.partners.entry(a).or_default().push((b, direction));
            this.partners.entry(b).or_default().push((a, direction));
        }
        Ok(this)
    }

    /// The buffers that `buffer` is tangled with.
    pub(super) fn partners(&self, buffer: BufferId) -> &[(BufferId, Direction)] {
        self.partners.get(&buffer).map_or(&[], Vec::as_slice)
    }

    /// The accesses of `buffer` that share a byte with `bytes`.
    pub(super) fn users(&self, buffer: BufferId, bytes: ByteRange) -> impl Iterator<Item = &Touch> {
        self.users
            .get(&buffer)
            .into_iter()
            .flat_map(move |users| users.overlapping(bytes))
    }

    /// The earliest hand-over says which buffer comes first; whatever points
    /// the other way comes between two accesses of it. An order that is forced
    /// says more than one that is not.
    fn direction(&self, context: &Context<'_>, a: BufferId, b: BufferId) -> Direction {
        let mut best: [Option<(bool, u32, u32, BufferId)>; 2] = [None; 2];
        for x in &self.users[&a].touches {
            for y in self.users(b, x.bytes) {
                let Some((first, then, forced)) = hand_over(context, x, y) else {
                    continue;
                };
                let place = |touch: &Touch| context.graph.position(touch.node);
                let key = (!forced, place(first), place(then), first.buffer);
                let both_declared = x.declared && y.declared;
                for (best, counts) in best.iter_mut().zip([both_declared, true]) {
                    if counts && best.is_none_or(|best| key < best) {
                        *best = Some(key);
                    }
                }
            }
        }
        let [declared, all] = best.map(|best| best.map(|(.., first)| first));
        Direction { declared, all }
    }
}

/// The two accesses in the order of the graph, and whether that order is
/// forced, when they may hand bytes over from one buffer to the other. `None`
/// when they conflict whatever their order, or not at all.
fn hand_over<'t>(
    context: &Context<'_>,
    x: &'t Touch,
    y: &'t Touch,
) -> Option<(&'t Touch, &'t Touch, bool)> {
    let (first, then, forced) = context.ordered(x, y);
    let conflict = x.mode.writes() || y.mode.writes();
    let in_order = x.node != y.node && !overwrites_carried(context, first, then);
    (conflict && in_order).then_some((first, then, forced))
}

/// Whether one of two ordered accesses destroys what the other's buffer carries
/// into the next replay.
pub(crate) fn overwrites_carried(context: &Context<'_>, first: &Touch, then: &Touch) -> bool {
    let clobbers = |writer: &Touch, owner: &Touch, after: bool| {
        let carried = context.accesses.life(owner.buffer).carried;
        carried && writer.mode.writes() && (owner.mode.reads() || after)
    };
    clobbers(first, then, false) || clobbers(then, first, true)
}

/// The accesses of a buffer by first byte.
#[derive(Debug)]
struct Users {
    touches: Vec<Touch>,
    /// The furthest end among the accesses up to each one.
    reach: Vec<u64>,
}

impl Users {
    fn of(context: &Context<'_>, buffer: BufferId) -> Self {
        let mut touches: Vec<Touch> = context.accesses.of(buffer).collect();
        touches.sort_by_key(|touch| touch.bytes.start);
        let mut furthest = 0;
        let reach = touches
            .iter()
            .map(|touch| {
                furthest = touch.bytes.end.max(furthest);
                furthest
            })
            .collect();
        Self { touches, reach }
    }

    fn overlapping(&self, bytes: ByteRange) -> impl Iterator<Item = &Touch> {
        let until = self
            .touches
            .partition_point(|touch| touch.bytes.start < bytes.end);
        (0..until)
            .rev()
            .take_while(move |&at| self.reach[at] > bytes.start)
            .map(|at| &self.touches[at])
            .filter(move |touch| touch.bytes.end > bytes.start)
    }
}

/// The pairs of buffers that share bytes, of which one is written, and whose
/// lives are not apart.
fn overlapping_lives(
    context: &Context<'_>,
    tangled: &Bits,
) -> Result<Vec<(BufferId, BufferId)>, VerifyError> {
    let life = |id: BufferId| context.accesses.life(id);
    let range = |id: BufferId| context.trace.buffer(id).range;
    // What a carried buffer holds matters before its first access and after its
    // last one.
    let begin = |life: &Life| if life.carried { 0 } else { life.first };
    let end = |life: &Life| if life.carried { u32::MAX } else { life.last };
    let mut buffers: Vec<BufferId> = (0..context.trace.buffers.len())
        .map(BufferId::at)
        .filter(|&id| {
            let (from, to) = life(id).cells;
            life(id).count > 0 && tangled.any(from, to)
        })
        .collect();
    buffers.sort_by_key(|&id| (begin(life(id)), id));
    let mut open: Vec<BufferId> = Vec::new();
    let mut pairs = Vec::new();
    for &id in &buffers {
        open.retain(|&other| end(life(other)) >= begin(life(id)));
        for &other in &open {
            let written = life(id).written || life(other).written;
            if written && range(id).overlaps(&range(other)) {
                pairs.push((other, id));
            }
        }
        open.push(id);
        if pairs.len() > MOST_TANGLED {
            return Err(VerifyError::TooEntangled {
                what: "buffers that share bytes while both are in use",
                most: MOST_TANGLED as u64,
            });
        }
    }
    Ok(pairs)
}
