//! The compressors: several tokens become one entry.

/// For each channel, the sum of `keys` weighted by a softmax of `score + bias`
/// over the rows. A row is its keys, its scores and the biases of its place in
/// the group, each with the entry's channels.
pub fn softmax_pool(rows: &[[&[f32]; 3]]) -> Vec<f64> {
    let channels = rows.first().map_or(0, |row| row[0].len());
    (0..channels)
        .map(|channel| {
            let logits: Vec<f64> = rows
                .iter()
                .map(|[_, scores, bias]| f64::from(scores[channel]) + f64::from(bias[channel]))
                .collect();
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut weighted) = (0.0, 0.0);
            for (logit, [keys, ..]) in logits.iter().zip(rows) {
                let weight = (logit - largest).exp();
                sum += weight;
                weighted += weight * f64::from(keys[channel]);
            }
            weighted / sum
        })
        .collect()
}

/// The entry of four tokens with overlap, before its norm. `rows` are the
/// key-and-score rows `[keys: overlap, normal | scores: overlap, normal]` of the
/// four tokens before the group, none for the first group of a sequence, and
/// then of the four of the group; `ape` is `[4, overlap and normal]`. The tokens
/// before give their overlap channels, those of the group their normal ones.
pub fn compress_c4(rows: &[&[f32]], ape: &[f32], channels: usize) -> Vec<f64> {
    let before = rows.len() - 4;
    let parts: Vec<[&[f32]; 3]> = rows
        .iter()
        .enumerate()
        .map(|(r, row)| {
            let half = if r < before { 0 } else { channels };
            let bias = &ape[(r % 4) * 2 * channels..][..2 * channels];
            [&row[half..], &row[2 * channels + half..], &bias[half..]].map(|part| &part[..channels])
        })
        .collect();
    softmax_pool(&parts)
}

/// The entry of 128 tokens, before its norm. `rows` are their key-and-score
/// rows `[keys | scores]`; `ape` is `[128, channels]`.
pub fn compress_c128(rows: &[&[f32]], ape: &[f32], channels: usize) -> Vec<f64> {
    let parts: Vec<[&[f32]; 3]> = rows
        .iter()
        .zip(ape.chunks_exact(channels))
        .map(|(row, bias)| [&row[..channels], &row[channels..][..channels], bias])
        .collect();
    softmax_pool(&parts)
}
