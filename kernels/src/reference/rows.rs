//! Rows of the caches: norm, rotation, Hadamard transform, and the formats in
//! which pools hold them.

use half::bf16;

use super::fp8::{quantise_e4m3, quantise_ue8m0};
use crate::layout::LatentFp8Pages;
use crate::rope::ROPE_DIM;

/// RMS norm: `row` divided by its root mean square.
pub fn rms_norm(row: &[f64], epsilon: f32) -> Vec<f64> {
    let mean_square = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
    let inverse = 1.0 / (mean_square + f64::from(epsilon)).sqrt();
    row.iter().map(|value| value * inverse).collect()
}

/// RMS norm with a weight for each value.
pub fn weighted_rms_norm(row: &[f64], weight: &[f32], epsilon: f32) -> Vec<f64> {
    let mut row = rms_norm(row, epsilon);
    for (value, &weight) in row.iter_mut().zip(weight) {
        *value *= f64::from(weight);
    }
    row
}

/// The row of position `position` in a table of [`Rope`](crate::rope::Rope); a
/// position that the table does not have is replaced by the nearest that it
/// has.
pub fn angles(table: &[f32], position: i32) -> &[f32] {
    let row = ROPE_DIM as usize;
    let last = table.len() / row - 1;
    let place = usize::try_from(position).unwrap_or(0).min(last);
    &table[place * row..][..row]
}

/// Rotates the last 64 values of a row by a row of the table, or back.
pub fn rotate(row: &mut [f64], angles: &[f32], inverse: bool) {
    let first = row.len() - ROPE_DIM as usize;
    for (pair, angle) in row[first..].chunks_exact_mut(2).zip(angles.chunks_exact(2)) {
        let (cosine, sine) = (f64::from(angle[0]), f64::from(angle[1]));
        let sine = if inverse { -sine } else { sine };
        (pair[0], pair[1]) = (
            pair[0] * cosine - pair[1] * sine,
            pair[0] * sine + pair[1] * cosine,
        );
    }
}

/// The Hadamard transform in natural order, divided by the root of the length:
/// element `i` is the sum over `j` of value `j`, negated where `i & j` has an
/// odd number of ones. The length is a power of two.
pub fn hadamard(row: &mut [f64]) {
    let len = row.len();
    let mut distance = 1;
    while distance < len {
        for block in row.chunks_exact_mut(2 * distance) {
            let (low, high) = block.split_at_mut(distance);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        distance *= 2;
    }
    let scale = 1.0 / (len as f64).sqrt();
    row.iter_mut().for_each(|value| *value *= scale);
}

/// A row as a pool holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What stands among the values of the page.
    pub values: Vec<u8>,
    /// What stands among the scales of the page.
    pub scales: Vec<u8>,
}

/// A value as the bytes of a bf16. What is not a number is 0x7fff, as devices
/// convert it.
fn bf16_bytes(value: f32) -> [u8; 2] {
    if value.is_nan() {
        return 0x7fff_u16.to_le_bytes();
    }
    bf16::from_f32(value).to_le_bytes()
}

/// A latent in [`LatentFp8Pages`]: 448 e4m3 values with a UE8M0 scale for each
/// 64 of them, 64 bf16 values, a byte of padding that is zero.
pub fn stored_latent(row: &[f32]) -> Stored {
    let (quantised, rotated) = row.split_at(LatentFp8Pages::NOPE as usize);
    let mut stored = Stored {
        values: Vec::new(),
        scales: Vec::new(),
    };
    for group in quantised.chunks_exact(LatentFp8Pages::GROUP as usize) {
        let (values, scale) = quantise_ue8m0(group);
        stored.values.extend(values);
        stored.scales.push(scale);
    }
    for &value in rotated {
        stored.values.extend(bf16_bytes(value));
    }
    stored.scales.push(0);
    stored
}

/// An index key in [`IndexKeyPages`](crate::layout::IndexKeyPages): bf16.
pub fn stored_key(row: &[f32]) -> Stored {
    Stored {
        values: row.iter().flat_map(|&value| bf16_bytes(value)).collect(),
        scales: Vec::new(),
    }
}

/// An index key in [`IndexKeyFp8Pages`](crate::layout::IndexKeyFp8Pages): e4m3
/// with one f32 scale.
pub fn stored_key_fp8(row: &[f32]) -> Stored {
    let (values, scale) = quantise_e4m3(row);
    Stored {
        values,
        scales: scale.to_le_bytes().to_vec(),
    }
}
