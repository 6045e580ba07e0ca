//! Norm and rotation of heads, and the indexer's queries.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, equal, widen};
use super::rows::{batches, check_bf16, check_e4m3, repeated};
use super::{HALF, Outcome, case};
use crate::conformance::{Case, Failure, Size};
use crate::dsv4;
use crate::reference;
use crate::rope::{ROPE_DIM, Rope};

pub(super) const CASES: &[Case] = &[
    case!(norm_rope_heads),
    case!(rope_heads),
    case!(index_query),
    case!(index_query_fp8),
];

/// Positions of the table.
const ROPE_ROWS: u32 = 300;
const EPSILON: f32 = 1e-6;

/// Positions of a batch, some outside the table.
struct Positions {
    table: Vec<f32>,
    table_at: u64,
    positions: Vec<i32>,
    positions_at: u64,
    faults_at: u64,
}

impl Positions {
    fn new(bench: &mut Bench<'_>, tokens: u32) -> Result<Self, Failure> {
        let table = Rope::WINDOW.table(ROPE_ROWS);
        let positions: Vec<i32> = (0..tokens)
            .map(|token| match token {
                0 => 0,
                1 => ROPE_ROWS as i32 - 1,
                2 => ROPE_ROWS as i32,
                5 => -1,
                7 => i32::MAX,
                _ => bench.below(ROPE_ROWS) as i32,
            })
            .collect();
        Ok(Self {
            table_at: bench.upload(&table)?,
            table,
            positions_at: bench.upload(&positions)?,
            positions,
            faults_at: bench.upload(&[0_u32])?,
        })
    }

    fn angles(&self, token: usize) -> &[f32] {
        reference::angles(&self.table, self.positions[token])
    }

    /// Refuses another number of faults than `launches` launches over `tokens`
    /// tokens count, and begins again.
    fn check_faults(&self, bench: &Bench<'_>, tokens: u32, launches: u32) -> Outcome {
        let outside = self.positions[..tokens as usize]
            .iter()
            .filter(|&&position| !(0..ROPE_ROWS as i32).contains(&position))
            .count() as u32;
        equal(
            &bench.download::<u32>(self.faults_at, 1)?,
            &[outside * launches],
        )?;
        bench.overwrite(self.faults_at, &[0_u32])
    }
}

fn most(size: Size) -> u32 {
    batches(size).last().copied().unwrap_or(1)
}

fn wide(row: &[bf16]) -> Vec<f64> {
    row.iter().map(|v| v.to_f64()).collect()
}

fn norm_rope_heads(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let (heads, dim) = (size.heads, dsv4::HEAD_DIM as usize);
    let positions = Positions::new(bench, most(size))?;
    let per_token = heads as usize * dim;
    let q = bench.halves(most(size) as usize * per_token);
    let expected: Vec<f64> = q
        .chunks_exact(dim)
        .enumerate()
        .flat_map(|(row, values)| {
            let mut values = reference::rms_norm(&wide(values), EPSILON);
            reference::rotate(&mut values, positions.angles(row / heads as usize), false);
            values
        })
        .collect();
    let q_at = bench.upload(&q)?;
    let run = |bench: &mut Bench<'_>, tokens: u32| {
        let count = tokens as usize * per_token;
        bench.overwrite(q_at, &q)?;
        bench.launch::<dsv4::norm_rope_heads>(
            dsv4::norm_rope_heads::shape(tokens, heads, ROPE_ROWS)?,
            vec![
                arg(q_at),
                arg(positions.table_at),
                arg(positions.positions_at),
                arg(positions.faults_at),
                arg(tokens),
                arg(heads),
                arg(ROPE_ROWS),
                arg(EPSILON),
            ],
        )?;
        let out = bench.download::<bf16>(q_at, q.len())?;
        equal(&out[count..], &q[count..])?;
        Ok(out[..count].to_vec())
    };
    for tokens in batches(size) {
        let out = run(bench, tokens)?;
        positions.check_faults(bench, tokens, 1)?;
        close_to(&widen(&out), &expected[..out.len()], HALF)?;
    }
    let out = repeated(bench, |bench| run(bench, most(size)))?;
    for (out, expected) in out.chunks_exact(dim).zip(expected.chunks_exact(dim)) {
        check_bf16(out, expected)?;
    }
    Ok(())
}

fn rope_heads(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let heads = size.heads;
    let positions = Positions::new(bench, most(size))?;
    for (dim, inverse) in [(ROPE_DIM, 0), (ROPE_DIM, 1), (512, 0), (512, 1), (72, 1)] {
        let per_token = (heads * dim) as usize;
        let x = bench.halves(most(size) as usize * per_token);
        let x_at = bench.upload(&x)?;
        // A few batches: the rows are independent, and these five are many.
        for tokens in [1, most(size) / 2 + 1, most(size)] {
            bench.overwrite(x_at, &x)?;
            bench.launch::<dsv4::rope_heads>(
                dsv4::rope_heads::shape(tokens, heads, dim, ROPE_ROWS)?,
                vec![
                    arg(x_at),
                    arg(positions.table_at),
                    arg(positions.positions_at),
                    arg(positions.faults_at),
                    arg(tokens),
                    arg(heads),
                    arg(dim),
                    arg(ROPE_ROWS),
                    arg(inverse),
                ],
            )?;
            positions.check_faults(bench, tokens, 1)?;
            let out = bench.download::<bf16>(x_at, x.len())?;
            let count = tokens as usize * per_token;
            equal(&out[count..], &x[count..])?;
            let kept = (dim - ROPE_DIM) as usize;
            for (row, (out, x)) in out[..count]
                .chunks_exact(dim as usize)
                .zip(x.chunks_exact(dim as usize))
                .enumerate()
            {
                equal(&out[..kept], &x[..kept])?;
                let mut expected = wide(&x[kept..]);
                let angles = positions.angles(row / heads as usize);
                reference::rotate(&mut expected, angles, inverse == 1);
                check_bf16(&out[kept..], &expected)?;
            }
        }
    }
    Ok(())
}

/// Inputs of the preparation of queries and what becomes of them.
struct Prepared {
    positions: Positions,
    inputs: [u64; 2],
    heads: u32,
    scale: f32,
    rows: Vec<Vec<f64>>,
    weights: Vec<f32>,
}

impl Prepared {
    fn new(bench: &mut Bench<'_>, size: Size) -> Result<Self, Failure> {
        let heads = size.index_heads;
        let dim = dsv4::INDEX_DIM as usize;
        let positions = Positions::new(bench, most(size))?;
        let q = bench.halves((most(size) * heads) as usize * dim);
        let projected = bench.floats((most(size) * heads) as usize);
        let rows = q
            .chunks_exact(dim)
            .enumerate()
            .map(|(row, values)| {
                let mut values = wide(values);
                reference::rotate(&mut values, positions.angles(row / heads as usize), false);
                reference::hadamard(&mut values);
                values
            })
            .collect();
        let scale = dsv4::index_weights::scale(dsv4::INDEX_DIM, heads);
        Ok(Self {
            inputs: [bench.upload(&q)?, bench.upload(&projected)?],
            positions,
            heads,
            scale,
            rows,
            weights: projected.iter().map(|v| v * scale).collect(),
        })
    }

    fn args(&self, query: u64, weights: u64, tokens: u32) -> Vec<Vec<u8>> {
        let [q, projected] = self.inputs;
        let positions = &self.positions;
        vec![
            arg(q),
            arg(projected),
            arg(positions.table_at),
            arg(positions.positions_at),
            arg(query),
            arg(weights),
            arg(positions.faults_at),
            arg(tokens),
            arg(self.heads),
            arg(ROPE_ROWS),
            arg(self.scale),
        ]
    }
}

fn index_query(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let prepared = Prepared::new(bench, size)?;
    let dim = dsv4::INDEX_DIM as usize;
    for tokens in batches(size) {
        let rows = (tokens * prepared.heads) as usize;
        let weights_at = bench.output::<f32>(rows)?;
        let shape = dsv4::index_query::shape(tokens, prepared.heads, ROPE_ROWS)?;
        let query: Vec<bf16> = bench.twice::<dsv4::index_query, _>(shape, rows * dim, |query| {
            prepared.args(query, weights_at, tokens)
        })?;
        prepared.positions.check_faults(bench, tokens, 2)?;
        equal(
            &bench.download::<f32>(weights_at, rows)?,
            &prepared.weights[..rows],
        )?;
        for (query, row) in query.chunks_exact(dim).zip(&prepared.rows) {
            check_bf16(query, row)?;
        }
    }
    Ok(())
}

fn index_query_fp8(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let prepared = Prepared::new(bench, size)?;
    let dim = dsv4::INDEX_DIM as usize;
    for tokens in batches(size) {
        let rows = (tokens * prepared.heads) as usize;
        let weights_at = bench.output::<f32>(rows)?;
        let shape = dsv4::index_query_fp8::shape(tokens, prepared.heads, ROPE_ROWS)?;
        let query: Vec<u8> =
            bench.twice::<dsv4::index_query_fp8, _>(shape, rows * dim, |query| {
                prepared.args(query, weights_at, tokens)
            })?;
        prepared.positions.check_faults(bench, tokens, 2)?;
        let weights = bench.download::<f32>(weights_at, rows)?;
        for (at, (query, row)) in query.chunks_exact(dim).zip(&prepared.rows).enumerate() {
            let most = row.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
            let scale = f64::from(reference::e4m3_scale(most as f32));
            check_e4m3(query, scale, row)?;
            let expected = f64::from(prepared.weights[at]) * scale;
            close_to(&[weights[at].into()], &[expected], 1e-5)?;
        }
    }
    Ok(())
}
