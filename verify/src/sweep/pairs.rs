//! Pass 2: the pairs of nodes that conflict, where pass 1 says that there are
//! any.
//!
//! The suspect accesses are taken in the order of the graph once more, and
//! nothing is forgotten this time: for each block of bytes the accesses of each
//! chain hang together, latest first. A chain is walked back from its latest
//! access until one is ordered, since all before that one are ordered too.
//!
//! A pair of nodes is met at the later one of the two, so it is known in full,
//! and counted, once that node is done. Only what the report will list is kept.

use std::collections::HashMap;

use streamweir_trace::NodeId;

use crate::accesses::Touch;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::r01_unordered_conflict as unordered_conflict;
use crate::rules::r02_shared_bytes as shared_bytes;
use crate::rules::{Context, Rule};

use super::history::{Class, Entry};
use super::tangle::{Direction, Tangle};
use super::{Suspects, entry};

/// An access with something to answer for.
#[derive(Clone, Copy, Debug)]
struct Suspect {
    id: u32,
    node: NodeId,
    from: u32,
    to: u32,
}

/// Lists the hazards of R1 and R2.
pub(crate) fn list(context: &Context<'_>, suspects: &Suspects, findings: &Findings) {
    let Suspects {
        racing, tangled, ..
    } = suspects;
    if racing.is_empty() && tangled.is_empty() {
        return;
    }
    let tangle = Tangle::new(context, tangled);
    let accesses = &context.accesses;
    let all: Vec<Suspect> = accesses
        .ids()
        .filter_map(|id| {
            let (buffer, bytes) = accesses.place(id);
            let (from, to) = context.map.covered(accesses.life(buffer).cells, bytes);
            let node = accesses.kind(id).node;
            let concerned =
                from < to && (racing.any(from, to) || !tangle.partners(buffer).is_empty());
            concerned.then_some(Suspect { id, node, from, to })
        })
        .collect();
    let mut blocks = Blocks::new(&all);
    let mut pairs = Pairs::default();
    for of_node in all.chunk_by(|a, b| a.node == b.node) {
        for suspect in of_node {
            let touch = accesses.touch(suspect.id);
            for &(other, direction) in tangle.partners(touch.buffer) {
                for user in tangle.users(other, touch.bytes) {
                    if comes_first(context, user, &touch) {
                        findings.compared();
                        pairs.shared(context, user, &touch, direction);
                    }
                }
            }
            blocks.meet(context, suspects, suspect, |id| {
                findings.compared();
                let earlier = accesses.touch(id);
                if !earlier.bytes.overlaps(&touch.bytes) {
                    return;
                }
                if earlier.buffer == touch.buffer {
                    if unordered_conflict::conflict(&earlier, &touch) {
                        pairs.add(Rule::UnorderedConflict, Cause::Unordered, &earlier, &touch);
                    }
                } else if accesses
                    .life(earlier.buffer)
                    .is_apart_from(accesses.life(touch.buffer))
                {
                    // Of buffers that are not, the tangle knows.
                    let direction = Direction::from_first(earlier.buffer);
                    pairs.shared(context, &earlier, &touch, direction);
                }
            });
        }
        pairs.close(context, findings);
    }
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
        suspects: &Suspects,
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
            if !suspects.racing.any(cells.0 as u32, end) {
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

/// The pairs whose later node is the one at hand.
#[derive(Debug, Default)]
struct Pairs {
    open: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    rule: Rule,
    cause: Cause,
    first: Touch,
    then: Touch,
    direction: Direction,
    proven: bool,
}

impl Pairs {
    fn add(&mut self, rule: Rule, cause: Cause, first: &Touch, then: &Touch) {
        self.open.push(Pair {
            rule,
            cause,
            first: *first,
            then: *then,
            direction: Direction::default(),
            proven: first.declared && then.declared,
        });
    }

    /// Adds a pair of two buffers if it is a hazard.
    fn shared(&mut self, context: &Context<'_>, first: &Touch, then: &Touch, direction: Direction) {
        if let Some(cause) = shared_bytes::judge(context, first, then, direction) {
            let proven = shared_bytes::proven(&cause, first, then, direction);
            self.add(Rule::SharedBytes, cause, first, then);
            if let Some(pair) = self.open.last_mut() {
                (pair.direction, pair.proven) = (direction, proven);
            }
        }
    }

    /// Counts the pairs, and hands over those that will be listed.
    fn close(&mut self, context: &Context<'_>, findings: &Findings) {
        self.open.sort_by_key(|pair| (pair.rule, pair.first.node));
        for group in self
            .open
            .chunk_by(|a, b| (a.rule, a.first.node) == (b.rule, b.first.node))
        {
            let lead = &group[0];
            let key = (lead.rule, Some(lead.first.node), Some(lead.then.node), 0);
            if findings.lists(&key) {
                for pair in group {
                    findings.push(pair.finding(context));
                }
                findings.close();
            } else {
                findings.count(group.iter().any(|pair| pair.proven));
            }
        }
        self.open.clear();
    }
}

impl Pair {
    fn finding(&self, context: &Context<'_>) -> Finding {
        let Self { first, then, .. } = self;
        match self.rule {
            Rule::SharedBytes => {
                shared_bytes::finding(context, self.cause.clone(), first, then, self.direction)
            }
            _ => unordered_conflict::finding(first, then),
        }
    }
}
