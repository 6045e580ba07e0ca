//! The indexer: logits over paged keys, and the selection.

use streamweir::kernels::dsv4::{indexer_logits, top_k};
use streamweir::kernels::layout::{IndexKeyPages, LatentPages};

use crate::harness::{Harness, Outcome, Work};

/// Heads of the indexer and dimensions of a key, as in the model.
const HEADS: u32 = 64;
const DIM: u32 = 128;
/// Entries of a page.
const PAGE: u32 = 64;

pub(crate) fn rows(harness: &Harness) -> Outcome {
    for (tokens, entries) in [(1, 16_384), (8, 16_384), (32, 16_384), (1, 262_144)] {
        logits(harness, tokens, entries)?;
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
    let shape = indexer_logits::shape(tokens, HEADS, stride, entries, &pages)?;
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
                shape,
                (
                    q, weights, keys, table, lens, logits, pages, tokens, HEADS, stride, entries,
                ),
            )?)
        },
    )
}

fn selection(harness: &Harness, tokens: u32, entries: u32, k: u32) -> Outcome {
    let kernel = harness.module.kernel::<top_k>()?;
    let stride = entries.div_ceil(PAGE);
    // The selection reads the geometry of the pool, never the pool.
    let pages = LatentPages::bf16(512, tokens * stride + 1)?;
    let shape = top_k::shape(tokens, entries, stride, k, &pages)?;
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
                shape,
                (
                    logits, table, lens, indices, pages, tokens, entries, stride, k,
                ),
            )?)
        },
    )
}
