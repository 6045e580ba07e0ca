//! Logits of the indexer.

use super::super::bench::{Bench, arg, close_to, widen_floats};
use super::{Outcome, SINGLE, SPARE_PAGES, case, lengths, page_table, pages_for};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::IndexKeyPages;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(indexer_logits)];

fn indexer_logits(bench: &mut Bench<'_>, size: Size) -> Outcome {
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
