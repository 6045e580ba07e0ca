//! A set of small numbers that answers "which is the next, which the last one
//! up to here?" in a few steps.

/// Numbers below a bound.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    /// One bit for each word that is not zero.
    summary: Vec<u64>,
}

impl Bits {
    pub(super) fn new(bound: usize) -> Self {
        let words = bound.div_ceil(64);
        Self {
            words: vec![0; words],
            summary: vec![0; words.div_ceil(64)],
        }
    }

    pub(super) fn insert(&mut self, at: u32) {
        let word = at as usize / 64;
        self.words[word] |= 1 << (at % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    pub(super) fn contains(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 != 0
    }

    /// Adds all of `from..to`.
    pub(super) fn insert_all(&mut self, from: u32, to: u32) {
        self.each_word(from, to, |word, mask| *word |= mask);
    }

    /// Removes all of `from..to`.
    pub(super) fn remove_all(&mut self, from: u32, to: u32) {
        self.each_word(from, to, |word, mask| *word &= !mask);
    }

    fn each_word(&mut self, from: u32, to: u32, change: impl Fn(&mut u64, u64)) {
        if from >= to {
            return;
        }
        let (low, high) = (from as usize / 64, (to - 1) as usize / 64);
        for at in low..=high {
            let mut mask = u64::MAX;
            if at == low {
                mask &= u64::MAX << (from % 64);
            }
            if at == high {
                mask &= u64::MAX >> (63 - (to - 1) % 64);
            }
            change(&mut self.words[at], mask);
            let bit = 1 << (at % 64);
            if self.words[at] == 0 {
                self.summary[at / 64] &= !bit;
            } else {
                self.summary[at / 64] |= bit;
            }
        }
    }

    /// The greatest number up to and including `at`.
    pub(super) fn last_up_to(&self, at: u32) -> Option<u32> {
        let word = at as usize / 64;
        let here = self.words[word] & (u64::MAX >> (63 - at % 64));
        if here != 0 {
            return Some((word * 64) as u32 + high(here));
        }
        let mut block = word / 64;
        let mut summary = self.summary[block] & !(u64::MAX << (word % 64));
        loop {
            if summary != 0 {
                let word = block * 64 + high(summary) as usize;
                return Some((word * 64) as u32 + high(self.words[word]));
            }
            block = block.checked_sub(1)?;
            summary = self.summary[block];
        }
    }

    /// The least number from `at` on.
    pub(super) fn next_from(&self, at: u32) -> Option<u32> {
        let word = at as usize / 64;
        let here = self.words.get(word)? & (u64::MAX << (at % 64));
        if here != 0 {
            return Some((word * 64) as u32 + here.trailing_zeros());
        }
        let mut block = word / 64;
        // Bits above the word's own, of which there are none for the last one.
        let mut summary = self.summary[block] & (u64::MAX << (word % 64)) & !(1 << (word % 64));
        loop {
            if summary != 0 {
                let word = block * 64 + summary.trailing_zeros() as usize;
                return Some((word * 64) as u32 + self.words[word].trailing_zeros());
            }
            block += 1;
            summary = *self.summary.get(block)?;
        }
    }

    /// Whether one of `from..to` is in the set.
    pub(super) fn any(&self, from: u32, to: u32) -> bool {
        from < to && self.next_from(from).is_some_and(|next| next < to)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.summary.iter().all(|&word| word == 0)
    }
}

/// The number of the highest bit; `word` is not zero.
fn high(word: u64) -> u32 {
    63 - word.leading_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Against a sorted set, over ranges that end at, before and behind the
    /// borders of words and of blocks of words.
    #[test]
    fn the_same_answers_as_a_sorted_set() {
        let bound = 64 * 64 * 2 + 70;
        let mut bits = Bits::new(bound as usize);
        let mut set: BTreeSet<u32> = BTreeSet::new();
        let marks = [
            0, 1, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8191, 8192, 8261,
        ];
        let agree = |bits: &Bits, set: &BTreeSet<u32>| {
            assert_eq!(bits.is_empty(), set.is_empty());
            for at in (0..bound).step_by(31).chain(marks) {
                assert_eq!(bits.contains(at), set.contains(&at), "{at}");
                assert_eq!(bits.last_up_to(at), set.range(..=at).next_back().copied());
                assert_eq!(bits.next_from(at), set.range(at..).next().copied());
                assert_eq!(bits.any(at, bound), set.range(at..).next().is_some());
            }
        };
        agree(&bits, &set);
        for (turn, &from) in marks.iter().enumerate() {
            for &to in &marks[turn..] {
                bits.insert_all(from, to);
                set.extend(from..to);
                agree(&bits, &set);
                let (from, to) = (from + (to - from) / 3, to - (to - from) / 3);
                bits.remove_all(from, to);
                set.retain(|at| !(from..to).contains(at));
                agree(&bits, &set);
            }
            bits.insert(from);
            set.insert(from);
            agree(&bits, &set);
            bits.remove_all(0, bound);
            set.clear();
        }
    }
}
