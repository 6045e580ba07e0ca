//! Attention.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, widen};
use super::{HALF, Outcome, SPARE_PAGES, case, pages_for};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::LatentPages;
use crate::reference;

mod latent;
mod page_table;
mod pool;

pub(super) const CASES: &[Case] = &[
    case!(gather_attention),
    latent::SPARSE,
    latent::SPARSE_SWEEP,
    latent::PAGED,
    latent::PAGED_SWEEP,
    page_table::CHECK,
];

fn gather_attention(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let layout = LatentPages::bf16(size.dim, pages_for(size.entries) + SPARE_PAGES)?;
    let slots = layout.layout().slots() as u32;
    let scale = dsv4::gather_attention::scale(size.dim);
    let values = (size.tokens * size.heads * size.dim) as usize;
    // Large queries make the softmax pick few entries; unit ones all of them.
    let q: Vec<bf16> = bench
        .halves(values)
        .into_iter()
        .enumerate()
        .map(|(i, v)| {
            if i % 2 == 0 {
                v
            } else {
                bf16::from_f32(v.to_f32() * 4.0)
            }
        })
        .collect();
    let latent = bench.halves((layout.layout().pool_bytes() / 2) as usize);
    let mut indices: Vec<i32> = (0..size.tokens * size.k)
        .map(|_| bench.below(slots) as i32)
        .collect();
    // Token 0 has all, token 1 nothing, the others a padded end; one index lies
    // outside the pool.
    for (token, row) in indices.chunks_exact_mut(size.k as usize).enumerate() {
        let kept = match token {
            0 => row.len(),
            1 => 0,
            _ => 1 + bench.below(size.k - 1) as usize,
        };
        row[kept..].fill(-1);
    }
    indices[3] = slots as i32;
    // No sink, an overwhelming one, small ones.
    let sink: Vec<f32> = (0..size.heads)
        .map(|head| match head % 4 {
            0 => f32::NEG_INFINITY,
            1 => 8.0,
            _ => bench.unit(),
        })
        .collect();
    let inputs = [
        arg(bench.upload(&q)?),
        arg(bench.upload(&latent)?),
        arg(bench.upload(&indices)?),
        arg(bench.upload(&sink)?),
    ];
    let out: Vec<bf16> = bench.twice::<dsv4::gather_attention, _>(
        dsv4::gather_attention::shape(size.tokens, size.heads, size.k, &layout)?,
        values,
        |out| {
            let mut args = inputs.to_vec();
            args.extend([
                arg(out),
                arg(layout),
                arg(size.tokens),
                arg(size.heads),
                arg(size.k),
                arg(scale),
            ]);
            args
        },
    )?;
    let expected = reference::gather_attention(
        &q,
        &latent,
        &indices,
        &sink,
        &layout,
        size.k as usize,
        scale,
    );
    close_to(&widen(&out), &expected, HALF)
}
