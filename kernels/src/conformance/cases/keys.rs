//! Stores into the pools.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, equal, widen};
use super::{HALF, Outcome, SPARE_PAGES, case, pages_for};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::IndexKeyPages;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(index_key_store)];

fn index_key_store(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let (dim, width, epsilon) = (size.index_dim as usize, size.width as usize, 1e-6_f32);
    let layout = IndexKeyPages::bf16(size.index_dim, pages_for(size.entries) + SPARE_PAGES)?;
    let slots = layout.layout().slots() as u32;
    let x = bench.halves(size.tokens as usize * width);
    let weight = bench.halves(dim * width);
    let norm = bench.floats(dim);
    // Distinct slots, two padded rows, one slot outside the pool.
    let out_loc: Vec<i32> = (0..size.tokens)
        .map(|token| match token {
            1 | 4 => 0,
            2 => slots as i32,
            5 => -1,
            _ => ((token * 67 + 5) % slots) as i32,
        })
        .collect();
    let pool = bench.halves(slots as usize * dim);
    let inputs = [
        arg(bench.upload(&x)?),
        arg(bench.upload(&weight)?),
        arg(bench.upload(&norm)?),
        arg(bench.upload(&out_loc)?),
    ];
    let shape = dsv4::index_key_store::shape(size.tokens, size.width, &layout)?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let keys = bench.upload(&pool)?;
        let mut args = inputs.to_vec();
        args.extend([
            arg(keys),
            arg(layout),
            arg(size.tokens),
            arg(size.width),
            arg(epsilon),
        ]);
        bench.launch::<dsv4::index_key_store>(shape, args)?;
        runs.push(bench.download::<bf16>(keys, pool.len())?);
    }
    equal(&runs[0], &runs[1])?;

    let keys = reference::index_keys(&x, &weight, &norm, width, epsilon);
    let mut untouched = runs.swap_remove(0);
    for (token, &slot) in out_loc.iter().enumerate() {
        if slot > 0 && (slot as u32) < slots {
            let here = slot as usize * dim..(slot as usize + 1) * dim;
            let stored = widen(&untouched[here.clone()]);
            close_to(&stored, &keys[token * dim..(token + 1) * dim], HALF)?;
            untouched[here.clone()].copy_from_slice(&pool[here]);
        }
    }
    equal(&untouched, &pool)
}
