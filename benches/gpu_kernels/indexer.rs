//! The indexer: logits over paged keys, and the selection.

use streamweir::kernels::dsv4::{indexer_logits, indexer_logits_fp8, top_k};
use streamweir::kernels::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentPages};

use crate::common::Outcome;
use crate::harness::{Harness, Work};

/// Heads of the indexer and dimensions of a key, as in the model.
const HEADS: u32 = 64;
const DIM: u32 = 128;
/// Entries of a page.
const PAGE: u32 = 64;

pub(crate) fn rows(harness: &Harness) -> Outcome {
    let sizes = [(1, 16_384), (8, 16_384), (32, 16_384), (1, 262_144)];
    for (tokens, entries) in sizes {
        logits(harness, tokens, entries)?;
    }
    for (tokens, entries) in sizes {
        logits_fp8(harness, tokens, entries)?;
    }
    for (tokens, entries, k) in [
        (1, 16_384, 512),
        (32, 16_384, 512),
        (32, 16_384, 1024),
        (1, 262_144, 512),
    ] {
        selection(harness, tokens, entries, k)?;
    }
    Ok(())
}

fn logits(harness: &Harness, tokens: u32, entries: u32) -> Outcome {
    let kernel = harness.module.kernel::<indexer_logits>()?;
    let stride = entries.div_ceil(PAGE);
    let pages = IndexKeyPages::bf16(DIM, tokens * stride + 1)?;
    let (rows, all) = (u64::from(tokens), u64::from(tokens) * u64::from(entries));
    let (heads, dim) = (u64::from(HEADS), u64::from(DIM));
    harness.row(
        "indexer_logits",
        &format!("{tokens} x {entries}"),
        Work {
            bytes: all * (2 * dim + 4) + rows * heads * (2 * dim + 4),
            operations: 2 * all * heads * dim,
        },
        |h| {
            Ok((
                h.halves("queries", (rows * heads * dim) as usize)?,
                h.floats("head weights", (rows * heads) as usize)?,
                h.halves("index keys", (pages.layout().pool_bytes() / 2) as usize)?,
                h.page_table(tokens, stride)?,
                h.device
                    .persistent_from("lengths", &vec![entries as i32; tokens as usize])?,
                h.device.persistent::<f32>("logits", all as usize)?,
            ))
        },
        |main, (q, weights, keys, table, lens, logits)| {
            Ok(main.launch(
                &kernel,
                indexer_logits {
                    q,
                    weights,
                    keys,
                    page_table: table,
                    lens,
                    logits,
                    layout: pages,
                    tokens,
                    heads: HEADS,
                    table_stride: stride,
                    max_entries: entries,
                },
            )?)
        },
    )
}

fn logits_fp8(harness: &Harness, tokens: u32, entries: u32) -> Outcome {
    let kernel = harness.module.kernel::<indexer_logits_fp8>()?;
    let stride = entries.div_ceil(PAGE);
    let pages = IndexKeyFp8Pages::new(DIM, tokens * stride + 1)?;
    let (rows, all) = (u64::from(tokens), u64::from(tokens) * u64::from(entries));
    let (heads, dim) = (u64::from(HEADS), u64::from(DIM));
    harness.row(
        "indexer_logits_fp8",
        &format!("{tokens} x {entries}"),
        Work {
            bytes: all * (dim + 8) + rows * heads * (dim + 4),
            operations: 2 * all * heads * dim,
        },
        |h| {
            Ok((
                h.device
                    .persistent_from("queries", &codes(h, (rows * heads * dim) as usize))?,
                h.floats("head weights", (rows * heads) as usize)?,
                h.device.persistent_from("index keys", &pool(h, &pages))?,
                h.page_table(tokens, stride)?,
                h.device
                    .persistent_from("lengths", &vec![entries as i32; tokens as usize])?,
                h.device.persistent::<f32>("logits", all as usize)?,
            ))
        },
        |main, (q, weights, keys, table, lens, logits)| {
            Ok(main.launch(
                &kernel,
                indexer_logits_fp8 {
                    q,
                    weights,
                    keys,
                    page_table: table,
                    lens,
                    logits,
                    layout: pages,
                    tokens,
                    heads: HEADS,
                    table_stride: stride,
                    max_entries: entries,
                },
            )?)
        },
    )
}

/// Patterns of e4m3 numbers of at most 30, in random order, as often as needed.
fn codes(h: &Harness, count: usize) -> Vec<u8> {
    let random = h.shuffled(0, 1 << 16);
    let code = |word: &i32| (word & 0x80) as u8 | ((word & 0x7f) as u8 % 0x60);
    random.iter().map(code).cycle().take(count).collect()
}

/// Random keys, all with the same scale.
fn pool(h: &Harness, pages: &IndexKeyFp8Pages) -> Vec<u8> {
    let geometry = pages.layout();
    let mut pool = codes(h, geometry.pool_bytes() as usize);
    for page in pool.chunks_exact_mut(geometry.page_bytes() as usize) {
        for scale in page[geometry.scale_offset() as usize..].chunks_exact_mut(4) {
            scale.copy_from_slice(&0.5_f32.to_le_bytes());
        }
    }
    pool
}

fn selection(harness: &Harness, tokens: u32, entries: u32, k: u32) -> Outcome {
    let kernel = harness.module.kernel::<top_k>()?;
    let stride = entries.div_ceil(PAGE);
    // The selection reads the geometry of the pool, never the pool.
    let pages = LatentPages::bf16(512, tokens * stride + 1)?;
    let all = u64::from(tokens) * u64::from(entries);
    harness.row(
        "top_k",
        &format!("{k} of {tokens} x {entries}"),
        Work {
            bytes: 4 * all + 4 * u64::from(tokens) * u64::from(k),
            operations: 0,
        },
        |h| {
            Ok((
                h.floats("logits", all as usize)?,
                h.page_table(tokens, stride)?,
                h.device
                    .persistent_from("lengths", &vec![entries as i32; tokens as usize])?,
                h.device
                    .persistent::<i32>("indices", (tokens * k) as usize)?,
            ))
        },
        |main, (logits, table, lens, indices)| {
            Ok(main.launch(
                &kernel,
                top_k {
                    logits,
                    page_table: table,
                    lens,
                    indices,
                    layout: pages,
                    tokens,
                    max_entries: entries,
                    table_stride: stride,
                    k,
                },
            )?)
        },
    )
}
