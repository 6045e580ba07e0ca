//! The index key of a token.

use half::bf16;

use super::projection::dot;

/// The index key of one token: the projection of `x` by the rows of `weight`,
/// divided by its root mean square and multiplied by `norm`, whose length is
/// the key's.
pub fn index_key(x: &[bf16], weight: &[bf16], norm: &[f32], epsilon: f32) -> Vec<f64> {
    let projected: Vec<f64> = weight
        .chunks_exact(x.len())
        .map(|row| dot(x, row))
        .collect();
    let mean_square = projected.iter().map(|v| v * v).sum::<f64>() / projected.len() as f64;
    let inverse = 1.0 / (mean_square + f64::from(epsilon)).sqrt();
    projected
        .iter()
        .zip(norm)
        .map(|(value, &norm)| value * inverse * f64::from(norm))
        .collect()
}

/// The index keys of all tokens, `[tokens, norm.len()]`; where they go is the
/// layout's business.
pub fn index_keys(
    x: &[bf16],
    weight: &[bf16],
    norm: &[f32],
    width: usize,
    epsilon: f32,
) -> Vec<f64> {
    x.chunks_exact(width)
        .flat_map(|token| index_key(token, weight, norm, epsilon))
        .collect()
}
