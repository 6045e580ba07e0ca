//! Norms, rotation, stores into the pools, compressors, the indexer's queries.
//!
//! These move little: at the sizes of a decode step their time is that of a
//! launch and of a few reads that depend on each other.

use streamweir::Persistent;
use streamweir::kernels::dsv4::{
    HEAD_DIM, StateRing, compress_c4, compress_c128, compress_index_key, compress_index_key_fp8,
    index_query, index_query_fp8, index_weights, norm_rope_heads, rms_norm, rope_heads,
    store_index_key, store_index_key_fp8, store_latent,
};
use streamweir::kernels::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};
use streamweir::kernels::rope::Rope;

use crate::common::Outcome;
use crate::harness::{Harness, Work};

/// Heads of the attention and of the indexer, as in the model.
const HEADS: u32 = 64;
/// Dimensions of an index key, and values of the projection that rows of the
/// caches and queries come from.
const KEY: u32 = 128;
const PROJECTION: u32 = 1536;
const QUERY: u32 = 1024;
/// Positions of the table, and bytes of one.
const ROPE_ROWS: u32 = 65_536;
const ANGLES: u64 = 256;
const EPSILON: f32 = 1e-6;

pub(crate) fn rows(harness: &Harness) -> Outcome {
    let common = Common {
        rope: harness
            .device
            .persistent_from("rope", &Rope::COMPRESSED.table(ROPE_ROWS))?,
        faults: harness.device.persistent::<u32>("faults", 1)?,
    };
    for tokens in [1, 32, 64] {
        norm(harness, tokens)?;
        heads(harness, &common, tokens)?;
        queries(harness, &common, tokens)?;
        stores(harness, &common, tokens)?;
        compressors(harness, &common, tokens)?;
    }
    Ok(())
}

/// What all kernels share.
struct Common {
    rope: Persistent<f32>,
    faults: Persistent<u32>,
}

/// Different positions, one for each token.
fn positions(harness: &Harness, tokens: u32) -> Outcome<Persistent<i32>> {
    let mut positions = harness.shuffled(0, ROPE_ROWS);
    positions.truncate(tokens as usize);
    Ok(harness.device.persistent_from("positions", &positions)?)
}

/// Slots of pages of their own, one for each token.
fn slots(harness: &Harness, tokens: u32, page: i32) -> Outcome<Persistent<i32>> {
    let slots: Vec<i32> = harness
        .shuffled(1, tokens)
        .into_iter()
        .map(|n| n * page)
        .collect();
    Ok(harness.device.persistent_from("slots", &slots)?)
}

fn norm(harness: &Harness, tokens: u32) -> Outcome {
    let kernel = harness.module.kernel::<rms_norm>()?;
    let values = u64::from(tokens) * u64::from(QUERY);
    harness.row(
        "rms_norm",
        &format!("{tokens} x {QUERY}"),
        Work {
            bytes: 4 * values + 4 * u64::from(QUERY),
            operations: 0,
        },
        |h| {
            Ok((
                h.halves("projection", (tokens * PROJECTION) as usize)?,
                h.floats("norm", QUERY as usize)?,
                h.device.persistent::<half::bf16>("row", values as usize)?,
            ))
        },
        |main, (x, norm, out)| {
            Ok(main.launch(
                &kernel,
                rms_norm {
                    x,
                    norm,
                    out,
                    tokens,
                    width: QUERY,
                    stride: PROJECTION,
                    first: 0_u32,
                    epsilon: EPSILON,
                },
            )?)
        },
    )
}

fn heads(harness: &Harness, common: &Common, tokens: u32) -> Outcome {
    let Common { rope, faults } = common;
    let values = u64::from(tokens) * u64::from(HEADS) * u64::from(HEAD_DIM);
    let inputs = |h: &Harness| Ok((h.halves("heads", values as usize)?, positions(h, tokens)?));
    let sizes = format!("{tokens} x {HEADS} x {HEAD_DIM}");
    let kernel = harness.module.kernel::<norm_rope_heads>()?;
    harness.row(
        "norm_rope_heads",
        &sizes,
        Work {
            bytes: 4 * values + u64::from(tokens) * ANGLES,
            operations: 0,
        },
        inputs,
        |main, (q, positions)| {
            Ok(main.launch(
                &kernel,
                norm_rope_heads {
                    q,
                    rope,
                    positions,
                    faults,
                    tokens,
                    heads: HEADS,
                    rope_rows: ROPE_ROWS,
                    epsilon: EPSILON,
                },
            )?)
        },
    )?;
    let kernel = harness.module.kernel::<rope_heads>()?;
    harness.row(
        "rope_heads (back)",
        &sizes,
        Work {
            // 64 of the 512 dimensions.
            bytes: 4 * values / 8 + u64::from(tokens) * ANGLES,
            operations: 0,
        },
        inputs,
        |main, (x, positions)| {
            Ok(main.launch(
                &kernel,
                rope_heads {
                    x,
                    rope,
                    positions,
                    faults,
                    tokens,
                    heads: HEADS,
                    dim: HEAD_DIM,
                    rope_rows: ROPE_ROWS,
                    inverse: 1_u32,
                },
            )?)
        },
    )
}

/// A row of one of the kernels that differ in the format of their result alone.
macro_rules! query_row {
    ($harness:ident, $common:ident, $tokens:ident, $kernel:ident, $element:ty) => {{
        let Common { rope, faults } = $common;
        let kernel = $harness.module.kernel::<$kernel>()?;
        let rows = u64::from($tokens) * u64::from(HEADS);
        let values = rows * u64::from(KEY);
        let scale = index_weights::scale(KEY, HEADS);
        $harness.row(
            stringify!($kernel),
            &format!("{} x {HEADS} x {KEY}", $tokens),
            Work {
                bytes: values * (2 + size_of::<$element>() as u64)
                    + 8 * rows
                    + u64::from($tokens) * ANGLES,
                operations: 0,
            },
            |h| {
                Ok((
                    h.halves("projected", values as usize)?,
                    h.floats("weights", rows as usize)?,
                    positions(h, $tokens)?,
                    h.device
                        .persistent::<$element>("queries", values as usize)?,
                    h.device.persistent::<f32>("folded", rows as usize)?,
                ))
            },
            |main, (q, projected, positions, query, weights)| {
                Ok(main.launch(
                    &kernel,
                    $kernel {
                        q,
                        projected,
                        rope,
                        positions,
                        query,
                        weights,
                        faults,
                        tokens: $tokens,
                        heads: HEADS,
                        rope_rows: ROPE_ROWS,
                        scale,
                    },
                )?)
            },
        )?;
    }};
}

fn queries(harness: &Harness, common: &Common, tokens: u32) -> Outcome {
    query_row!(harness, common, tokens, index_query, half::bf16);
    query_row!(harness, common, tokens, index_query_fp8, u8);
    Ok(())
}

macro_rules! store_row {
    ($harness:ident, $common:ident, $tokens:ident, $kernel:ident, $pages:expr, $dim:expr, $element:ty, $page:literal) => {{
        let Common { rope, faults } = $common;
        let kernel = $harness.module.kernel::<$kernel>()?;
        let pages = $pages;
        let layout = *pages.layout();
        let stored = u64::from(layout.value_bytes() + layout.scale_bytes());
        $harness.row(
            stringify!($kernel),
            &format!("{} x {}", $tokens, $dim),
            Work {
                bytes: u64::from($tokens) * (2 * u64::from($dim) + stored + ANGLES),
                operations: 0,
            },
            |h| {
                let elements = layout.pool_bytes() / size_of::<$element>() as u64;
                Ok((
                    h.halves("projection", ($tokens * PROJECTION) as usize)?,
                    h.floats("norm", $dim as usize)?,
                    positions(h, $tokens)?,
                    slots(h, $tokens, $page)?,
                    h.device.persistent::<$element>("pool", elements as usize)?,
                ))
            },
            |main, (x, norm, positions, slots, pool)| {
                Ok(main.launch(
                    &kernel,
                    $kernel {
                        x,
                        norm,
                        rope,
                        positions,
                        out_loc: slots,
                        pool,
                        faults,
                        layout: pages,
                        tokens: $tokens,
                        stride: PROJECTION,
                        first: QUERY,
                        rope_rows: ROPE_ROWS,
                        epsilon: EPSILON,
                    },
                )?)
            },
        )?;
    }};
}

fn stores(harness: &Harness, common: &Common, tokens: u32) -> Outcome {
    let latents = LatentFp8Pages::window(tokens + 1)?;
    store_row!(
        harness,
        common,
        tokens,
        store_latent,
        latents,
        HEAD_DIM,
        u8,
        128
    );
    let keys = IndexKeyPages::bf16(KEY, tokens + 1)?;
    store_row!(
        harness,
        common,
        tokens,
        store_index_key,
        keys,
        KEY,
        half::bf16,
        64
    );
    let keys = IndexKeyFp8Pages::new(KEY, tokens + 1)?;
    store_row!(
        harness,
        common,
        tokens,
        store_index_key_fp8,
        keys,
        KEY,
        u8,
        64
    );
    Ok(())
}

macro_rules! compressor_row {
    ($harness:ident, $common:ident, $tokens:ident, $kernel:ident, $pages:expr, $element:ty, $page:literal, $complete:literal) => {{
        let Common { rope, faults } = $common;
        let kernel = $harness.module.kernel::<$kernel>()?;
        let pages = $pages;
        let ring: StateRing = $kernel::RING;
        let slots_of_state = $tokens + 1;
        let layout = *pages.layout();
        let row = 4 * u64::from(ring.width);
        // Of each row before the incoming one the keys and scores that count.
        let read = 8 * u64::from(ring.channels) * u64::from(ring.rows - 1);
        let stored = u64::from(layout.value_bytes() + layout.scale_bytes()) + ANGLES;
        let (what, bytes) = match $complete {
            true => ("entries", 2 * row + read + stored),
            false => ("ring only", 2 * row),
        };
        $harness.row(
            stringify!($kernel),
            &format!("{}, {what}", $tokens),
            Work {
                bytes: u64::from($tokens) * bytes,
                operations: 0,
            },
            |h| {
                let elements = layout.pool_bytes() / size_of::<$element>() as u64;
                // A whole group, or one token less.
                let lens: Vec<i32> = (0..$tokens as i32)
                    .map(|token| 8_192 + 128 * token - i32::from(!$complete))
                    .collect();
                let state: Vec<i32> = (1..=$tokens as i32).collect();
                Ok((
                    (
                        h.floats("keys and scores", ($tokens * ring.width) as usize)?,
                        h.floats("ape", ring.ape_floats() as usize)?,
                        h.floats("norm", ring.channels as usize)?,
                    ),
                    (
                        h.device.persistent_from("lengths", &lens)?,
                        h.device.persistent_from("state slots", &state)?,
                        slots(h, $tokens, $page)?,
                    ),
                    h.floats("rings", ring.floats(slots_of_state) as usize)?,
                    h.device.persistent::<$element>("pool", elements as usize)?,
                ))
            },
            |main, ((kv_score, ape, norm), (lens, state, slots), rings, pool)| {
                Ok(main.launch(
                    &kernel,
                    $kernel {
                        kv_score,
                        ape,
                        norm,
                        rope,
                        seq_lens: lens,
                        state_slots: state,
                        out_loc: slots,
                        rings,
                        pool,
                        faults,
                        layout: pages,
                        tokens: $tokens,
                        slots: slots_of_state,
                        rope_rows: ROPE_ROWS,
                        epsilon: EPSILON,
                    },
                )?)
            },
        )?;
    }};
}

fn compressors(harness: &Harness, common: &Common, tokens: u32) -> Outcome {
    let latents = LatentFp8Pages::c4(tokens + 1)?;
    compressor_row!(harness, common, tokens, compress_c4, latents, u8, 64, true);
    compressor_row!(harness, common, tokens, compress_c4, latents, u8, 64, false);
    let keys = IndexKeyPages::bf16(KEY, tokens + 1)?;
    compressor_row!(
        harness,
        common,
        tokens,
        compress_index_key,
        keys,
        half::bf16,
        64,
        true
    );
    let keys = IndexKeyFp8Pages::new(KEY, tokens + 1)?;
    compressor_row!(
        harness,
        common,
        tokens,
        compress_index_key_fp8,
        keys,
        u8,
        64,
        true
    );
    let latents = LatentFp8Pages::c128(tokens + 1)?;
    compressor_row!(harness, common, tokens, compress_c128, latents, u8, 2, true);
    compressor_row!(
        harness,
        common,
        tokens,
        compress_c128,
        latents,
        u8,
        2,
        false
    );
    Ok(())
}
