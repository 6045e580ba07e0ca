//! Which buffers may not share bytes, as lists of neighbours.
//!
//! Found from the chains in time proportional to the conflicts there are: those
//! of one life on one chain are the lives that begin after it does and before
//! the first one that it is entirely before.

use crate::lives::Lives;

/// The most pairs that are kept; they take 8 bytes each.
const MOST_PAIRS: usize = 1 << 26;

/// For each buffer those it conflicts with, in rising order.
#[derive(Clone, Debug)]
pub(crate) struct Conflicts {
    starts: Vec<u32>,
    others: Vec<u32>,
}

impl Conflicts {
    /// The conflicts, or `None` when there are too many to keep.
    pub(crate) fn new(lives: &Lives) -> Option<Self> {
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let chains = lives.chains();
        for a in chains.chains.iter().flatten().copied() {
            let key = |at: u32| (lives.span(at as usize), at);
            let from = (lives.span(a as usize).map(|span| span.0), a);
            for chain in &chains.chains {
                let later = chain.partition_point(|&b| (key(b).0.map(|span| span.0), b) <= from);
                let tail = chain[later..].iter();
                pairs.extend(
                    tail.take_while(|&&b| !lives.before(a as usize, b as usize))
                        .map(|&b| (a, b)),
                );
            }
            if pairs.len() > MOST_PAIRS {
                return None;
            }
        }
        for (at, &a) in chains.loose.iter().enumerate() {
            let others = chains
                .chains
                .iter()
                .flatten()
                .chain(&chains.loose[at + 1..]);
            let others = others.filter(|&&b| lives.conflict(a as usize, b as usize));
            pairs.extend(others.map(|&b| (a, b)));
            if pairs.len() > MOST_PAIRS {
                return None;
            }
        }
        Some(Self::of(lives.len(), &pairs))
    }

    fn of(count: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0_u32; count + 1];
        for &(a, b) in pairs {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut others = vec![0; pairs.len() * 2];
        for &(a, b) in pairs {
            for (from, to) in [(a, b), (b, a)] {
                let place = &mut next[from as usize];
                others[*place as usize] = to;
                *place += 1;
            }
        }
        for at in 0..count {
            others[starts[at] as usize..starts[at + 1] as usize].sort_unstable();
        }
        Self { starts, others }
    }

    /// Those among `members`, which rise, by their places in that list.
    pub(crate) fn among(&self, members: &[u32]) -> Self {
        let mut place = vec![None; self.starts.len() - 1];
        for (at, &member) in (0_u32..).zip(members) {
            place[member as usize] = Some(at);
        }
        let mut part = Self {
            starts: vec![0],
            others: Vec::new(),
        };
        for &member in members {
            let others = self.of_item(member).iter();
            let inside = others.filter_map(|&other| place[other as usize]);
            part.others.extend(inside);
            part.starts.push(part.others.len() as u32);
        }
        part
    }

    /// How many there are, both directions counted.
    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    /// Those that `at` may not share bytes with.
    #[inline]
    pub(crate) fn of_item(&self, at: u32) -> &[u32] {
        let at = at as usize;
        &self.others[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::Life;
    use crate::rng::Rng;

    #[test]
    fn finds_what_all_pairs_say() {
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            // Programs over three streams with random joins, one buffer for
            // each kernel and random later readers.
            let streams = 3;
            let mut frontiers = vec![vec![0_u32; streams]; streams];
            // What comes before, what has ended, the span, and the stream.
            type Row = (Vec<u32>, Vec<u32>, (u32, u32), u32);
            let mut lives: Vec<Row> = Vec::new();
            for at in 0..24_u32 {
                let stream = rng.below(streams as u64) as usize;
                if rng.below(3) == 0 {
                    let from = frontiers[rng.below(streams as u64) as usize].clone();
                    for (mine, theirs) in frontiers[stream].iter_mut().zip(from) {
                        *mine = theirs.max(*mine);
                    }
                }
                let begin = frontiers[stream].clone();
                frontiers[stream][stream] += 1;
                for (_, end, span, _) in &mut lives {
                    if rng.below(4) == 0 {
                        end[stream] = frontiers[stream][stream];
                        span.1 = at;
                    }
                }
                let mut end = vec![0; streams];
                end[stream] = frontiers[stream][stream];
                lives.push((begin, end, (at, at), stream as u32));
            }
            let mut all = Lives::new(streams);
            for (begin, end, span, chain) in &lives {
                // Some are told to be on the wrong chain, or on none.
                let chain = match rng.below(8) {
                    0 => None,
                    1 => Some(0),
                    _ => Some(*chain),
                };
                all.push(&Life {
                    begin,
                    end,
                    span: *span,
                    chain,
                });
            }
            all.push_untouched();
            let found = Conflicts::new(&all).unwrap();
            for a in 0..all.len() {
                let slow: Vec<u32> = (0..all.len())
                    .filter(|&b| a != b && all.conflict(a, b))
                    .map(|b| b as u32)
                    .collect();
                assert_eq!(found.of_item(a as u32), slow);
            }
        }
    }
}
