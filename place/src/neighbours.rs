//! Which buffers may not share bytes.
//!
//! For a few million pairs a list of neighbours is kept. For more, neighbours are found each
//! time they are asked for: those of one life on one chain begin before the first life there
//! that it is entirely before, and have not ended when it begins. The former is a search, as
//! lives of a chain begin later and later; the latter are looked for in blocks that know how
//! far their lives reach at most on each axis, so that blocks that are over are skipped
//! whole. Either way the cost is that of the neighbours there are.

use crate::lives::{Lives, within};

/// The most pairs that are listed; they take 8 bytes each, twice that while the list is made.
const MOST_LISTED: usize = 1 << 23;

/// The lives of one block, and the blocks of one block above.
const BLOCK: usize = 16;

/// For each buffer those it conflicts with.
#[derive(Clone, Debug)]
pub(crate) enum Neighbours<'a> {
    Listed(List),
    Searched(Index<'a>),
}

impl<'a> Neighbours<'a> {
    pub(crate) fn new(lives: &'a Lives) -> Self {
        Self::with_most(lives, MOST_LISTED)
    }

    /// As [`new`](Self::new), with a list of at most so many pairs.
    fn with_most(lives: &'a Lives, most: usize) -> Self {
        let index = Index::new(lives);
        match List::new(&index, most) {
            Some(list) => Self::Listed(list),
            None => Self::Searched(index),
        }
    }

    /// Calls `what` for each neighbour of a buffer, in an order that is always the same.
    #[inline]
    pub(crate) fn each(&self, at: u32, mut what: impl FnMut(u32)) {
        match self {
            Self::Listed(list) => list.of_item(at).iter().for_each(|&other| what(other)),
            Self::Searched(index) => index.each(at, what),
        }
    }

    /// The list, where there is one.
    pub(crate) fn list(&self) -> Option<&List> {
        match self {
            Self::Listed(list) => Some(list),
            Self::Searched(_) => None,
        }
    }
}

/// All neighbours of all buffers, in rising order.
#[derive(Clone, Debug)]
pub(crate) struct List {
    starts: Vec<u32>,
    others: Vec<u32>,
}

impl List {
    /// The list, or `None` when there are too many pairs.
    fn new(index: &Index<'_>, most: usize) -> Option<Self> {
        let count = index.lives.len();
        let mut list = Self {
            starts: Vec::with_capacity(count + 1),
            others: Vec::new(),
        };
        list.starts.push(0);
        for at in 0..count as u32 {
            let from = list.others.len();
            index.each(at, |other| list.others.push(other));
            if list.others.len() / 2 > most {
                return None;
            }
            list.others[from..].sort_unstable();
            list.starts.push(list.others.len() as u32);
        }
        Some(list)
    }

    /// Those that `at` may not share bytes with.
    #[inline]
    pub(crate) fn of_item(&self, at: u32) -> &[u32] {
        let at = at as usize;
        &self.others[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// The lives of a problem by chains.
#[derive(Clone, Debug)]
pub(crate) struct Index<'a> {
    lives: &'a Lives,
    chains: Vec<Chain>,
    /// Lives that fit no chain, each of which is looked at every time.
    loose: Vec<u32>,
}

/// Lives with beginnings that only grow.
#[derive(Clone, Debug)]
struct Chain {
    lives: Vec<u32>,
    /// Their ends, one after the other.
    ends: Vec<u32>,
    /// By height, lowest first: for each block the greatest end of its lives on each axis. The
    /// lowest blocks are of lives, the others of the blocks below.
    reach: Vec<Vec<u32>>,
}

impl<'a> Index<'a> {
    fn new(lives: &'a Lives) -> Self {
        let chains = lives.chains();
        let indexed = chains.chains.into_iter();
        Self {
            lives,
            // Without an axis nothing is ever in the way of anything.
            chains: (indexed.filter(|_| lives.axes() > 0))
                .map(|chain| Chain::new(lives, chain))
                .collect(),
            loose: chains.loose,
        }
    }

    fn each(&self, at: u32, mut what: impl FnMut(u32)) {
        if self.lives.span(at as usize).is_none() || self.lives.axes() == 0 {
            return;
        }
        for chain in &self.chains {
            chain.each(self.lives, at, &mut what);
        }
        for &other in &self.loose {
            if other != at && self.lives.conflict(at as usize, other as usize) {
                what(other);
            }
        }
    }
}

impl Chain {
    fn new(lives: &Lives, chain: Vec<u32>) -> Self {
        let axes = lives.axes();
        let ends = chain.iter().flat_map(|&at| lives.end(at as usize));
        let ends: Vec<u32> = ends.copied().collect();
        let mut reach = Vec::new();
        let mut below = blocks(&ends, axes);
        while below.len() > axes {
            let above = blocks(&below, axes);
            reach.push(std::mem::replace(&mut below, above));
        }
        reach.push(below);
        Self {
            lives: chain,
            ends,
            reach,
        }
    }

    fn each(&self, lives: &Lives, at: u32, what: &mut impl FnMut(u32)) {
        // From here on, all begin after `at` has ended.
        let later = |&other: &u32| !lives.before(at as usize, other as usize);
        let until = self.lives.partition_point(later);
        let looking = Looking {
            at,
            begin: lives.begin(at as usize),
            until,
        };
        self.inside(&looking, self.reach.len() - 1, 0, what);
    }

    /// Goes through the lives of one block, at a height that counts from the lowest blocks.
    fn inside(
        &self,
        looking: &Looking<'_>,
        height: usize,
        block: usize,
        what: &mut impl FnMut(u32),
    ) {
        let axes = looking.begin.len();
        if within(&self.reach[height][block * axes..][..axes], looking.begin) {
            return;
        }
        if height > 0 {
            let each = BLOCK.pow(height as u32);
            for below in block * BLOCK..(block + 1) * BLOCK {
                if below * each >= looking.until {
                    return;
                }
                self.inside(looking, height - 1, below, what);
            }
            return;
        }
        let until = looking.until.min((block + 1) * BLOCK);
        let ends = self.ends[block * BLOCK * axes..until * axes].chunks_exact(axes);
        for (end, &other) in ends.zip(&self.lives[block * BLOCK..until]) {
            if !within(end, looking.begin) && other != looking.at {
                what(other);
            }
        }
    }
}

/// Whose neighbours are looked for on a chain.
struct Looking<'l> {
    at: u32,
    begin: &'l [u32],
    /// The first place on the chain from which on all begin after the life has ended.
    until: usize,
}

/// The greatest of each axis over each block of clocks.
fn blocks(clocks: &[u32], axes: usize) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    for (at, clock) in clocks.chunks_exact(axes).enumerate() {
        if at % BLOCK == 0 {
            all.extend_from_slice(clock);
            continue;
        }
        let from = all.len() - axes;
        for (most, &end) in all[from..].iter_mut().zip(clock) {
            *most = end.max(*most);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::Life;
    use crate::rng::Rng;

    #[test]
    fn finds_what_all_pairs_say() {
        let mut rng = Rng::new(7);
        for round in 0..200 {
            // Some with more than one height of blocks on a chain.
            let count = if round % 20 == 0 { 900 } else { 24 };
            // Programs over three streams with random joins, one buffer for
            // each kernel and random later readers.
            let streams = 3;
            let mut frontiers = vec![vec![0_u32; streams]; streams];
            // What comes before, what has ended, the span, and the stream.
            type Row = (Vec<u32>, Vec<u32>, (u32, u32), u32);
            let mut lives: Vec<Row> = Vec::new();
            for at in 0..count {
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
            for most in [0, usize::MAX] {
                let found = Neighbours::with_most(&all, most);
                assert_eq!(found.list().is_some(), most > 0);
                for a in 0..all.len() {
                    let slow: Vec<u32> = (0..all.len())
                        .filter(|&b| a != b && all.conflict(a, b))
                        .map(|b| b as u32)
                        .collect();
                    let mut fast = Vec::new();
                    found.each(a as u32, |other| fast.push(other));
                    fast.sort_unstable();
                    assert_eq!(fast, slow);
                }
            }
        }
    }
}
