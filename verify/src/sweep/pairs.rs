//! Pass 2: the pairs of accesses that may conflict, where pass 1 says that there
//! are any.
//!
//! The suspect accesses are taken in the order of the graph once more, and
//! nothing is forgotten this time: for each block of bytes the accesses of each
//! chain hang together, latest first. A chain is walked back from its latest
//! access until one is ordered, since all before that one are ordered too.
//!
//! A pair of nodes is met at the later one of the two, so it is known in full
//! once that node is done.

use std::collections::{HashMap, HashSet};

use streamweir_trace::{AccessMode, BufferId, ByteRange, NodeId, Phase};

use super::bits::Bits;
use super::history::{Class, Entry};
use super::suspects::{Suspects, entry};
use super::tangle::{Direction, Tangle};
use crate::accesses::{Kind, Touch};
use crate::context::Context;
use crate::error::VerifyError;

/// The most pairs of accesses that one pass looks at.
pub(super) const MOST_PAIRS: u64 = 1 << 28;

/// What pass 2 meets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Met<'t> {
    /// Two accesses that share a byte; the first stands first in the order of the
    /// graph, or is of the same node.
    Pair(&'t Touch, &'t Touch),
    /// All pairs of one later node have been met.
    NodeDone,
}

/// An access with something to answer for.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    id: u32,
    node: NodeId,
    from: u32,
    to: u32,
}

/// Hands over the pairs of accesses of one buffer that are not ordered (R1), and
/// says how many questions about order it took.
pub(crate) fn within_buffers(
    context: &Context<'_>,
    suspects: &Suspects,
    mut seen: impl FnMut(Met<'_>),
) -> Result<u64, VerifyError> {
    let racing = &suspects.racing;
    if racing.is_empty() {
        return Ok(0);
    }
    let accesses = &context.accesses;
    let all = concerned(context, |_, from, to| racing.any(from, to));
    let mut blocks = Blocks::new(&all);
    let mut compared = 0;
    for of_node in all.chunk_by(|a, b| a.node == b.node) {
        for suspect in of_node {
            let touch = accesses.touch(suspect.id);
            blocks.meet(context, racing, suspect, |id| {
                let earlier = accesses.touch(id);
                if earlier.buffer == touch.buffer {
                    compared += 1;
                    if earlier.bytes.overlaps(&touch.bytes) {
                        seen(Met::Pair(&earlier, &touch));
                    }
                }
            });
        }
        seen(Met::NodeDone);
        few(compared)?;
    }
    Ok(compared)
}

/// Hands over the pairs of accesses of two buffers that are not ordered, or that
/// spoil what one of the two holds (R2), with the buffer that comes first of the
/// two; and says how many questions about order it took.
pub(crate) fn across_buffers(
    context: &Context<'_>,
    suspects: &Suspects,
    mut seen: impl FnMut(Met<'_>, Direction),
) -> Result<u64, VerifyError> {
    let Suspects {
        racing, tangled, ..
    } = suspects;
    if racing.is_empty() && tangled.is_empty() {
        return Ok(0);
    }
    let tangle = Tangle::new(context, tangled)?;
    let accesses = &context.accesses;
    let all = concerned(context, |buffer, from, to| {
        racing.any(from, to) || !tangle.partners(buffer).is_empty()
    });
    let mut blocks = Blocks::new(&all);
    let mut compared = 0;
    for of_node in all.chunk_by(|a, b| a.node == b.node) {
        for suspect in of_node {
            let touch = accesses.touch(suspect.id);
            for &(other, direction) in tangle.partners(touch.buffer) {
                for user in tangle.users(other, touch.bytes) {
                    if comes_first(context, user, &touch) {
                        compared += 1;
                        seen(Met::Pair(user, &touch), direction);
                    }
                }
            }
            blocks.meet(context, racing, suspect, |id| {
                let earlier = accesses.touch(id);
                if earlier.buffer == touch.buffer {
                    return;
                }
                compared += 1;
                let lives = [earlier.buffer, touch.buffer].map(|id| accesses.life(id));
                // Of buffers that are not apart, the tangle knows.
                if earlier.bytes.overlaps(&touch.bytes) && lives[0].is_apart_from(lives[1]) {
                    let direction = Direction::from_first(earlier.buffer);
                    seen(Met::Pair(&earlier, &touch), direction);
                }
            });
        }
        seen(Met::NodeDone, Direction::default());
        few(compared)?;
    }
    Ok(compared)
}

/// Refuses more pairs than can be looked at in a while.
fn few(compared: u64) -> Result<(), VerifyError> {
    if compared <= MOST_PAIRS {
        return Ok(());
    }
    Err(VerifyError::TooEntangled {
        what: "accesses of the same bytes",
        most: MOST_PAIRS,
    })
}

/// The accesses whose buffer and cells are of interest, in the order of the
/// graph. What a node does twice counts once.
fn concerned(
    context: &Context<'_>,
    of_interest: impl Fn(BufferId, u32, u32) -> bool,
) -> Vec<Suspect> {
    let accesses = &context.accesses;
    let mut here = None;
    let mut known: HashSet<(BufferId, ByteRange, AccessMode, Phase, bool)> = HashSet::new();
    let suspect = |id: u32| {
        let (buffer, bytes) = accesses.place(id);
        let (from, to) = context.map.covered(accesses.life(buffer).cells, bytes);
        if from >= to || !of_interest(buffer, from, to) {
            return None;
        }
        let Kind {
            node,
            phase,
            mode,
            declared,
        } = accesses.kind(id);
        if here.replace(node) != Some(node) {
            known.clear();
        }
        let new = known.insert((buffer, bytes, mode, phase, declared));
        new.then_some(Suspect { id, node, from, to })
    };
    accesses.ids().filter_map(suspect).collect()
}

/// Whether `user` stands before `touch` in the order of the graph; of one node,
/// by address.
fn comes_first(context: &Context<'_>, user: &Touch, touch: &Touch) -> bool {
    let place = |touch: &Touch| {
        (
            context.graph.position(touch.node),
            touch.bytes.start,
            touch.buffer,
        )
    };
    if user.node == touch.node {
        return place(user) < place(touch);
    }
    place(user).0 < place(touch).0
}

/// The accesses of blocks of cells so far.
#[derive(Debug)]
struct Blocks {
    /// A block is two to this many cells.
    shift: u32,
    chains: HashMap<u32, Vec<Chain>>,
    links: Vec<Link>,
}

/// The accesses of one class on one chain.
#[derive(Debug)]
struct Chain {
    latest: Entry,
    at: u32,
}

#[derive(Debug)]
struct Link {
    id: u32,
    index: u32,
    /// The first block of the access.
    block: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Blocks {
    /// Blocks so large that the accesses meet few of them on average: what is
    /// kept of an access is once per block.
    fn new(all: &[Suspect]) -> Self {
        let met = |shift: u32| -> u64 {
            all.iter()
                .map(|s| u64::from(((s.to - 1) >> shift) - (s.from >> shift) + 1))
                .sum()
        };
        let shift = (0..31).find(|&shift| met(shift) <= 4 * all.len() as u64);
        Self {
            shift: shift.unwrap_or(31),
            chains: HashMap::new(),
            links: Vec::new(),
        }
    }

    /// Hands each earlier access that meets this one in a block and may conflict
    /// with it, and is not ordered before it, to `unordered`, once; and adds this
    /// one.
    fn meet(
        &mut self,
        context: &Context<'_>,
        racing: &Bits,
        suspect: &Suspect,
        mut unordered: impl FnMut(u32),
    ) {
        let kind = context.accesses.kind(suspect.id);
        let clock = context.reach.clock(kind.node, kind.phase);
        let access = entry(
            context.reach.place(kind.node),
            kind.mode,
            context.accesses.place(suspect.id).0,
        );
        let first = suspect.from >> self.shift;
        for block in first..=(suspect.to - 1) >> self.shift {
            let cells = (
                u64::from(block) << self.shift,
                (u64::from(block) + 1) << self.shift,
            );
            let end = cells.1.min(context.map.len() as u64) as u32;
            if !racing.any(cells.0 as u32, end) {
                continue;
            }
            let chains = self.chains.entry(block).or_default();
            let mut own = None;
            for (slot, chain) in chains.iter().enumerate() {
                if belongs(&chain.latest, &access) {
                    own = Some(slot);
                }
                if !chain.latest.conflicts(&access) {
                    continue;
                }
                let mut at = chain.at;
                while at != NONE {
                    let link = &self.links[at as usize];
                    let earlier = Entry {
                        index: link.index,
                        ..chain.latest
                    };
                    if earlier.ended(clock) {
                        break;
                    }
                    // Met before when the two share an earlier block.
                    if link.block.max(first) == block {
                        unordered(link.id);
                    }
                    at = link.next;
                }
            }
            let slot = own.unwrap_or_else(|| {
                chains.push(Chain {
                    latest: access,
                    at: NONE,
                });
                chains.len() - 1
            });
            self.links.push(Link {
                id: suspect.id,
                index: access.index,
                block: first,
                next: chains[slot].at,
            });
            chains[slot] = Chain {
                latest: access,
                at: self.links.len() as u32 - 1,
            };
        }
    }
}

/// Whether two accesses of a block are kept in one list: those that conflict
/// with the same others.
fn belongs(a: &Entry, b: &Entry) -> bool {
    a.chain == b.chain && a.class == b.class && (a.class != Class::Atomic || a.buffer == b.buffer)
}
