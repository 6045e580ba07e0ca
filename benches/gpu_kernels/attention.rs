//! Attention over selected entries.

use streamweir::kernels::dsv4::gather_attention;
use streamweir::kernels::layout::LatentPages;

use crate::harness::{Harness, Outcome, Work};

/// Heads, and dimensions of a latent, as in the model.
const HEADS: u32 = 64;
const DIM: u32 = 512;
/// Entries of a page.
const PAGE: u32 = 64;
/// Entries that a sequence has in the cache.
const ENTRIES: u32 = 16_384;

pub(crate) fn rows(harness: &Harness) -> Outcome {
    for tokens in [1, 8, 32] {
        gather(harness, tokens, 512)?;
    }
    Ok(())
}

fn gather(harness: &Harness, tokens: u32, selected: u32) -> Outcome {
    let kernel = harness.module.kernel::<gather_attention>()?;
    let pages = LatentPages::bf16(DIM, tokens * ENTRIES / PAGE + 1)?;
    let shape = gather_attention::shape(tokens, HEADS, selected, &pages)?;
    let scale = gather_attention::scale(DIM);
    let queries = u64::from(tokens) * u64::from(HEADS) * u64::from(DIM);
    let entries = u64::from(tokens) * u64::from(selected);
    harness.row(
        "gather_attention",
        &format!("{tokens} x {selected}"),
        Work {
            bytes: 2 * 2 * queries + entries * (2 * u64::from(DIM) + 4),
            operations: 2 * 2 * queries * u64::from(selected),
        },
        |h| {
            let mut slots = h.shuffled(PAGE as i32, tokens * ENTRIES);
            slots.truncate(entries as usize);
            Ok((
                h.halves("queries", queries as usize)?,
                h.halves("latents", (pages.layout().pool_bytes() / 2) as usize)?,
                h.device.persistent_from("indices", &slots)?,
                h.floats("sink", HEADS as usize)?,
                h.device
                    .persistent::<half::bf16>("attention", queries as usize)?,
            ))
        },
        |main, (q, latents, indices, sink, out)| {
            Ok(main.launch(
                &kernel,
                shape,
                (
                    q, latents, indices, sink, out, pages, tokens, HEADS, selected, scale,
                ),
            )?)
        },
    )
}
