//! One launch of each kernel, in buffers of exactly the lengths that it asks for.

use streamweir_sched::Error;
use streamweir_sched::kernel::{Kernel, Signature};

use super::maker::{
    ENTRIES, EPSILON, HEADS, Maker, PAGES, ROPE_ROWS, SLOTS, SPLITS, STRIDE, TOKENS, WIDTH,
};
use crate::dsv4::testing::{add_one, fill_words, hadamard_rows, quantise_e4m3, quantise_latent};
use crate::dsv4::*;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages, LatentPages};

/// One launch of a kernel.
pub(super) struct Launch {
    pub(super) signature: fn() -> Signature,
    pub(super) run: fn(&Maker<'_>) -> Result<(), Error>,
}

macro_rules! launches {
    ($($kernel:ident |$m:ident| $args:expr;)+) => {
        /// A launch of each kernel.
        pub(super) const LAUNCHES: &[Launch] = &[$(Launch {
            signature: <$kernel as Kernel>::signature,
            run: |$m| $m.launch::<$kernel, _>($args),
        },)+];
    };
}

/// The pools of the launches.
fn keys() -> IndexKeyPages {
    IndexKeyPages::bf16(INDEX_DIM, PAGES).expect("a pool")
}

fn keys_fp8() -> IndexKeyFp8Pages {
    IndexKeyFp8Pages::new(INDEX_DIM, PAGES).expect("a pool")
}

fn latents() -> LatentFp8Pages {
    LatentFp8Pages::window(PAGES).expect("a pool")
}

fn latents_bf16() -> LatentPages {
    LatentPages::bf16(WIDTH, PAGES).expect("a pool")
}

macro_rules! stored {
    ($m:ident, $kernel:ident, $layout:expr, $dim:expr, $element:literal) => {
        $kernel {
            x: &$m.tokens("x", $dim + 16)?,
            norm: &$m.buffer("norm", $dim.into())?,
            rope: &$m.buffer("rope", u64::from(ROPE_ROWS) * 64)?,
            positions: &$m.tokens("positions", 1)?,
            out_loc: &$m.tokens("out_loc", 1)?,
            pool: &$m.buffer("pool", $layout.layout().pool_bytes() / $element)?,
            faults: &$m.buffer("faults", 1)?,
            layout: $layout,
            tokens: TOKENS,
            stride: $dim + 16,
            first: 8,
            rope_rows: ROPE_ROWS,
            epsilon: EPSILON,
        }
    };
}

macro_rules! compressed {
    ($m:ident, $kernel:ident, $layout:expr, $element:literal) => {
        $kernel {
            kv_score: &$m.tokens("kv_score", $kernel::RING.width)?,
            ape: &$m.buffer("ape", $kernel::RING.ape_floats().into())?,
            norm: &$m.buffer("norm", $kernel::RING.channels.into())?,
            rope: &$m.buffer("rope", u64::from(ROPE_ROWS) * 64)?,
            seq_lens: &$m.tokens("seq_lens", 1)?,
            state_slots: &$m.tokens("state_slots", 1)?,
            out_loc: &$m.tokens("out_loc", 1)?,
            rings: &$m.buffer("rings", $kernel::RING.floats(SLOTS))?,
            pool: &$m.buffer("pool", $layout.layout().pool_bytes() / $element)?,
            faults: &$m.buffer("faults", 1)?,
            layout: $layout,
            tokens: TOKENS,
            slots: SLOTS,
            rope_rows: ROPE_ROWS,
            epsilon: EPSILON,
        }
    };
}

macro_rules! queried {
    ($m:ident, $kernel:ident) => {
        $kernel {
            q: &$m.tokens("q", HEADS * INDEX_DIM)?,
            projected: &$m.tokens("projected", HEADS)?,
            rope: &$m.buffer("rope", u64::from(ROPE_ROWS) * 64)?,
            positions: &$m.tokens("positions", 1)?,
            query: &$m.tokens("query", HEADS * INDEX_DIM)?,
            weights: &$m.tokens("weights", HEADS)?,
            faults: &$m.buffer("faults", 1)?,
            tokens: TOKENS,
            heads: HEADS,
            rope_rows: ROPE_ROWS,
            scale: 1.0,
        }
    };
}

macro_rules! scored {
    ($m:ident, $kernel:ident, $layout:expr, $element:literal) => {
        $kernel {
            q: &$m.tokens("q", HEADS * INDEX_DIM)?,
            weights: &$m.tokens("weights", HEADS)?,
            keys: &$m.buffer("keys", $layout.layout().pool_bytes() / $element)?,
            page_table: &$m.tokens("page_table", STRIDE)?,
            lens: &$m.tokens("lens", 1)?,
            logits: &$m.tokens("logits", ENTRIES)?,
            layout: $layout,
            tokens: TOKENS,
            heads: HEADS,
            table_stride: STRIDE,
            max_entries: ENTRIES,
        }
    };
}

macro_rules! selected {
    ($m:ident, $kernel:ident, $layout:expr) => {
        $kernel {
            logits: &$m.tokens("logits", ENTRIES)?,
            page_table: &$m.tokens("page_table", STRIDE)?,
            lens: &$m.tokens("lens", 1)?,
            indices: &$m.tokens("indices", 17)?,
            layout: $layout,
            tokens: TOKENS,
            max_entries: ENTRIES,
            table_stride: STRIDE,
            k: 17,
        }
    };
}

launches! {
    query_projection |m| query_projection {
        x: &m.tokens("x", WIDTH)?,
        weight: &m.buffer("weight", 33 * u64::from(WIDTH))?,
        q: &m.tokens("q", 33)?,
        tokens: TOKENS,
        width: WIDTH,
        rows: 33,
    };
    mix |m| mix {
        x: &m.tokens("x", WIDTH)?,
        attention: &m.tokens("attention", 2 * WIDTH + 1)?,
        next: &m.tokens("next", WIDTH)?,
        tokens: TOKENS,
        width: WIDTH,
        values: 2 * WIDTH + 1,
    };
    rms_norm |m| rms_norm {
        x: &m.tokens("x", 2 * WIDTH)?,
        norm: &m.buffer("norm", WIDTH.into())?,
        out: &m.tokens("out", WIDTH)?,
        tokens: TOKENS,
        width: WIDTH,
        stride: 2 * WIDTH,
        first: WIDTH,
        epsilon: EPSILON,
    };
    embed |m| embed {
        ids: &m.tokens("ids", 1)?,
        embedding: &m.buffer("embedding", 7 * u64::from(WIDTH))?,
        x: &m.tokens("x", WIDTH)?,
        faults: &m.buffer("faults", 1)?,
        tokens: TOKENS,
        width: WIDTH,
        vocabulary: 7,
    };
    argmax |m| argmax {
        logits: &m.tokens("logits", 77)?,
        ids: &m.tokens("ids", 1)?,
        tokens: TOKENS,
        vocabulary: 77,
    };
    count_differences |m| count_differences {
        left: &m.buffer("left", 77)?,
        right: &m.buffer("right", 77)?,
        found: &m.buffer("found", 1)?,
        len: 77,
    };
    index_key_store |m| index_key_store {
        x: &m.tokens("x", WIDTH)?,
        weight: &m.buffer("weight", u64::from(INDEX_DIM * WIDTH))?,
        norm: &m.buffer("norm", INDEX_DIM.into())?,
        out_loc: &m.tokens("out_loc", 1)?,
        keys: &m.buffer("keys", keys().layout().pool_bytes() / 2)?,
        layout: keys(),
        tokens: TOKENS,
        width: WIDTH,
        epsilon: EPSILON,
    };
    store_latent |m| stored!(m, store_latent, latents(), LatentFp8Pages::DIM, 1);
    store_index_key |m| stored!(m, store_index_key, keys(), INDEX_DIM, 2);
    store_index_key_fp8 |m| stored!(m, store_index_key_fp8, keys_fp8(), INDEX_DIM, 1);
    compress_c4 |m| compressed!(m, compress_c4, latents(), 1);
    compress_index_key |m| compressed!(m, compress_index_key, keys(), 2);
    compress_index_key_fp8 |m| compressed!(m, compress_index_key_fp8, keys_fp8(), 1);
    compress_c128 |m| compressed!(m, compress_c128, latents(), 1);
    norm_rope_heads |m| norm_rope_heads {
        q: &m.tokens("q", HEADS * HEAD_DIM)?,
        rope: &m.buffer("rope", u64::from(ROPE_ROWS) * 64)?,
        positions: &m.tokens("positions", 1)?,
        faults: &m.buffer("faults", 1)?,
        tokens: TOKENS,
        heads: HEADS,
        rope_rows: ROPE_ROWS,
        epsilon: EPSILON,
    };
    rope_heads |m| rope_heads {
        x: &m.tokens("x", HEADS * WIDTH)?,
        rope: &m.buffer("rope", u64::from(ROPE_ROWS) * 64)?,
        positions: &m.tokens("positions", 1)?,
        faults: &m.buffer("faults", 1)?,
        tokens: TOKENS,
        heads: HEADS,
        dim: WIDTH,
        rope_rows: ROPE_ROWS,
        inverse: 0,
    };
    index_query |m| queried!(m, index_query);
    index_query_fp8 |m| queried!(m, index_query_fp8);
    decode_metadata |m| decode_metadata {
        seq_lens: &m.tokens("seq_lens", 1)?,
        page_table: &m.tokens("page_table", STRIDE)?,
        positions: &m.tokens("positions", 1)?,
        window_lens: &m.tokens("window_lens", 1)?,
        c4_lens: &m.tokens("c4_lens", 1)?,
        c128_lens: &m.tokens("c128_lens", 1)?,
        out_loc: &m.tokens("out_loc", 1)?,
        c4_out_loc: &m.tokens("c4_out_loc", 1)?,
        c128_out_loc: &m.tokens("c128_out_loc", 1)?,
        faults: &m.buffer("faults", 1)?,
        tokens: TOKENS,
        table_stride: STRIDE,
        pages: PAGES,
    };
    window_slots |m| window_slots {
        seq_lens: &m.tokens("seq_lens", 1)?,
        window_table: &m.tokens("window_table", STRIDE)?,
        out_loc: &m.tokens("out_loc", 1)?,
        slots: &m.tokens("slots", 128)?,
        faults: &m.buffer("faults", 1)?,
        layout: latents(),
        tokens: TOKENS,
        table_stride: STRIDE,
    };
    index_weights |m| index_weights {
        x: &m.tokens("x", WIDTH)?,
        weight: &m.buffer("weight", u64::from(HEADS * WIDTH))?,
        weights: &m.tokens("weights", HEADS)?,
        tokens: TOKENS,
        width: WIDTH,
        heads: HEADS,
        scale: 1.0,
    };
    indexer_logits |m| scored!(m, indexer_logits, keys(), 2);
    indexer_logits_fp8 |m| scored!(m, indexer_logits_fp8, keys_fp8(), 1);
    top_k |m| selected!(m, top_k, latents_bf16());
    top_k_fp8 |m| selected!(m, top_k_fp8, latents());
    gather_attention |m| gather_attention {
        q: &m.tokens("q", HEADS * WIDTH)?,
        latent: &m.buffer("latent", latents_bf16().layout().pool_bytes() / 2)?,
        indices: &m.tokens("indices", 40)?,
        sink: &m.buffer("sink", HEADS.into())?,
        out: &m.tokens("out", HEADS * WIDTH)?,
        layout: latents_bf16(),
        tokens: TOKENS,
        heads: HEADS,
        selected: 40,
        scale: 1.0,
    };
    sparse_attention |m| sparse_attention {
        q: &m.tokens("q", HEADS * HEAD_DIM)?,
        window: &m.buffer("window", latents().layout().pool_bytes())?,
        window_slots: &m.tokens("window_slots", 40)?,
        selected: &m.buffer("selected", latents().layout().pool_bytes())?,
        indices: &m.tokens("indices", 50)?,
        partial: &m.buffer("partial", SPLITS.partial_len() as u64)?,
        stats: &m.buffer("stats", SPLITS.stats_len() as u64)?,
        faults: &m.buffer("faults", 1)?,
        window_layout: latents(),
        selected_layout: latents(),
        tokens: TOKENS,
        heads: HEADS,
        window_entries: 40,
        selected_entries: 50,
        scale: 1.0,
        splits: SPLITS.splits(),
    };
    paged_attention |m| paged_attention {
        q: &m.tokens("q", HEADS * HEAD_DIM)?,
        window: &m.buffer("window", latents().layout().pool_bytes())?,
        window_slots: &m.tokens("window_slots", 40)?,
        latents: &m.buffer("latents", latents().layout().pool_bytes())?,
        page_table: &m.tokens("page_table", STRIDE)?,
        lens: &m.tokens("lens", 1)?,
        partial: &m.buffer("partial", SPLITS.partial_len() as u64)?,
        stats: &m.buffer("stats", SPLITS.stats_len() as u64)?,
        faults: &m.buffer("faults", 1)?,
        window_layout: latents(),
        layout: latents(),
        tokens: TOKENS,
        heads: HEADS,
        window_entries: 40,
        max_entries: ENTRIES,
        table_stride: STRIDE,
        scale: 1.0,
        splits: SPLITS.splits(),
    };
    combine_attention |m| combine_attention {
        partial: &m.buffer("partial", SPLITS.partial_len() as u64)?,
        stats: &m.buffer("stats", SPLITS.stats_len() as u64)?,
        sink: &m.buffer("sink", HEADS.into())?,
        out: &m.tokens("out", HEADS * HEAD_DIM)?,
        tokens: TOKENS,
        heads: HEADS,
        splits: SPLITS.splits(),
    };
    check_page_table |m| check_page_table {
        page_table: &m.tokens("page_table", STRIDE)?,
        lens: &m.tokens("lens", 1)?,
        found: &m.buffer("found", 2)?,
        tokens: TOKENS,
        table_stride: STRIDE,
        tokens_per_page: 64,
        pages: PAGES,
    };
    fill_words |m| fill_words { data: &m.buffer("data", 77)?, len: 77, value: 1 };
    add_one |m| add_one { data: &m.buffer("data", 77)?, len: 77 };
    hadamard_rows |m| hadamard_rows {
        x: &m.tokens("x", INDEX_DIM)?,
        out: &m.tokens("out", INDEX_DIM)?,
        rows: TOKENS,
    };
    quantise_e4m3 |m| quantise_e4m3 {
        x: &m.tokens("x", INDEX_DIM)?,
        out: &m.tokens("out", INDEX_DIM)?,
        scales: &m.tokens("scales", 1)?,
        rows: TOKENS,
    };
    quantise_latent |m| quantise_latent {
        x: &m.tokens("x", LatentFp8Pages::DIM)?,
        out_loc: &m.tokens("out_loc", 1)?,
        pool: &m.buffer("pool", latents().layout().pool_bytes())?,
        faults: &m.buffer("faults", 1)?,
        layout: latents(),
        rows: TOKENS,
    };
}
