//! Selection of the best entries.

use super::super::bench::{Bench, arg, equal};
use super::{Outcome, SPARE_PAGES, case, lengths, page_table, pages_for};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::LatentPages;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(top_k), case!(top_k_of_odd_numbers)];

fn top_k(bench: &mut Bench<'_>, size: Size) -> Outcome {
    // Few distinct values, so that ties cross the border of the selection.
    let logits: Vec<f32> = (0..size.tokens * size.entries)
        .map(|i| match i / size.entries % 3 {
            0 => bench.unit(),
            1 => (bench.below(40) as f32 - 20.0) / 8.0,
            _ => 1.5,
        })
        .collect();
    let lens = lengths(bench, size);
    selection(bench, size, &logits, &lens)
}

fn top_k_of_odd_numbers(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let odd = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE / 2.0,
        -1.0,
    ];
    let logits: Vec<f32> = (0..size.tokens * size.entries)
        .map(|_| odd[bench.below(odd.len() as u32) as usize])
        .collect();
    let lens = vec![size.entries as i32; size.tokens as usize];
    selection(bench, size, &logits, &lens)
}

fn selection(bench: &mut Bench<'_>, size: Size, logits: &[f32], lens: &[i32]) -> Outcome {
    let layout = LatentPages::bf16(size.dim, pages_for(size.entries) + SPARE_PAGES)?;
    let table_stride = pages_for(size.entries);
    let table = page_table(bench, size);
    let inputs = [
        arg(bench.upload(logits)?),
        arg(bench.upload(&table)?),
        arg(bench.upload(lens)?),
    ];
    // A k that is no power of two beside the one of the run.
    for k in [size.k, size.k - 3, 1] {
        let indices: Vec<i32> = bench.twice::<dsv4::top_k, _>(
            dsv4::top_k::shape(size.tokens, size.entries, table_stride, k, &layout)?,
            (size.tokens * k) as usize,
            |indices| {
                let mut args = inputs.to_vec();
                args.extend([
                    arg(indices),
                    arg(layout),
                    arg(size.tokens),
                    arg(size.entries),
                    arg(table_stride),
                    arg(k),
                ]);
                args
            },
        )?;
        let expected = reference::top_k(logits, &table, lens, &layout, k as usize);
        equal(&indices, &expected)?;
    }
    Ok(())
}
