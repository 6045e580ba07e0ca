//! Norm, rotation and store of rows into each pool.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::kernel::Kernel;

use super::super::bench::{Bench, arg, equal};
use super::rows::{Pool, batches, check_pool, repeated};
use super::{Outcome, case};
use crate::conformance::{Case, Size};
use crate::dims::DimensionError;
use crate::dsv4;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};
use crate::reference;
use crate::rope::Rope;

pub(super) const CASES: &[Case] = &[
    case!(store_latent),
    case!(store_index_key),
    case!(store_index_key_fp8),
];

/// Positions of the table.
const ROPE_ROWS: u32 = 300;
const EPSILON: f32 = 1e-6;

fn store_latent(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::store_latent as Kernel;
    let window = LatentFp8Pages::window(3)?;
    // As in the model: the latent follows the queries' part of the projection.
    store::<Kernel, _>(bench, size, window, 1024, 1536, Kernel::shape)?;
    store::<Kernel, _>(
        bench,
        size,
        LatentFp8Pages::c128(99)?,
        8,
        528,
        Kernel::shape,
    )
}

fn store_index_key(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::store_index_key as Kernel;
    let pages = IndexKeyPages::bf16(128, 4)?;
    store::<Kernel, _>(bench, size, pages, 0, 128, Kernel::shape)
}

fn store_index_key_fp8(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::store_index_key_fp8 as Kernel;
    let pages = IndexKeyFp8Pages::new(128, 4)?;
    store::<Kernel, _>(bench, size, pages, 64, 200, Kernel::shape)
}

type Shape<P> = fn(u32, u32, u32, u32, &P) -> Result<LaunchShape, DimensionError>;

fn store<K: Kernel, P: Pool>(
    bench: &mut Bench<'_>,
    size: Size,
    layout: P,
    first: u32,
    stride: u32,
    shape: Shape<P>,
) -> Outcome {
    let batches = batches(size);
    let most = *batches.last().unwrap_or(&1) as usize;
    let slots = layout.geometry().slots() as i32;
    let table = Rope::COMPRESSED.table(ROPE_ROWS);
    // Groups of very different size, and a row of zeros.
    let x: Vec<bf16> = (0..most * stride as usize)
        .map(|i| {
            let (row, column) = (i / stride as usize, i % stride as usize);
            let factor = match row % 10 {
                8 => 0.0,
                _ => 4_f32.powi((column / 64 % 5) as i32 - 2),
            };
            bf16::from_f32(bench.unit() * factor)
        })
        .collect();
    let norm = bench.floats(P::DIM);
    let positions: Vec<i32> = (0..most)
        .map(|row| match row {
            0 => 0,
            2 => ROPE_ROWS as i32 - 1,
            3 => ROPE_ROWS as i32,
            6 => -1,
            _ => bench.below(ROPE_ROWS) as i32,
        })
        .collect();
    let out_loc: Vec<i32> = (0..most as i32)
        .map(|row| match row % 11 {
            1 => 0,
            4 => slots,
            7 => -1,
            _ => 1 + (row * 3) % (slots - 1),
        })
        .collect();
    let pool = bench.bytes(layout.geometry().pool_bytes() as usize);
    let inputs = [
        arg(bench.upload(&x)?),
        arg(bench.upload(&norm)?),
        arg(bench.upload(&table)?),
        arg(bench.upload(&positions)?),
        arg(bench.upload(&out_loc)?),
    ];
    let (pool_at, faults_at) = (bench.upload(&pool)?, bench.upload(&[0_u32])?);

    // What each row becomes, and the faults up to it.
    let mut rows = Vec::new();
    let mut faults = 0;
    for token in 0..most {
        let slot = out_loc[token];
        let outside = layout.geometry().value_offset(slot).is_none();
        let stored = slot != 0 && !outside;
        faults += u32::from(outside);
        faults += u32::from(stored && !(0..ROPE_ROWS as i32).contains(&positions[token]));
        let row = stored.then(|| {
            let at = token * stride as usize + first as usize;
            let row: Vec<f64> = x[at..at + P::DIM].iter().map(|v| v.to_f64()).collect();
            let mut row = reference::weighted_rms_norm(&row, &norm, EPSILON);
            let angles = reference::angles(&table, positions[token]);
            reference::rotate(&mut row, angles, false);
            P::last_step(&mut row);
            (slot, row)
        });
        rows.push((row, faults));
    }

    let run = |bench: &mut Bench<'_>, tokens: u32| {
        bench.overwrite(pool_at, &pool)?;
        let mut args = inputs.to_vec();
        args.extend([
            arg(pool_at),
            arg(faults_at),
            arg(layout),
            arg(tokens),
            arg(stride),
            arg(first),
            arg(ROPE_ROWS),
            arg(EPSILON),
        ]);
        bench.launch::<K>(shape(tokens, stride, first, ROPE_ROWS, &layout)?, args)?;
        bench.download::<u8>(pool_at, pool.len())
    };
    for &tokens in &batches {
        bench.overwrite(faults_at, &[0_u32])?;
        let after = run(bench, tokens)?;
        let rows = &rows[..tokens as usize];
        let counted = rows.last().map_or(0, |(_, faults)| *faults);
        equal(&bench.download::<u32>(faults_at, 1)?, &[counted])?;
        let stored: Vec<_> = rows.iter().filter_map(|(row, _)| row.clone()).collect();
        check_pool(&layout, &pool, after, &stored)?;
    }
    repeated(bench, |bench| run(bench, most as u32)).map(drop)
}
