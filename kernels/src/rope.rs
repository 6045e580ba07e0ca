//! The table of rotary embedding that kernels read: `[positions, 32, 2]` in
//! f32, the cosine and the sine of each pair's angle.
//!
//! A table is made once, on the host, in double precision, and stays on the
//! device: every kernel that rotates a query or a key reads the same numbers,
//! so that their angles agree to the last bit. Pair `i` of the 64 rotated
//! dimensions is elements `2i` and `2i + 1` (interleaved), as in the model's
//! public definition.
//!
//! Which table a layer reads is the caller's choice. In the public definition
//! layers of the sliding window alone use [`Rope::WINDOW`], and layers that
//! compress use [`Rope::COMPRESSED`] for all that they rotate: queries, window
//! and compressed entries.

use std::f64::consts::TAU;

use crate::constants::shared;

shared! {
    pub(crate) ROPE = rope {
        /// Rotated dimensions of a head.
        pub ROPE_DIM: u32 = 64;
    }
}

/// Pairs of rotated dimensions.
const PAIRS: usize = ROPE_DIM as usize / 2;

/// The frequencies of a rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// The base: pair `i` turns by `theta^(-i / 32)` radians per position.
    pub theta: f64,
    /// How the frequencies are stretched for contexts longer than the model was
    /// first trained for.
    pub yarn: Option<Yarn>,
}

/// The stretch of YaRN: pairs that turn often within the original length keep
/// their frequency, those that turn rarely are slowed down by `factor`, and
/// between both there is a ramp over the pairs. Nothing is scaled but the
/// frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// The factor of the slow pairs.
    pub factor: f64,
    /// The length that the model was first trained for.
    pub original_length: u32,
    /// Turns within the original length from which on a pair is kept.
    pub fast: f64,
    /// Turns within the original length up to which a pair is slowed down.
    pub slow: f64,
}

impl Rope {
    /// Layers of the sliding window alone: base 10,000.
    pub const WINDOW: Self = Self {
        theta: 10_000.0,
        yarn: None,
    };

    /// Layers with compressed keys: base 160,000, stretched 16-fold from 65,536
    /// positions, with the public definition's 32 and 1 turns.
    pub const COMPRESSED: Self = Self {
        theta: 160_000.0,
        yarn: Some(Yarn {
            factor: 16.0,
            original_length: 65_536,
            fast: 32.0,
            slow: 1.0,
        }),
    };

    /// The angle by which each pair turns per position, in radians.
    pub fn frequencies(&self) -> [f64; PAIRS] {
        let dim = f64::from(ROPE_DIM);
        // The pair, as a real number of dimensions, that turns `turns` times
        // within the original length.
        let dimension = |yarn: &Yarn, turns: f64| {
            dim * (f64::from(yarn.original_length) / (turns * TAU)).ln() / (2.0 * self.theta.ln())
        };
        std::array::from_fn(|pair| {
            let frequency = self.theta.powf(-2.0 * pair as f64 / dim);
            let Some(yarn) = &self.yarn else {
                return frequency;
            };
            let low = dimension(yarn, yarn.fast).floor().max(0.0);
            let high = dimension(yarn, yarn.slow).ceil().min(dim - 1.0);
            // A ramp of no width would divide by zero.
            let width = if high == low { 1e-3 } else { high - low };
            let slowed = ((pair as f64 - low) / width).clamp(0.0, 1.0);
            frequency / yarn.factor * slowed + frequency * (1.0 - slowed)
        })
    }

    /// The table for positions `0..positions`, 256 bytes each.
    ///
    /// ```
    /// use streamweir_kernels::rope::Rope;
    ///
    /// let table = Rope::WINDOW.table(2);
    /// assert_eq!(table[..2], [1.0, 0.0], "position 0 is not turned");
    /// assert_eq!(table[64..66], [1_f32.cos(), 1_f32.sin()]);
    /// ```
    pub fn table(&self, positions: u32) -> Vec<f32> {
        let frequencies = self.frequencies();
        let mut table = Vec::with_capacity(positions as usize * PAIRS * 2);
        for position in 0..positions {
            for frequency in frequencies {
                let (sine, cosine) = (f64::from(position) * frequency).sin_cos();
                table.extend([cosine as f32, sine as f32]);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_fall_from_one_radian_by_the_base() {
        let plain = Rope::WINDOW.frequencies();
        assert_eq!(plain[0], 1.0);
        assert!((plain[16] - 0.01).abs() < 1e-15, "half way is the root");
        assert!(plain.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_slows_slow_ones() {
        let plain = Rope {
            yarn: None,
            ..Rope::COMPRESSED
        };
        let ratio: Vec<f64> = plain
            .frequencies()
            .iter()
            .zip(Rope::COMPRESSED.frequencies())
            .map(|(plain, slowed)| plain / slowed)
            .collect();
        // 65,536 positions: 32 turns at dimension 15.46 of 64, one turn at 24.70;
        // the public definition counts pairs by these numbers.
        assert!(ratio[..=15].iter().all(|&r| (r - 1.0).abs() < 1e-12));
        assert!(ratio[25..].iter().all(|&r| (r - 16.0).abs() < 1e-12));
        assert!(ratio[15..=25].windows(2).all(|pair| pair[0] < pair[1]));
        // Half of the ramp: the frequency is the mean of both.
        assert!((ratio[20] - 2.0 / (1.0 + 1.0 / 16.0)).abs() < 1e-12);
    }

    #[test]
    fn rows_are_points_of_the_circle() {
        let table = Rope::COMPRESSED.table(100);
        assert_eq!(table.len(), 100 * 64);
        for pair in table.chunks_exact(2) {
            let norm = f64::from(pair[0]).hypot(f64::from(pair[1]));
            assert!((norm - 1.0).abs() < 1e-6);
        }
    }
}
