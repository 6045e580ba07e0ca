//! The quantisers and the Hadamard transform, each alone.

use half::bf16;

use super::super::bench::{Bench, arg, equal};
use super::rows::{batches, check_bf16};
use super::{Outcome, case};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::LatentFp8Pages;
use crate::reference;

pub(super) const CASES: &[Case] = &[
    case!(hadamard),
    case!(e4m3_of_all_numbers),
    case!(e4m3_rows),
    case!(latent_rows),
];

const DIM: usize = 128;

fn hadamard(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let most = *batches(size).last().unwrap_or(&1);
    let x = bench.halves(most as usize * DIM);
    let x_at = bench.upload(&x)?;
    for rows in batches(size) {
        let count = rows as usize * DIM;
        let shape = dsv4::testing::hadamard_rows::shape(rows)?;
        let out: Vec<bf16> =
            bench.twice::<dsv4::testing::hadamard_rows, _>(shape, count, |out| {
                vec![arg(x_at), arg(out), arg(rows)]
            })?;
        for (out, x) in out.chunks_exact(DIM).zip(x.chunks_exact(DIM)) {
            let mut row: Vec<f64> = x.iter().map(|v| v.to_f64()).collect();
            reference::hadamard(&mut row);
            check_bf16(out, &row)?;
        }
    }
    Ok(())
}

/// Rows of floats of all kinds: of any exponent and sign, on and beside the
/// borders between codes, zeros, subnormals, infinities, what is not a number.
fn floats_of_all_kinds(bench: &mut Bench<'_>, rows: usize, dim: usize) -> Vec<f32> {
    let odd = [
        0.0,
        -0.0,
        f32::MIN_POSITIVE / 4.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        f32::MAX,
    ];
    (0..rows * dim)
        .map(|i| match i / dim % 6 {
            // Multiples of a half step of e4m3, most of them ties.
            0 => (bench.below(2 * 448 * 16) as f32 - 448.0 * 16.0) / 16.0,
            1 => f32::from_bits(0x3000_0000 + bench.below(0x2000_0000)),
            2 => bench.unit() * 1e-4,
            3 => 448.0 * 2_f32.powi(bench.below(12) as i32 - 6) * bench.unit().signum(),
            4 if bench.below(20) == 0 => odd[bench.below(odd.len() as u32) as usize],
            4 => bench.unit() * 3e4,
            _ => 0.0,
        })
        .collect()
}

fn e4m3(bench: &mut Bench<'_>, x: &[f32]) -> Outcome {
    let rows = (x.len() / DIM) as u32;
    let x_at = bench.upload(x)?;
    let values_at = bench.output::<u8>(x.len())?;
    let shape = dsv4::testing::quantise_e4m3::shape(rows)?;
    let scales: Vec<f32> =
        bench.twice::<dsv4::testing::quantise_e4m3, _>(shape, rows as usize, |scales| {
            vec![arg(x_at), arg(values_at), arg(scales), arg(rows)]
        })?;
    let values = bench.download::<u8>(values_at, x.len())?;
    for (row, x) in x.chunks_exact(DIM).enumerate() {
        let (codes, scale) = reference::quantise_e4m3(x);
        // By bits: the scale of an infinite row is no number to compare.
        equal(&[scales[row].to_bits()], &[scale.to_bits()])?;
        equal(&values[row * DIM..][..DIM], &codes)?;
    }
    Ok(())
}

fn e4m3_of_all_numbers(bench: &mut Bench<'_>, _: Size) -> Outcome {
    // With a scale of one: each code's value, the middles between neighbours,
    // and the floats next to those.
    let mut x = Vec::new();
    for code in 0..0x7e_u8 {
        let (low, high) = (reference::from_e4m3(code), reference::from_e4m3(code + 1));
        let middle = (low + high) / 2.0;
        for value in [low, middle, middle.next_up(), middle.next_down()] {
            x.extend([value, -value]);
        }
    }
    // A row of 128 needs its 448.
    let rows: Vec<f32> = x
        .chunks(DIM - 1)
        .flat_map(|part| {
            let mut row = part.to_vec();
            row.resize(DIM, 448.0);
            row
        })
        .collect();
    e4m3(bench, &rows)
}

fn e4m3_rows(bench: &mut Bench<'_>, size: Size) -> Outcome {
    for rows in batches(size) {
        let x = floats_of_all_kinds(bench, rows as usize, DIM);
        e4m3(bench, &x)?;
    }
    Ok(())
}

fn latent_rows(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let dim = LatentFp8Pages::DIM as usize;
    for layout in [
        LatentFp8Pages::window(3)?,
        LatentFp8Pages::c4(4)?,
        LatentFp8Pages::c128(90)?,
    ] {
        let geometry = layout.layout();
        let slots = geometry.slots() as i32;
        for rows in batches(size) {
            let x = floats_of_all_kinds(bench, rows as usize, dim);
            let out_loc: Vec<i32> = (0..rows as i32)
                .map(|row| match row % 9 {
                    3 => 0,
                    5 => slots,
                    7 => i32::MIN,
                    _ => 1 + (row * 2) % (slots - 1),
                })
                .collect();
            let pool = bench.bytes(geometry.pool_bytes() as usize);
            let (x_at, out_loc_at) = (bench.upload(&x)?, bench.upload(&out_loc)?);
            let (pool_at, faults_at) = (bench.upload(&pool)?, bench.upload(&[0_u32])?);
            bench.launch::<dsv4::testing::quantise_latent>(
                dsv4::testing::quantise_latent::shape(rows)?,
                vec![
                    arg(x_at),
                    arg(out_loc_at),
                    arg(pool_at),
                    arg(faults_at),
                    arg(layout),
                    arg(rows),
                ],
            )?;
            let mut expected = pool;
            let mut faults = 0;
            for (row, &slot) in x.chunks_exact(dim).zip(&out_loc) {
                let (Some(values), Some(scales)) =
                    (geometry.value_offset(slot), geometry.scale_position(slot))
                else {
                    faults += 1;
                    continue;
                };
                if slot > 0 {
                    let stored = reference::stored_latent(row);
                    expected[values as usize..][..stored.values.len()]
                        .copy_from_slice(&stored.values);
                    expected[scales as usize..][..stored.scales.len()]
                        .copy_from_slice(&stored.scales);
                }
            }
            equal(&bench.download::<u32>(faults_at, 1)?, &[faults])?;
            equal(&bench.download::<u8>(pool_at, expected.len())?, &expected)?;
        }
    }
    Ok(())
}
