//! Attention over selected entries.

use streamweir::kernels::dsv4::{
    AttentionSplits, combine_attention, gather_attention, paged_attention, sparse_attention,
};
use streamweir::kernels::layout::{LatentFp8Pages, LatentPages};
use streamweir::{Persistent, Stream};

use crate::common::Outcome;
use crate::harness::{Harness, Work};

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
    for tokens in [1, 8, 32] {
        fp8(harness, tokens, Entries::Selected(512))?;
    }
    for (tokens, entries) in [(1, 640), (32, 640), (1, 8192)] {
        fp8(harness, tokens, Entries::All(entries))?;
    }
    Ok(())
}

/// Tokens of the sliding window.
const WINDOW: u32 = 128;
/// Compressed entries that a sequence has in the fp8 cache: enough for those of
/// all input sets to exceed the chip's cache.
const CACHED: u32 = 2048;

/// What the attention reads beside the window.
#[derive(Clone, Copy)]
enum Entries {
    /// So many selected entries of a sequence.
    Selected(u32),
    /// All entries of sequences of this length.
    All(u32),
}

/// What one launch reads and writes.
struct Inputs {
    q: Persistent<half::bf16>,
    window: Persistent<u8>,
    window_slots: Persistent<i32>,
    latents: Persistent<u8>,
    /// Slots, or page tables.
    places: Persistent<i32>,
    lens: Persistent<i32>,
    sink: Persistent<f32>,
    faults: Persistent<u32>,
    out: Persistent<half::bf16>,
}

/// Both kernels of the attention over fp8 latents, with their scratch from the
/// stream's pool, as a layer has it.
fn fp8(harness: &Harness, tokens: u32, entries: Entries) -> Outcome {
    let info = harness.device.info();
    let (name, count) = match entries {
        Entries::Selected(count) => ("sparse_attention", count),
        Entries::All(count) => ("paged_attention", count),
    };
    let splits = AttentionSplits::for_device(tokens, HEADS, WINDOW + count, info.multiprocessors);
    let window_pages = LatentFp8Pages::window(tokens + 1)?;
    let (pages, stride) = match entries {
        Entries::Selected(_) => (LatentFp8Pages::c4(tokens * CACHED / PAGE + 1)?, 0),
        Entries::All(count) => {
            let stride = count.div_ceil(2);
            (LatentFp8Pages::c128(tokens * stride + 1)?, stride)
        }
    };
    let sparse = harness.module.kernel::<sparse_attention>()?;
    let paged = harness.module.kernel::<paged_attention>()?;
    let combine = harness.module.kernel::<combine_attention>()?;
    let shape = sparse_attention::shape(&splits, info.capability)?;
    sparse.allow_shared(shape.shared_bytes)?;
    paged.allow_shared(shape.shared_bytes)?;
    let scale = sparse_attention::scale();
    let queries = u64::from(tokens) * u64::from(HEADS) * u64::from(DIM);
    let read = u64::from(tokens) * u64::from(WINDOW + count);
    harness.row(
        name,
        &format!("{tokens} x ({WINDOW} + {count})"),
        Work {
            bytes: 2 * 2 * queries + read * (584 + 4),
            operations: 2 * 2 * u64::from(HEADS) * u64::from(DIM) * read,
        },
        |h| {
            let places = match entries {
                Entries::Selected(_) => {
                    let mut slots = h.shuffled(PAGE as i32, tokens * CACHED);
                    slots.truncate((tokens * count) as usize);
                    slots
                }
                Entries::All(_) => h.shuffled(1, tokens * stride),
            };
            Ok(Inputs {
                q: h.halves("queries", queries as usize)?,
                window: h.latents("window", &window_pages)?,
                window_slots: h
                    .device
                    .persistent_from("window slots", &h.shuffled(128, tokens * WINDOW))?,
                latents: h.latents("latents", &pages)?,
                places: h.device.persistent_from("places", &places)?,
                lens: h
                    .device
                    .persistent_from("lengths", &vec![count as i32; tokens as usize])?,
                sink: h.floats("sink", HEADS as usize)?,
                faults: h.device.persistent_from("faults", &[0])?,
                out: h.device.persistent("attention", queries as usize)?,
            })
        },
        |main: &Stream, i: &Inputs| {
            let partial = main.scratch::<half::f16>("sums", splits.partial_len())?;
            let stats = main.scratch::<f32>("stats", splits.stats_len())?;
            match entries {
                Entries::Selected(_) => main.launch(
                    &sparse,
                    sparse_attention {
                        q: &i.q,
                        window: &i.window,
                        window_slots: &i.window_slots,
                        selected: &i.latents,
                        indices: &i.places,
                        partial: &partial,
                        stats: &stats,
                        faults: &i.faults,
                        window_layout: window_pages,
                        selected_layout: pages,
                        tokens,
                        heads: HEADS,
                        window_entries: WINDOW,
                        selected_entries: count,
                        scale,
                        splits: splits.splits(),
                    },
                )?,
                Entries::All(_) => main.launch(
                    &paged,
                    paged_attention {
                        q: &i.q,
                        window: &i.window,
                        window_slots: &i.window_slots,
                        latents: &i.latents,
                        page_table: &i.places,
                        lens: &i.lens,
                        partial: &partial,
                        stats: &stats,
                        faults: &i.faults,
                        window_layout: window_pages,
                        layout: pages,
                        tokens,
                        heads: HEADS,
                        window_entries: WINDOW,
                        max_entries: count,
                        table_stride: stride,
                        scale,
                        splits: splits.splits(),
                    },
                )?,
            }
            Ok(main.launch(
                &combine,
                combine_attention {
                    partial: &partial,
                    stats: &stats,
                    sink: &i.sink,
                    out: &i.out,
                    tokens,
                    heads: HEADS,
                    splits: splits.splits(),
                },
            )?)
        },
    )
}

fn gather(harness: &Harness, tokens: u32, selected: u32) -> Outcome {
    let kernel = harness.module.kernel::<gather_attention>()?;
    let pages = LatentPages::bf16(DIM, tokens * ENTRIES / PAGE + 1)?;
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
                gather_attention {
                    q,
                    latent: latents,
                    indices,
                    sink,
                    out,
                    layout: pages,
                    tokens,
                    heads: HEADS,
                    selected,
                    scale,
                },
            )?)
        },
    )
}
