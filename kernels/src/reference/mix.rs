//! The step from one layer to the next.

use half::bf16;

/// Element `column` of a token's next input: `x` plus the mean of the attention
/// outputs whose position is `column` modulo `width`, so that each value of the
/// attention reaches the next layer. `x` unchanged where there is none.
pub fn mix_element(x: bf16, attention: &[bf16], column: usize, width: usize) -> f64 {
    let (mut sum, mut count) = (0.0, 0_u32);
    for value in attention.iter().skip(column).step_by(width) {
        sum += value.to_f64();
        count += 1;
    }
    if count == 0 {
        x.to_f64()
    } else {
        x.to_f64() + sum / f64::from(count)
    }
}

/// The next input of all tokens, `[tokens, width]`; `attention` is
/// `[tokens, values]`.
pub fn mix(x: &[bf16], attention: &[bf16], width: usize, values: usize) -> Vec<f64> {
    x.chunks_exact(width)
        .zip(attention.chunks_exact(values))
        .flat_map(|(x, attention)| {
            x.iter()
                .enumerate()
                .map(move |(column, &x)| mix_element(x, attention, column, width))
        })
        .collect()
}
