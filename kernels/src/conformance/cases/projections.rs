//! Projections of the input.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, widen, widen_floats};
use super::{HALF, Outcome, SINGLE, case};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(query_projection), case!(index_weights)];

fn query_projection(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let rows = size.heads * size.dim;
    let x = bench.halves((size.tokens * size.width) as usize);
    let weight = bench.halves((rows * size.width) as usize);
    let (x_at, weight_at) = (bench.upload(&x)?, bench.upload(&weight)?);
    let q: Vec<bf16> = bench.twice::<dsv4::query_projection, _>(
        dsv4::query_projection::shape(size.tokens, size.width, rows)?,
        (size.tokens * rows) as usize,
        |q| {
            vec![
                arg(x_at),
                arg(weight_at),
                arg(q),
                arg(size.tokens),
                arg(size.width),
                arg(rows),
            ]
        },
    )?;
    let expected = reference::projection(&x, &weight, size.width as usize);
    close_to(&widen(&q), &expected, HALF)
}

fn index_weights(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let scale = dsv4::index_weights::scale(size.index_dim, size.index_heads);
    let x = bench.halves((size.tokens * size.width) as usize);
    let weight = bench.halves((size.index_heads * size.width) as usize);
    let (x_at, weight_at) = (bench.upload(&x)?, bench.upload(&weight)?);
    let weights: Vec<f32> = bench.twice::<dsv4::index_weights, _>(
        dsv4::index_weights::shape(size.tokens, size.width, size.index_heads)?,
        (size.tokens * size.index_heads) as usize,
        |weights| {
            vec![
                arg(x_at),
                arg(weight_at),
                arg(weights),
                arg(size.tokens),
                arg(size.width),
                arg(size.index_heads),
                arg(scale),
            ]
        },
    )?;
    let mut expected = reference::projection(&x, &weight, size.width as usize);
    expected.iter_mut().for_each(|v| *v *= f64::from(scale));
    close_to(&widen_floats(&weights), &expected, SINGLE)
}
