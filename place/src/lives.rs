//! When each buffer is in use, and hence which two may share bytes.
//!
//! # What is guaranteed
//! *a* is entirely before *b* ([`Lives::before`]) when everything that touches
//! *a* is ordered before anything that touches *b*. Only then may the two share
//! bytes; the order itself is given and nothing is added to it.
//!
//! # How
//! Progress is counted on axes: one for each stream of a log, where a place is a
//! number of kernels, or a single axis of time. A life has two clocks over the
//! axes: what is certainly over when it begins, and what must be over when it
//! has ended. *a* is before *b* iff the end of *a* is within the beginning of *b*
//! on every axis.
//!
//! The lives that begin on one stream begin later and later, so all that come
//! after some life are a tail of each such chain. Conflicts and floors are found
//! from the heads of these tails and never by looking at all pairs.

/// The life of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life<'a> {
    /// For each axis, how far it certainly is when the life begins.
    pub begin: &'a [u32],
    /// For each axis, how far it has to be for the life to be over.
    pub end: &'a [u32],
    /// The places of the beginning and the end in one order that agrees with
    /// the axes, both inclusive: a life that is before another one has ended at
    /// a lower place than that one begins at.
    pub span: (u32, u32),
    /// The chain that it begins on. Lives of one chain begin in the order of
    /// their spans; one that does not is still treated rightly, only more
    /// slowly.
    pub chain: Option<u32>,
}

/// When each buffer of a problem is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    axes: usize,
    begins: Vec<u32>,
    ends: Vec<u32>,
    /// `None` for a buffer that nothing touches.
    spans: Vec<Option<(u32, u32)>>,
    chain_of: Vec<Option<u32>>,
}

impl Lives {
    /// No lives yet, over so many axes.
    pub fn new(axes: usize) -> Self {
        Self {
            axes,
            ..Self::default()
        }
    }

    /// Lives on one axis of time, each from its first moment up to, and without,
    /// its last. One that ends where it begins is in nobody's way.
    pub fn on_one_axis(intervals: &[(u64, u64)]) -> Self {
        let mut moments: Vec<u64> = intervals.iter().flat_map(|&(a, b)| [a, b]).collect();
        moments.sort_unstable();
        moments.dedup();
        let rank = |moment: u64| moments.partition_point(|&m| m < moment) as u32;
        let mut lives = Self::new(1);
        for &(lower, upper) in intervals {
            let (begin, end) = (rank(lower), rank(upper));
            if begin < end {
                lives.push(&Life {
                    begin: &[begin],
                    end: &[end],
                    span: (begin, end - 1),
                    chain: Some(0),
                });
            } else {
                lives.push_untouched();
            }
        }
        lives
    }

    /// Adds a life.
    ///
    /// # Panics
    /// When its clocks have not one entry for each axis.
    pub fn push(&mut self, life: &Life<'_>) {
        assert_eq!(life.begin.len(), self.axes, "one beginning for each axis");
        assert_eq!(life.end.len(), self.axes, "one end for each axis");
        self.begins.extend_from_slice(life.begin);
        self.ends.extend_from_slice(life.end);
        self.spans.push(Some(life.span));
        self.chain_of.push(life.chain);
    }

    /// Adds a buffer that nothing touches.
    pub fn push_untouched(&mut self) {
        self.begins.extend((0..self.axes).map(|_| u32::MAX));
        self.ends.extend((0..self.axes).map(|_| 0));
        self.spans.push(None);
        self.chain_of.push(None);
    }

    /// How many lives there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether the order of all lives is that of one axis.
    pub fn has_one_axis(&self) -> bool {
        self.axes <= 1
    }

    /// How many axes there are.
    pub(crate) fn axes(&self) -> usize {
        self.axes
    }

    /// Whether all of `a` is before all of `b`. Panics when there is no such
    /// life.
    #[inline]
    pub fn before(&self, a: usize, b: usize) -> bool {
        within(self.end(a), self.begin(b))
    }

    /// Whether the two may not share bytes.
    #[inline]
    pub fn conflict(&self, a: usize, b: usize) -> bool {
        !self.before(a, b) && !self.before(b, a)
    }

    /// The life's span; `None` when nothing touches the buffer.
    #[inline]
    pub fn span(&self, life: usize) -> Option<(u32, u32)> {
        self.spans[life]
    }

    #[inline]
    pub(crate) fn begin(&self, life: usize) -> &[u32] {
        &self.begins[life * self.axes..][..self.axes]
    }

    #[inline]
    pub(crate) fn end(&self, life: usize) -> &[u32] {
        &self.ends[life * self.axes..][..self.axes]
    }

    /// The lives of `members` alone, in that order.
    pub(crate) fn of(&self, members: &[u32]) -> Self {
        let mut lives = Self::new(self.axes);
        for &member in members {
            let at = member as usize;
            lives.begins.extend_from_slice(self.begin(at));
            lives.ends.extend_from_slice(self.end(at));
            lives.spans.push(self.spans[at]);
            lives.chain_of.push(self.chain_of[at]);
        }
        lives
    }

    /// The lives sorted into chains whose beginnings only grow, and those that
    /// fit no chain.
    pub(crate) fn chains(&self) -> Chains {
        let mut order: Vec<u32> = (0..self.len() as u32)
            .filter(|&at| self.spans[at as usize].is_some())
            .collect();
        order.sort_by_key(|&at| (self.spans[at as usize].map(|span| span.0), at));
        let count = self.chain_of.iter().flatten().max().map_or(0, |&c| c + 1);
        let mut chains = Chains {
            chains: vec![Vec::new(); count as usize],
            loose: Vec::new(),
        };
        for at in order {
            let chain = self.chain_of[at as usize].map(|chain| &mut chains.chains[chain as usize]);
            match chain {
                Some(chain)
                    if chain.last().is_none_or(|&last| {
                        within(self.begin(last as usize), self.begin(at as usize))
                    }) =>
                {
                    chain.push(at);
                }
                _ => chains.loose.push(at),
            }
        }
        chains.chains.retain(|chain| !chain.is_empty());
        chains
    }
}

/// Lives in chains.
pub(crate) struct Chains {
    /// Each in the order of the spans, with beginnings that only grow.
    pub(crate) chains: Vec<Vec<u32>>,
    /// What fits no chain.
    pub(crate) loose: Vec<u32>,
}

/// Whether a clock reaches no further than another one on any axis.
#[inline]
pub(crate) fn within(end: &[u32], begin: &[u32]) -> bool {
    end.iter().zip(begin).all(|(end, begin)| end <= begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_meet_do_not_conflict() {
        let lives = Lives::on_one_axis(&[(0, 5), (5, 9), (4, 6), (7, 7)]);
        assert!(lives.before(0, 1) && !lives.before(1, 0));
        assert!(lives.conflict(0, 2) && lives.conflict(1, 2));
        assert!((0..3).all(|other| !lives.conflict(3, other)), "never alive");
        assert!((0..3).all(|at| !lives.before(at, at)));
    }

    #[test]
    fn an_order_needs_all_axes() {
        let mut lives = Lives::new(2);
        let life = |begin, end, span| Life {
            begin,
            end,
            span,
            chain: Some(0),
        };
        lives.push(&life(&[0, 0], &[3, 2], (0, 4)));
        lives.push(&life(&[3, 1], &[4, 0], (5, 6)));
        lives.push(&life(&[3, 2], &[4, 0], (7, 8)));
        assert!(lives.conflict(0, 1), "the second axis is not there yet");
        assert!(lives.before(0, 2));
    }

    #[test]
    fn what_begins_out_of_order_is_in_no_chain() {
        let mut lives = Lives::new(1);
        for (begin, span) in [([4], (1, 1)), ([2], (2, 2)), ([5], (3, 3))] {
            lives.push(&Life {
                begin: &begin,
                end: &[9],
                span,
                chain: Some(0),
            });
        }
        let chains = lives.chains();
        assert_eq!(chains.chains, [[0, 2]]);
        assert_eq!(chains.loose, [1]);
    }
}
