//! Selection of the best entries.

use super::super::bench::{Bench, arg, equal};
use super::{
    Outcome, SPARE_PAGES, batches, border, case, lengths, page_table, pages_for, stretched,
};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::{LatentFp8Pages, LatentPages};
use crate::reference;

pub(super) const CASES: &[Case] = &[
    case!(top_k),
    case!(top_k_of_odd_numbers),
    case!(top_k_of_any_batch),
    case!(top_k_of_long_rows),
];

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
    selection(bench, size, &logits, &lens, &several(size))
}

/// The `k` of the run, one that is no power of two, and the least.
fn several(size: Size) -> [u32; 3] {
    [size.k, size.k - 3, 1]
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
    selection(bench, size, &logits, &lens, &several(size))
}

fn top_k_of_any_batch(bench: &mut Bench<'_>, size: Size) -> Outcome {
    for tokens in batches(size) {
        // Rows of a length that no word of four divides.
        let size = Size {
            tokens,
            entries: 515,
            ..size
        };
        let lens: Vec<i32> = (0..tokens).map(|token| border(token, 515)).collect();
        let logits = bench.floats((tokens * size.entries) as usize);
        selection(bench, size, &logits, &lens, &[size.k])?;
    }
    Ok(())
}

/// Rows of one block of a cluster and of several, of which each takes several
/// rounds or holds its part; one row has a single value, one ascends.
fn top_k_of_long_rows(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let long = stretched(size);
    for entries in [long, 9_001] {
        let all = entries as i32;
        let mut lens = vec![all, all / 4, all - 1];
        if long > 65_536 {
            lens.extend([4_095, 4_096, 4_097, 16_384, 16_385].map(|len: i32| len.min(all)));
        }
        let size = Size {
            tokens: lens.len() as u32,
            entries,
            ..size
        };
        let mut logits = bench.floats((size.tokens * entries) as usize);
        let row = entries as usize;
        logits[row..2 * row].fill(-0.25);
        logits[2 * row..3 * row]
            .iter_mut()
            .enumerate()
            .for_each(|(entry, logit)| *logit = entry as f32);
        selection(bench, size, &logits, &lens, &[size.k])?;
    }
    Ok(())
}

/// Both kernels against the reference, for each `k`.
fn selection(
    bench: &mut Bench<'_>,
    size: Size,
    logits: &[f32],
    lens: &[i32],
    ks: &[u32],
) -> Outcome {
    let pages = pages_for(size.entries) + SPARE_PAGES;
    let bf16 = LatentPages::bf16(size.dim, pages)?;
    // Half as many entries to a page, so that the slots differ.
    let fp8 = LatentFp8Pages::new(32, pages)?;
    let stride = 2 * pages_for(size.entries);
    let table = page_table(
        bench,
        Size {
            entries: 2 * size.entries.next_multiple_of(64),
            ..size
        },
    );
    let inputs = [
        arg(bench.upload(logits)?),
        arg(bench.upload(&table)?),
        arg(bench.upload(lens)?),
    ];
    for &k in ks {
        let count = (size.tokens * k) as usize;
        let sizes = [arg(size.tokens), arg(size.entries), arg(stride), arg(k)];
        let args = |indices, layout| [&inputs[..], &[arg(indices), layout], &sizes[..]].concat();
        let shape = dsv4::top_k::shape(size.tokens, size.entries, stride, k, &bf16)?;
        let indices = bench.repeat::<i32>(bench.runs(), count, |bench, indices| {
            bench.launch::<dsv4::top_k>(shape, args(indices, arg(bf16)))
        })?;
        let expected = reference::top_k(logits, &table, lens, bf16.layout(), k as usize);
        equal(&indices, &expected)?;

        let shape = dsv4::top_k_fp8::shape(size.tokens, size.entries, stride, k, &fp8)?;
        let indices = bench.repeat::<i32>(bench.runs(), count, |bench, indices| {
            bench.launch::<dsv4::top_k_fp8>(shape, args(indices, arg(fp8)))
        })?;
        let expected = reference::top_k(logits, &table, lens, fp8.layout(), k as usize);
        equal(&indices, &expected)?;
    }
    Ok(())
}
