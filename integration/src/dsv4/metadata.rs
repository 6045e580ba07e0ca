//! Positions, lengths and places of a step's tokens, computed in the graph.

use streamweir::kernels::dsv4::{check_page_table, decode_metadata, window_slots};
use streamweir::{Scratch, Stream};

use super::config::{WINDOW, WINDOW_PAGES};
use super::error::Error;
use super::model::Model;

/// Scratch of the main stream that lives through the whole step.
pub(super) struct Metadata {
    pub(super) positions: Scratch<i32>,
    pub(super) c4_lens: Scratch<i32>,
    pub(super) c128_lens: Scratch<i32>,
    pub(super) c4_out_loc: Scratch<i32>,
    pub(super) c128_out_loc: Scratch<i32>,
    pub(super) window_out_loc: Scratch<i32>,
    pub(super) window_slots: Scratch<i32>,
}

impl Metadata {
    pub(super) fn record(model: &Model, main: &Stream, rows: u32) -> Result<Self, Error> {
        let main = &main.scope("metadata");
        let each = |name: &'static str| main.scratch::<i32>(name, rows as usize);
        let stride = model.config.table_stride();
        let pages = model.geometry.pages;
        let seq_lens = model.inputs.seq_lens(rows)?;
        let [positions, window_lens, c4_lens, c128_lens] = [
            each("positions")?,
            each("window lengths")?,
            each("c4 lengths")?,
            each("c128 lengths")?,
        ];
        let [out_loc, c4_out_loc, c128_out_loc] =
            [each("out loc")?, each("c4 out loc")?, each("c128 out loc")?];
        main.launch(
            &model.kernels.metadata,
            decode_metadata {
                seq_lens: &seq_lens,
                page_table: &model.inputs.page_table(rows)?,
                positions: &positions,
                window_lens: &window_lens,
                c4_lens: &c4_lens,
                c128_lens: &c128_lens,
                out_loc: &out_loc,
                c4_out_loc: &c4_out_loc,
                c128_out_loc: &c128_out_loc,
                faults: &model.faults,
                tokens: rows,
                table_stride: stride,
                pages,
            },
        )?;
        // Every kernel replaces an id that the pools do not have by page 0; here
        // they are counted, once for all layers.
        let tokens_per_page = model.geometry.c4.layout().tokens_per_page();
        main.launch(
            &model.kernels.check_pages,
            check_page_table {
                page_table: &model.inputs.page_table(rows)?,
                lens: &c4_lens,
                found: &model.page_faults,
                tokens: rows,
                table_stride: stride,
                tokens_per_page,
                pages,
            },
        )?;
        let window_out_loc = each("window out loc")?;
        let window_slots = main.scratch::<i32>("window slots", (rows * WINDOW) as usize)?;
        let pages = model.geometry.window;
        main.launch(
            &model.kernels.window_slots,
            window_slots {
                seq_lens: &seq_lens,
                window_table: &model.inputs.window_table(rows)?,
                out_loc: &window_out_loc,
                slots: &window_slots,
                faults: &model.faults,
                layout: pages,
                tokens: rows,
                table_stride: WINDOW_PAGES,
            },
        )?;
        Ok(Self {
            positions,
            c4_lens,
            c128_lens,
            c4_out_loc,
            c128_out_loc,
            window_out_loc,
            window_slots,
        })
    }
}
