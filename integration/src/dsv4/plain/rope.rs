//! Rotary embedding: pairs of channels, turned by an angle that grows with the
//! position.
//!
//! Pair `i` of the last `d` channels is channels `2i` and `2i + 1` (interleaved), and
//! turns by `theta^(-2i / d)` radians a token. Layers of the window alone use the
//! plain base; layers with entries use a base of their own with YaRN, for queries,
//! latents, entries, index queries and keys alike. An entry's position is that of its
//! group's first token. Values are keys here, so what the attention puts out is
//! turned back by the query's position.
//!
//! Frequencies and angles are f32 and what is made of them is not: a model is trained
//! and served with angles rounded so, which far from the start is more than 1e-4 off
//! the exact ones.

use super::formulas::Angle;
use crate::dsv4::checkpoint::{RopeBase, YarnStretch};

/// The frequencies of the pairs, in radians a token.
#[derive(Clone, Debug)]
pub(super) struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    pub(super) fn new(base: &RopeBase, dim: usize) -> Self {
        let frequency = |pair: usize| base.theta.powf(-2.0 * pair as f64 / dim as f64);
        let frequencies = (0..dim / 2).map(|pair| match &base.yarn {
            None => frequency(pair) as f32,
            Some(yarn) => {
                let slowed = slowed(yarn, base.theta, dim, pair);
                let stretched = frequency(pair) / yarn.factor;
                (stretched * slowed + frequency(pair) * (1.0 - slowed)) as f32
            }
        });
        Self {
            frequencies: frequencies.collect(),
        }
    }

    /// The angles of a position.
    pub(super) fn angles(&self, position: usize) -> Vec<Angle> {
        let angle = |frequency: &f32| Angle::of(position as f32 * frequency);
        self.frequencies.iter().map(angle).collect()
    }
}

/// YaRN: how much of a pair's frequency is divided by the factor. A pair that turns
/// more than `fast` times within the original length is kept (0), one that turns less
/// than `slow` times is slowed down (1), and in between is a ramp over the pairs.
fn slowed(yarn: &YarnStretch, theta: f64, dim: usize, pair: usize) -> f64 {
    use std::f64::consts::TAU;
    // The pair that turns so many times, as a real number.
    let pair_of =
        |turns: f64| dim as f64 * (yarn.original_length / (turns * TAU)).ln() / (2.0 * theta.ln());
    let low = pair_of(yarn.fast).floor().max(0.0);
    let high = pair_of(yarn.slow).ceil().min(dim as f64 - 1.0);
    // A ramp of no width would divide by zero.
    let width = if high == low { 1e-3 } else { high - low };
    ((pair as f64 - low) / width).clamp(0.0, 1.0)
}

/// Turns the last channels of `x`, interleaved pair by pair.
pub(super) fn rotate(x: &mut [f32], angles: &[Angle]) {
    let first = x.len() - 2 * angles.len();
    for (pair, angle) in x[first..].chunks_exact_mut(2).zip(angles) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * angle.cosine - b * angle.sine;
        pair[1] = b * angle.cosine + a * angle.sine;
    }
}

#[cfg(test)]
mod tests {
    use streamweir::kernels::rope::Rope as KernelRope;

    use super::*;

    /// The kernels' tables are made by code of their own.
    #[test]
    fn frequencies_are_those_of_the_kernels_tables() {
        let yarn = YarnStretch {
            factor: 16.0,
            original_length: 65_536.0,
            fast: 32.0,
            slow: 1.0,
        };
        for (kernels, theta, yarn) in [
            (KernelRope::WINDOW, 10_000.0, None),
            (KernelRope::COMPRESSED, 160_000.0, Some(yarn)),
        ] {
            let rope = Rope::new(&RopeBase { theta, yarn }, 64);
            let expected = kernels.frequencies().map(|frequency| frequency as f32);
            assert_eq!(rope.frequencies, expected);
        }
    }
}
