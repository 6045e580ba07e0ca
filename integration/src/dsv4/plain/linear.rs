//! Products, norms, and the functions of one value.

use super::rows::Rows;
use crate::dsv4::checkpoint::Matrix;

/// Partial sums of a product: what a register of SIMD holds, a few times.
const LANES: usize = 16;

/// `sum of a[i] * b[i]`, in an order that the length alone decides.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// `y += factor * x`.
pub(super) fn add_scaled(y: &mut [f32], factor: f32, x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// `W x` for each row x.
pub(super) fn linear(weight: &Matrix, x: &Rows) -> Rows {
    grouped_linear(weight, x, 1)
}

/// `W x` where the outputs are in as many groups as the inputs, and an output is of
/// the inputs of its own group: W has the columns of one group. With one group it is
/// an ordinary product.
pub(super) fn grouped_linear(weight: &Matrix, x: &Rows, groups: usize) -> Rows {
    let mut y = Rows::zeros(x.len(), weight.rows());
    let mut factors = vec![0.0; weight.columns()];
    for output in 0..weight.rows() {
        // Unpacked once for all rows.
        weight.row(output, &mut factors);
        let group = output / (weight.rows() / groups);
        for (y, x) in y.iter_mut().zip(x.iter()) {
            y[output] = dot(&factors, &x[group * factors.len()..][..factors.len()]);
        }
    }
    y
}

/// `x / sqrt(mean(x^2) + eps)`, without factors (`UnweightedRMSNorm`).
pub(super) fn rms(x: &mut [f32], eps: f32) {
    let mean = dot(x, x) / x.len() as f32;
    let factor = (mean + eps).sqrt().recip();
    for x in x {
        *x *= factor;
    }
}

/// `factors * x / sqrt(mean(x^2) + eps)` (`RMSNorm`).
pub(super) fn rms_norm(x: &mut [f32], factors: &[f32], eps: f32) {
    rms(x, eps);
    for (x, factor) in x.iter_mut().zip(factors) {
        *x *= factor;
    }
}

/// Each row's [`rms_norm`].
pub(super) fn norm_rows(mut rows: Rows, factors: &[f32], eps: f32) -> Rows {
    for row in rows.iter_mut() {
        rms_norm(row, factors, eps);
    }
    rows
}

/// `exp(x_i) / sum of exp(x_j)`.
pub(super) fn softmax(x: &mut [f32]) {
    let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for x in x.iter_mut() {
        *x = (*x - largest).exp();
    }
    let sum: f32 = x.iter().sum();
    for x in x {
        *x /= sum;
    }
}

/// `1 / (1 + exp(-x))`.
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + exp(x))`.
pub(super) fn softplus(x: f32) -> f32 {
    // From 20 on the difference to x is below its last bit.
    if x > 20.0 { x } else { x.exp().ln_1p() }
}
