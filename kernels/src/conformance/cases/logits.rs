//! Logits of the indexer.

use half::bf16;
use streamweir_sched::driver::LaunchShape;

use super::super::bench::{Bench, arg, close_to, equal};
use super::{
    Outcome, SINGLE, SPARE_PAGES, batches, border, case, lengths, page_table, pages_for, stretched,
};
use crate::conformance::{Case, Failure, Size};
use crate::dsv4;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages};
use crate::reference;

pub(super) const CASES: &[Case] = &[
    case!(indexer_logits),
    case!(indexer_logits_of_any_batch),
    case!(indexer_logits_of_long_rows),
    case!(indexer_logits_fp8),
    case!(indexer_logits_fp8_of_any_batch),
    case!(indexer_logits_fp8_of_long_rows),
];

/// Entries of a row, its first and last among them, that are compared with the
/// reference where it would be too slow to compute all.
const SAMPLED: u32 = 6;

fn indexer_logits(bench: &mut Bench<'_>, size: Size) -> Outcome {
    all_entries(bench, size, Format::Bf16)
}

fn indexer_logits_of_any_batch(bench: &mut Bench<'_>, size: Size) -> Outcome {
    any_batch(bench, size, Format::Bf16)
}

fn indexer_logits_of_long_rows(bench: &mut Bench<'_>, size: Size) -> Outcome {
    long_rows(bench, size, Format::Bf16)
}

fn indexer_logits_fp8(bench: &mut Bench<'_>, size: Size) -> Outcome {
    all_entries(bench, size, Format::Fp8)
}

fn indexer_logits_fp8_of_any_batch(bench: &mut Bench<'_>, size: Size) -> Outcome {
    any_batch(bench, size, Format::Fp8)
}

fn indexer_logits_fp8_of_long_rows(bench: &mut Bench<'_>, size: Size) -> Outcome {
    long_rows(bench, size, Format::Fp8)
}

fn all_entries(bench: &mut Bench<'_>, size: Size, format: Format) -> Outcome {
    let lens = lengths(bench, size);
    compare(bench, size, format, &lens, u32::MAX)
}

fn any_batch(bench: &mut Bench<'_>, size: Size, format: Format) -> Outcome {
    for tokens in batches(size) {
        let entries = 515;
        let size = Size {
            tokens,
            entries,
            ..size
        };
        let lens: Vec<i32> = (0..tokens).map(|token| border(token, entries)).collect();
        compare(bench, size, format, &lens, SAMPLED)?;
    }
    Ok(())
}

fn long_rows(bench: &mut Bench<'_>, size: Size, format: Format) -> Outcome {
    let entries = stretched(size);
    let all = entries as i32;
    let lens = [all, all / 4, 0, all - 1];
    let size = Size {
        tokens: lens.len() as u32,
        entries,
        ..size
    };
    compare(bench, size, format, &lens, SAMPLED)
}

/// Compares the logits of random queries and keys with the reference, at most
/// `samples` of a row, and a grid of another size with the usual one.
fn compare(
    bench: &mut Bench<'_>,
    size: Size,
    format: Format,
    lens: &[i32],
    samples: u32,
) -> Outcome {
    let keys = Keys::random(bench, size, format)?;
    let weights = bench.floats((size.tokens * size.index_heads) as usize);
    let (table, stride) = (page_table(bench, size), pages_for(size.entries));
    let (q, pool) = keys.upload(bench)?;
    let inputs = [
        arg(q),
        arg(bench.upload(&weights)?),
        arg(pool),
        arg(bench.upload(&table)?),
        arg(bench.upload(lens)?),
    ];
    let sizes = [
        keys.layout(),
        arg(size.tokens),
        arg(size.index_heads),
        arg(stride),
        arg(size.entries),
    ];
    let shape = keys.shape(size, stride)?;
    let run = |bench: &mut Bench<'_>, shape: LaunchShape, runs: usize| {
        let count = (size.tokens * size.entries) as usize;
        bench.repeat::<f32>(runs, count, |bench, logits| {
            let args = [&inputs[..], &[arg(logits)], &sizes[..]].concat();
            match format {
                Format::Bf16 => bench.launch::<dsv4::indexer_logits>(shape, args),
                Format::Fp8 => bench.launch::<dsv4::indexer_logits_fp8>(shape, args),
            }
        })
    };
    let runs = bench.runs();
    let logits = run(bench, shape, runs)?;
    let mut other = shape;
    other.grid[0] = 1 + bench.below(2 * shape.grid[0]);
    equal(&run(bench, other, 1)?, &logits)?;

    let heads = size.index_heads as usize;
    let (mut actual, mut expected) = (Vec::new(), Vec::new());
    for (token, &len) in lens.iter().enumerate() {
        let row = &logits[token * size.entries as usize..][..size.entries as usize];
        let len = (len.max(0) as u32).min(size.entries);
        for (entry, &logit) in row.iter().enumerate() {
            let inside = (entry as u32) < len;
            if logit.is_finite() != inside || logit.is_nan() || logit == f32::INFINITY {
                return Err(Failure::new(format!(
                    "token {token} of length {len}: entry {entry} is {logit}"
                )));
            }
        }
        let weights = &weights[token * heads..][..heads];
        let table = &table[token * stride as usize..][..stride as usize];
        for sample in 0..len.min(samples) {
            let entry = match sample {
                _ if len <= samples => sample,
                0 => 0,
                1 => len - 1,
                _ => bench.below(len),
            };
            actual.push(f64::from(row[entry as usize]));
            expected.push(keys.logit(token, weights, table, entry));
        }
    }
    close_to(&actual, &expected, SINGLE)
}

/// Of queries and keys.
#[derive(Clone, Copy)]
enum Format {
    Bf16,
    Fp8,
}

/// Random queries, and a pool of random keys.
enum Keys {
    Bf16 {
        layout: IndexKeyPages,
        q: Vec<bf16>,
        pool: Vec<bf16>,
    },
    Fp8 {
        layout: IndexKeyFp8Pages,
        q: Vec<u8>,
        pool: Vec<u8>,
    },
}

impl Keys {
    fn random(bench: &mut Bench<'_>, size: Size, format: Format) -> Result<Self, Failure> {
        let pages = pages_for(size.entries).min(200) + SPARE_PAGES;
        let rows = (size.tokens * size.index_heads) as usize;
        match format {
            Format::Bf16 => {
                let layout = IndexKeyPages::bf16(size.index_dim, pages)?;
                Ok(Self::Bf16 {
                    layout,
                    q: bench.halves(rows * size.index_dim as usize),
                    pool: bench.halves((layout.layout().pool_bytes() / 2) as usize),
                })
            }
            Format::Fp8 => {
                // Rows of whole 16-byte words.
                let dim = size.index_dim.next_multiple_of(16);
                let layout = IndexKeyFp8Pages::new(dim, pages)?;
                let geometry = layout.layout();
                let mut pool = codes(bench, geometry.pool_bytes() as usize);
                for slot in 0..geometry.slots() as i32 {
                    let scale = 1.5 + bench.unit();
                    let at = geometry.scale_position(slot).unwrap_or(0) as usize;
                    pool[at..at + 4].copy_from_slice(&scale.to_le_bytes());
                }
                Ok(Self::Fp8 {
                    layout,
                    q: codes(bench, rows * dim as usize),
                    pool,
                })
            }
        }
    }

    fn upload(&self, bench: &mut Bench<'_>) -> Result<(u64, u64), Failure> {
        Ok(match self {
            Self::Bf16 { q, pool, .. } => (bench.upload(q)?, bench.upload(pool)?),
            Self::Fp8 { q, pool, .. } => (bench.upload(q)?, bench.upload(pool)?),
        })
    }

    fn layout(&self) -> Vec<u8> {
        match self {
            Self::Bf16 { layout, .. } => arg(*layout),
            Self::Fp8 { layout, .. } => arg(*layout),
        }
    }

    fn shape(&self, size: Size, stride: u32) -> Result<LaunchShape, Failure> {
        let (tokens, heads, entries) = (size.tokens, size.index_heads, size.entries);
        Ok(match self {
            Self::Bf16 { layout, .. } => {
                dsv4::indexer_logits::shape(tokens, heads, stride, entries, layout)?
            }
            Self::Fp8 { layout, .. } => {
                dsv4::indexer_logits_fp8::shape(tokens, heads, stride, entries, layout)?
            }
        })
    }

    /// The reference.
    fn logit(&self, token: usize, weights: &[f32], table: &[i32], entry: u32) -> f64 {
        match self {
            Self::Bf16 { layout, q, pool } => {
                let dim = layout.dim() as usize;
                let query = &q[token * weights.len() * dim..][..weights.len() * dim];
                let key = &pool[layout.element(table, entry)..][..dim];
                reference::logit(query, weights, key)
            }
            Self::Fp8 { layout, q, pool } => {
                let dim = layout.dim() as usize;
                let query = &q[token * weights.len() * dim..][..weights.len() * dim];
                let slot = layout.slot(table, entry);
                let (key, scale) = reference::fp8_key(pool, layout, slot);
                reference::logit_fp8(query, weights, key, scale)
            }
        }
    }
}

/// Patterns of e4m3 numbers.
fn codes(bench: &mut Bench<'_>, count: usize) -> Vec<u8> {
    let mut codes = Vec::with_capacity(count + 8);
    while codes.len() < count {
        codes.extend(bench.next().to_le_bytes());
    }
    codes.truncate(count);
    for code in &mut codes {
        // The one pattern of either sign that is no number.
        if *code & 0x7f == 0x7f {
            *code &= 0x87;
        }
    }
    codes
}
