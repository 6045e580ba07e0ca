//! The model in plain Rust, one token at a time: no pages, no batches, no streams.

use half::bf16;

use super::model::{Config, OnHost, angles};

/// How far below the best logit the one of a token may be: what bf16 and another order
/// of sums change. Of two that are as good as equal an engine may take either.
const MARGIN: f64 = 0.05;

fn round(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let round = |value| bf16::from_f64(value).to_f64();
    values.into_iter().map(round).collect()
}

fn product<'a>(weight: &'a [bf16], x: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let dot = move |row: &'a [bf16]| row.iter().zip(x).map(|(w, x)| w.to_f64() * x).sum();
    weight.chunks_exact(x.len()).map(dot)
}

fn norm(x: &[f32], weight: &[f32]) -> Vec<f64> {
    let wide = || x.iter().map(|&value| f64::from(value));
    let rms = (wide().map(|v| v * v).sum::<f64>() / x.len() as f64 + 1e-6).sqrt();
    round(wide().zip(weight).map(|(v, &w)| v / rms * f64::from(w)))
}

fn expert(gate_up: &[bf16], down: &[bf16], h: &[f64]) -> Vec<f64> {
    let wide = round(product(gate_up, h));
    let (gate, up) = wide.split_at(wide.len() / 2);
    let silu = |g: f64| g / (1.0 + (-g).exp());
    let both = round(gate.iter().zip(up).map(|(&g, &u)| silu(g) * u));
    round(product(down, &both))
}

/// The keys and values of one layer, a row for each token.
type Stored = [Vec<Vec<f64>>; 2];

/// Logits of what comes after a token that follows all that is stored.
fn logits(
    config: &Config,
    (weights, angles): (&OnHost, &[f32]),
    stored: &mut [Stored],
    id: u32,
) -> Vec<f64> {
    let (hidden, width) = (config.hidden as usize, config.width as usize);
    let embedding = &weights.embedding[id as usize * hidden..][..hidden];
    let mut x: Vec<f32> = embedding.iter().map(|value| value.to_f32()).collect();
    for (layer, stored) in weights.layers.iter().zip(stored) {
        let mut qkv = round(product(&layer.qkv, &norm(&x, &layer.norm)));
        let position = stored[0].len();
        let turned = ((config.heads + config.kv_heads) * config.width) as usize;
        for (i, pair) in qkv[..turned].chunks_exact_mut(2).enumerate() {
            let at = position * width + 2 * i % width;
            let [cos, sin] = [angles[at], angles[at + 1]].map(f64::from);
            let [a, b] = [pair[0], pair[1]];
            pair.copy_from_slice(&round([a * cos - b * sin, a * sin + b * cos]));
        }
        let values = qkv.split_off(turned);
        let keys = qkv.split_off((config.heads * config.width) as usize);
        stored[0].push(keys);
        stored[1].push(values);
        let mut attended = Vec::new();
        for (head, query) in qkv.chunks_exact(width).enumerate() {
            let first = head / (config.heads / config.kv_heads) as usize * width;
            let score = |key: &Vec<f64>| -> f64 {
                let key = &key[first..first + width];
                let dot: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                dot / (width as f64).sqrt()
            };
            let scores: Vec<f64> = stored[0].iter().map(score).collect();
            let most = scores.iter().copied().fold(f64::MIN, f64::max);
            let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let sum: f64 = shares.iter().sum();
            let value = |i: usize| -> f64 {
                let rows = shares.iter().zip(&stored[1]);
                rows.map(|(share, row)| share * row[first + i]).sum()
            };
            attended.extend(round((0..width).map(|i| value(i) / sum)));
        }
        for (x, a) in x.iter_mut().zip(round(product(&layer.out, &attended))) {
            *x += a as f32;
        }
        let h = norm(&x, &layer.mlp_norm);
        let own = expert(&layer.gate_up, &layer.down, &h);
        let shared = expert(&layer.shared_gate_up, &layer.shared_down, &h);
        for (x, (a, b)) in x.iter_mut().zip(own.into_iter().zip(shared)) {
            *x += a as f32 + b as f32;
        }
    }
    product(&weights.head, &norm(&x, &weights.norm)).collect()
}

/// Whether each generated token is one that the model may well give after what comes
/// before it.
pub fn agrees(config: &Config, weights: &OnHost, prompt: &[u32], generated: &[u32]) -> bool {
    let angles = angles(config);
    let model = (weights, angles.as_slice());
    let layers = weights.layers.iter();
    let mut stored: Vec<Stored> = layers.map(|_| Default::default()).collect();
    let mut last = Vec::new();
    for &id in prompt {
        last = logits(config, model, &mut stored, id);
    }
    generated.iter().all(|&id| {
        let most = last.iter().copied().fold(f64::MIN, f64::max);
        let fits = last
            .get(id as usize)
            .is_some_and(|&own| own >= most - MARGIN);
        last = logits(config, model, &mut stored, id.min(config.vocab - 1));
        fits
    })
}
