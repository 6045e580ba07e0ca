//! The cases, one for each kernel.

use half::bf16;

use super::bench::{Bench, arg, close_to, equal, widen, widen_floats};
use super::{Failure, Size};
use crate::dsv4;
use crate::layout::{IndexKeyPages, LatentPages};
use crate::reference;

type Outcome = Result<(), Failure>;

/// The tolerance for results in bf16.
const HALF: f64 = 1e-2;
/// The tolerance for results in f32.
const SINGLE: f64 = 2e-3;
/// Pages of a pool beyond those of one sequence, so that tables are not trivial.
const SPARE_PAGES: u32 = 7;

fn pages_for(entries: u32) -> u32 {
    entries.div_ceil(64)
}

/// A table of random pages; one entry of the last row is no page of the pool.
fn page_table(bench: &mut Bench<'_>, size: Size) -> Vec<i32> {
    let pages = pages_for(size.entries);
    let mut table: Vec<i32> = (0..size.tokens * pages)
        .map(|_| bench.below(pages + SPARE_PAGES) as i32)
        .collect();
    if let Some(last) = table.last_mut() {
        *last = i32::MAX;
    }
    table
}

/// Lengths around every border: nothing, tiles, `k`, all, more than all.
fn lengths(bench: &mut Bench<'_>, size: Size) -> Vec<i32> {
    let (k, all) = (size.k as i32, size.entries as i32);
    let border = [all, 0, k, k + 1, k - 1, -3, all + 5, 1, 63, 64, 65, all - 1];
    (0..size.tokens as usize)
        .map(|token| match border.get(token) {
            Some(&len) => len,
            None => bench.below(size.entries) as i32,
        })
        .collect()
}

pub(super) fn query_projection(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn index_weights(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn index_key_store(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn indexer_logits(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let layout = IndexKeyPages::bf16(size.index_dim, pages_for(size.entries) + SPARE_PAGES)?;
    let table_stride = pages_for(size.entries);
    let per_token = (size.index_heads * size.index_dim) as usize;
    let q = bench.halves(size.tokens as usize * per_token);
    let weights = bench.floats((size.tokens * size.index_heads) as usize);
    let keys = bench.halves((layout.layout().pool_bytes() / 2) as usize);
    let (table, lens) = (page_table(bench, size), lengths(bench, size));
    let inputs = [
        arg(bench.upload(&q)?),
        arg(bench.upload(&weights)?),
        arg(bench.upload(&keys)?),
        arg(bench.upload(&table)?),
        arg(bench.upload(&lens)?),
    ];
    let logits: Vec<f32> = bench.twice::<dsv4::indexer_logits, _>(
        dsv4::indexer_logits::shape(
            size.tokens,
            size.index_heads,
            table_stride,
            size.entries,
            &layout,
        )?,
        (size.tokens * size.entries) as usize,
        |logits| {
            let mut args = inputs.to_vec();
            args.extend([
                arg(logits),
                arg(layout),
                arg(size.tokens),
                arg(size.index_heads),
                arg(table_stride),
                arg(size.entries),
            ]);
            args
        },
    )?;
    let expected = reference::indexer_logits(
        &q,
        &weights,
        &keys,
        &table,
        &lens,
        &layout,
        size.entries as usize,
    );
    close_to(&widen_floats(&logits), &expected, SINGLE)
}

pub(super) fn top_k(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn top_k_of_odd_numbers(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn gather_attention(bench: &mut Bench<'_>, size: Size) -> Outcome {
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

pub(super) fn mix(bench: &mut Bench<'_>, size: Size) -> Outcome {
    // More values than columns, and fewer.
    for values in [size.heads * size.dim, size.width / 2 + 1] {
        let x = bench.halves((size.tokens * size.width) as usize);
        let attention = bench.halves((size.tokens * values) as usize);
        let (x_at, attention_at) = (bench.upload(&x)?, bench.upload(&attention)?);
        let next: Vec<bf16> = bench.twice::<dsv4::mix, _>(
            dsv4::mix::shape(size.tokens, size.width, values)?,
            x.len(),
            |next| {
                vec![
                    arg(x_at),
                    arg(attention_at),
                    arg(next),
                    arg(size.tokens),
                    arg(size.width),
                    arg(values),
                ]
            },
        )?;
        let expected = reference::mix(&x, &attention, size.width as usize, values as usize);
        close_to(&widen(&next), &expected, HALF)?;
    }
    Ok(())
}

pub(super) fn words(bench: &mut Bench<'_>, _: Size) -> Outcome {
    // One word more stays as it was.
    let len = 1_000_u32;
    let data = bench.upload(&vec![7_u32; len as usize + 1])?;
    let value = u32::MAX;
    bench.launch::<dsv4::fill_words>(
        dsv4::fill_words::shape(len)?,
        vec![arg(data), arg(len), arg(value)],
    )?;
    let half = len / 2;
    bench.launch::<dsv4::add_one>(dsv4::add_one::shape(half)?, vec![arg(data), arg(half)])?;
    let mut expected = vec![value; len as usize + 1];
    expected[..half as usize].fill(0);
    expected[len as usize] = 7;
    equal(&bench.download::<u32>(data, expected.len())?, &expected)
}
