//! Norms of rows, and the way from tokens to rows and back.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, equal, widen};
use super::rows::batches;
use super::{HALF, Outcome, case};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(rms_norm), case!(embed), case!(argmax)];

const EPSILON: f32 = 1e-6;

fn rms_norm(bench: &mut Bench<'_>, size: Size) -> Outcome {
    // The queries' part of a wider projection, a whole row, and the widest.
    for (width, stride, first) in [
        (1024, 1536, 0),
        (72, 256, 96),
        (size.width, size.width, 0),
        (dsv4::MAX_NORM_WIDTH, dsv4::MAX_NORM_WIDTH, 0),
    ] {
        let most = batches(size).last().copied().unwrap_or(1);
        let x = bench.halves((most * stride) as usize);
        let norm = bench.floats(width as usize);
        let (x_at, norm_at) = (bench.upload(&x)?, bench.upload(&norm)?);
        for tokens in batches(size) {
            let out: Vec<bf16> = bench.twice::<dsv4::rms_norm, _>(
                dsv4::rms_norm::shape(tokens, width, stride, first)?,
                (tokens * width) as usize,
                |out| {
                    let mut args = [x_at, norm_at, out].map(arg).to_vec();
                    args.extend([tokens, width, stride, first].map(arg));
                    args.push(arg(EPSILON));
                    args
                },
            )?;
            for (out, x) in out
                .chunks_exact(width as usize)
                .zip(x.chunks_exact(stride as usize))
            {
                let row: Vec<f64> = x[first as usize..][..width as usize]
                    .iter()
                    .map(|v| v.to_f64())
                    .collect();
                let expected = reference::weighted_rms_norm(&row, &norm, EPSILON);
                close_to(&widen(out), &expected, HALF)?;
            }
        }
    }
    Ok(())
}

fn embed(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let (width, vocabulary) = (size.width as usize, 33);
    let embedding = bench.halves(vocabulary as usize * width);
    let embedding_at = bench.upload(&embedding)?;
    for tokens in batches(size) {
        let ids: Vec<i32> = (0..tokens)
            .map(|token| match token {
                1 => vocabulary as i32,
                3 => -1,
                _ => bench.below(vocabulary) as i32,
            })
            .collect();
        let (ids_at, faults_at) = (bench.upload(&ids)?, bench.upload(&[0_u32])?);
        let x: Vec<bf16> = bench.twice::<dsv4::embed, _>(
            dsv4::embed::shape(tokens, size.width, vocabulary)?,
            tokens as usize * width,
            |x| {
                let mut args = [ids_at, embedding_at, x, faults_at].map(arg).to_vec();
                args.extend([tokens, size.width, vocabulary].map(arg));
                args
            },
        )?;
        let outside = |id: &i32| !(0..vocabulary as i32).contains(id);
        let faults = ids.iter().filter(|id| outside(id)).count() as u32;
        equal(&bench.download::<u32>(faults_at, 1)?, &[2 * faults])?;
        for (x, id) in x.chunks_exact(width).zip(&ids) {
            let row = if outside(id) { 0 } else { *id as usize };
            equal(x, &embedding[row * width..][..width])?;
        }
    }
    Ok(())
}

fn argmax(bench: &mut Bench<'_>, size: Size) -> Outcome {
    let odd = [
        f32::NAN,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        -1.0,
        f32::INFINITY,
        -f32::NAN,
    ];
    for vocabulary in [1, 31, 1025, 8_000] {
        for tokens in batches(size) {
            // Random, with many equals, all equal, odd numbers, none a number.
            let logits: Vec<f32> = (0..tokens * vocabulary)
                .map(|i| match i / vocabulary % 5 {
                    0 => bench.unit(),
                    1 => bench.below(7) as f32 - 3.0,
                    2 => -2.5,
                    3 => odd[bench.below(odd.len() as u32) as usize],
                    _ => f32::NAN,
                })
                .collect();
            let logits_at = bench.upload(&logits)?;
            let ids: Vec<i32> = bench.twice::<dsv4::argmax, _>(
                dsv4::argmax::shape(tokens, vocabulary)?,
                tokens as usize,
                |ids| {
                    let mut args = [logits_at, ids].map(arg).to_vec();
                    args.extend([tokens, vocabulary].map(arg));
                    args
                },
            )?;
            let expected: Vec<i32> = logits
                .chunks_exact(vocabulary as usize)
                .map(|row| reference::argmax(row) as i32)
                .collect();
            equal(&ids, &expected)?;
        }
    }
    Ok(())
}
