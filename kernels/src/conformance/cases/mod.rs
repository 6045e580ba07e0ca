//! The cases, in one file for each part of a layer.
//!
//! Each file lists its own in `CASES`; what several files need of random
//! inputs is here.

mod attention;
mod compressors;
mod glue;
mod keys;
mod logits;
mod metadata;
mod projections;
mod quantisers;
mod queries;
mod rows;
mod selection;
mod stores;
mod tokens;

use super::bench::Bench;
use super::{Case, Failure, Size};

type Outcome = Result<(), Failure>;

/// The tolerance for results in bf16.
const HALF: f64 = 1e-2;
/// The tolerance for results in f32.
const SINGLE: f64 = 2e-3;
/// Pages of a pool beyond those of one sequence, so that tables are not trivial.
const SPARE_PAGES: u32 = 7;

/// All cases.
pub(super) fn all() -> Vec<Case> {
    [
        projections::CASES,
        keys::CASES,
        logits::CASES,
        selection::CASES,
        attention::CASES,
        glue::CASES,
        quantisers::CASES,
        queries::CASES,
        stores::CASES,
        compressors::CASES,
        metadata::CASES,
        tokens::CASES,
    ]
    .concat()
}

/// A [`Case`] of the name of its function.
macro_rules! case {
    ($name:ident) => {
        crate::conformance::Case {
            name: stringify!($name),
            body: $name,
        }
    };
}
use case;

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

/// Batches of which every case that sweeps them takes all: each size of the
/// decode buckets and between, on a small model fewer.
fn batches(size: Size) -> Vec<u32> {
    match stretched(size) {
        ..=65_536 => vec![1, 2, 7, 64],
        _ => (1..=64).collect(),
    }
}

/// Lengths around the borders of the model, one for each token.
fn border(token: u32, entries: u32) -> i32 {
    let borders = [
        0, 1, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 511, 512, 513,
    ];
    borders[token as usize % borders.len()].min(entries as i32)
}

/// Entries of a row that is long for a model: 262,144 for the real one, which
/// has 16,384 otherwise.
fn stretched(size: Size) -> u32 {
    16 * size.entries
}
