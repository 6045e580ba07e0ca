//! Rows of a matrix times a token.

use half::bf16;

/// The inner product of two rows.
pub fn dot(a: &[bf16], b: &[bf16]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

/// `x · weightᵀ`: `x` is `[tokens, width]`, `weight` is `[rows, width]`, the
/// result `[tokens, rows]`.
pub fn projection(x: &[bf16], weight: &[bf16], width: usize) -> Vec<f64> {
    x.chunks_exact(width)
        .flat_map(|token| weight.chunks_exact(width).map(|row| dot(token, row)))
        .collect()
}
