//! Metadata of a step.

use super::super::bench::{Bench, arg, equal};
use super::rows::batches;
use super::{Outcome, case};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::layout::LatentFp8Pages;
use crate::reference::{self, StepMetadata, WINDOW};

pub(super) const CASES: &[Case] = &[case!(decode_metadata), case!(window_slots)];

/// Lengths around every border.
const LENGTHS: [i32; 26] = [
    1,
    0,
    256,
    3,
    4,
    -5,
    5,
    127,
    128,
    129,
    255,
    257,
    511,
    512,
    513,
    65_535,
    65_536,
    65_537,
    262_143,
    262_144,
    1_048_575,
    1_048_576,
    1_048_577,
    i32::MAX,
    i32::MIN,
    2,
];

fn lengths(bench: &mut Bench<'_>, tokens: u32) -> Vec<i32> {
    (0..tokens as usize)
        .map(|token| match LENGTHS.get(token) {
            Some(&len) => len,
            None => bench.below(1 << 20) as i32,
        })
        .collect()
}

fn decode_metadata(bench: &mut Bench<'_>, size: Size) -> Outcome {
    // Rows that reach a million tokens, and short ones.
    for table_stride in [4096, 3] {
        for tokens in batches(size) {
            let pages = 5_000;
            let lens = lengths(bench, tokens);
            let table: Vec<i32> = (0..tokens * table_stride)
                .map(|i| match i % 97 {
                    13 => 0,
                    29 => pages as i32,
                    31 => -1,
                    _ => bench.below(pages) as i32,
                })
                .collect();
            let inputs = [bench.upload(&lens)?, bench.upload(&table)?];
            let mut outputs = [0; 7];
            for output in &mut outputs {
                *output = bench.output::<i32>(tokens as usize)?;
            }
            let faults_at = bench.upload(&[0_u32])?;
            let mut args: Vec<Vec<u8>> = [&inputs[..], &outputs, &[faults_at]]
                .concat()
                .into_iter()
                .map(arg)
                .collect();
            args.extend([tokens, table_stride, pages].map(arg));
            let shape = dsv4::decode_metadata::shape(tokens, table_stride, pages)?;
            bench.launch::<dsv4::decode_metadata>(shape, args)?;

            let (rows, faults): (Vec<StepMetadata>, Vec<bool>) = lens
                .iter()
                .zip(table.chunks_exact(table_stride as usize))
                .map(|(&len, table)| reference::step_metadata(len, table, pages))
                .unzip();
            let of = |field: fn(&StepMetadata) -> i32| rows.iter().map(field).collect::<Vec<_>>();
            let expected = [
                of(|row| row.position),
                of(|row| row.window_len),
                of(|row| row.c4_len),
                of(|row| row.c128_len),
                of(|row| row.out_loc),
                of(|row| row.c4_out_loc),
                of(|row| row.c128_out_loc),
            ];
            for (output, expected) in outputs.into_iter().zip(expected) {
                equal(&bench.download::<i32>(output, tokens as usize)?, &expected)?;
            }
            let counted = faults.into_iter().filter(|&fault| fault).count() as u32;
            equal(&bench.download::<u32>(faults_at, 1)?, &[counted])?;
        }
    }
    Ok(())
}

fn window_slots(bench: &mut Bench<'_>, size: Size) -> Outcome {
    for (layout, table_stride) in [
        (LatentFp8Pages::window(40)?, 2),
        (LatentFp8Pages::window(40)?, 5),
        (LatentFp8Pages::c4(300)?, 3),
    ] {
        for tokens in batches(size) {
            let lens = lengths(bench, tokens);
            let pages = layout.layout().pages();
            let table: Vec<i32> = (0..tokens * table_stride)
                .map(|i| match i % 17 {
                    9 => 0,
                    11 => pages as i32,
                    13 => -1,
                    _ => bench.below(pages) as i32,
                })
                .collect();
            let (lens_at, table_at) = (bench.upload(&lens)?, bench.upload(&table)?);
            let out_loc_at = bench.output::<i32>(tokens as usize)?;
            let faults_at = bench.upload(&[0_u32])?;
            let count = (tokens * WINDOW) as usize;
            let shape = dsv4::window_slots::shape(tokens, table_stride, &layout)?;
            let slots: Vec<i32> = bench.twice::<dsv4::window_slots, _>(shape, count, |slots| {
                let mut args = [lens_at, table_at, out_loc_at, slots, faults_at]
                    .map(arg)
                    .to_vec();
                args.extend([arg(layout), arg(tokens), arg(table_stride)]);
                args
            })?;
            let out_loc = bench.download::<i32>(out_loc_at, tokens as usize)?;
            let mut faults = 0;
            for (token, table) in table.chunks_exact(table_stride as usize).enumerate() {
                let window = reference::window(lens[token].max(0) as u32, table, layout.layout());
                let mut expected: Vec<i32> = window.iter().map(|&(slot, _)| slot).collect();
                expected.resize(WINDOW as usize, -1);
                equal(
                    &slots[token * WINDOW as usize..][..WINDOW as usize],
                    &expected,
                )?;
                let own = window.last().copied();
                faults += u32::from(own.is_some_and(|(_, held)| !held));
                let first = layout.layout().tokens_per_page() as i32;
                let own = own.filter(|&(slot, held)| held && slot >= first);
                equal(&[out_loc[token]], &[own.map_or(0, |(slot, _)| slot)])?;
            }
            equal(&bench.download::<u32>(faults_at, 1)?, &[2 * faults])?;
        }
    }
    Ok(())
}
