//! Which buffer a search tries first.
//!
//! Whether a search ends soon depends more on this than on anything else, and
//! nothing tells beforehand which preference is good for a problem: most runs end
//! within a few thousand steps or practically never. So runs are short, start
//! again with another taste, and get longer slowly.

use std::cmp::Reverse;

use super::Exact;
use crate::rng::Rng;

/// How a search prefers one buffer over another at the same offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taste(u64);

/// What a buffer is preferred for, the first first.
#[derive(Clone, Copy)]
enum Trait {
    /// The most bytes of a section it is in.
    Total,
    /// Its bytes times its life.
    Area,
    /// Its life.
    Life,
    /// Its bytes.
    Size,
}

/// The preferences of the plain tastes.
const PLAIN: [[Trait; 3]; 4] = [
    [Trait::Total, Trait::Area, Trait::Life],
    [Trait::Total, Trait::Life, Trait::Area],
    [Trait::Life, Trait::Area, Trait::Total],
    [Trait::Total, Trait::Size, Trait::Life],
];

/// The preferences that are worth another try with noise.
const NOISY: [[Trait; 3]; 5] = [
    [Trait::Total, Trait::Life, Trait::Area],
    [Trait::Life, Trait::Area, Trait::Total],
    [Trait::Total, Trait::Area, Trait::Life],
    [Trait::Total, Trait::Life, Trait::Area],
    [Trait::Life, Trait::Area, Trait::Total],
];

impl Taste {
    /// The taste of one run: the first ones are plain, the others have noise.
    pub(crate) fn number(run: u64) -> Self {
        Self(run)
    }

    /// For each buffer how many are preferred to it.
    pub(crate) fn ranks(self, exact: &Exact<'_>) -> Vec<u32> {
        let mut rng = Rng::new(self.0);
        let number = self.0 as usize;
        let traits = PLAIN.get(number).unwrap_or(&NOISY[number % NOISY.len()]);
        let noise = if number < PLAIN.len() { 0.0 } else { 0.5 };
        let count = exact.lives.len() as u32;
        // Between 1 - part and 1 + part.
        let mut around = |part: f64| 1.0 + part * (rng.below(2001) as f64 / 1000.0 - 1.0);
        let keys: Vec<[f64; 3]> = (0..count)
            .map(|at| {
                let (begin, end) = exact.lives.span(at as usize).unwrap_or_default();
                let life = f64::from(end - begin + 1) * around(noise);
                let total = exact.contention[at as usize] as f64;
                let size = exact.sizes.bytes(at) as f64;
                traits.map(|what| match what {
                    Trait::Total => total,
                    Trait::Area => life * size,
                    Trait::Life => life,
                    Trait::Size => size,
                })
            })
            .collect();
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by(|&a, &b| {
            let pairs = keys[a as usize].iter().zip(&keys[b as usize]);
            let differ = pairs.map(|(a, b)| Reverse(a).partial_cmp(&Reverse(b)));
            let first = differ.flatten().find(|order| order.is_ne());
            first.unwrap_or_else(|| a.cmp(&b))
        });
        let mut ranks = vec![0; order.len()];
        for (rank, at) in (0..).zip(order) {
            ranks[at as usize] = rank;
        }
        ranks
    }
}

/// The number of the run, counted from 1, gives how many units of steps it may
/// take: 1, 1, 2, 1, 1, 2, 4, ... (Luby, Sinclair and Zuckerman, "Optimal
/// speedup of Las Vegas algorithms", 1993). Whatever length of run is the best
/// one, the whole is slower than that by a logarithm only.
pub(crate) fn units(run: u64) -> u64 {
    let mut run = run;
    loop {
        // The shortest complete sequence that has this run has `full` of them.
        let full = (run + 1).next_power_of_two() - 1;
        if run == full {
            return full.div_ceil(2);
        }
        run -= full / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_get_longer_slowly() {
        let units: Vec<u64> = (1..16).map(units).collect();
        assert_eq!(units, [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]);
    }
}
