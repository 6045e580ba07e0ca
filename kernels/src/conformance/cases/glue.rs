//! The step between layers, and words.

use half::bf16;

use super::super::bench::{Bench, arg, close_to, equal, widen};
use super::{HALF, Outcome, case};
use crate::conformance::{Case, Size};
use crate::dsv4;
use crate::reference;

pub(super) const CASES: &[Case] = &[case!(mix), case!(words), case!(differences), case!(late)];

fn mix(bench: &mut Bench<'_>, size: Size) -> Outcome {
    // More values than columns, and fewer.
    for values in [size.heads * size.dim, size.width / 2 + 1] {
        let x = bench.halves((size.tokens * size.width) as usize);
        let attention = bench.halves((size.tokens * values) as usize);
        let (x_at, attention_at) = (bench.upload(&x)?, bench.upload(&attention)?);
        let next: Vec<bf16> = bench.twice::<dsv4::mix, _>(
            dsv4::mix::shape(size.tokens, size.width, values)?,
            x.len(),
            |next| {
                vec![
                    arg(x_at),
                    arg(attention_at),
                    arg(next),
                    arg(size.tokens),
                    arg(size.width),
                    arg(values),
                ]
            },
        )?;
        let expected = reference::mix(&x, &attention, size.width as usize, values as usize);
        close_to(&widen(&next), &expected, HALF)?;
    }
    Ok(())
}

fn words(bench: &mut Bench<'_>, _: Size) -> Outcome {
    // One word more stays as it was.
    let len = 1_000_u32;
    let data = bench.upload(&vec![7_u32; len as usize + 1])?;
    let value = u32::MAX;
    bench.launch::<dsv4::testing::fill_words>(
        dsv4::testing::fill_words::shape(len)?,
        vec![arg(data), arg(len), arg(value)],
    )?;
    let half = len / 2;
    bench.launch::<dsv4::testing::add_one>(
        dsv4::testing::add_one::shape(half)?,
        vec![arg(data), arg(half)],
    )?;
    let mut expected = vec![value; len as usize + 1];
    expected[..half as usize].fill(0);
    expected[len as usize] = 7;
    equal(&bench.download::<u32>(data, expected.len())?, &expected)
}

/// That a kernel which starts early and does not wait is caught, on a card: it sees
/// no difference, and what it counted is overwritten.
fn late(bench: &mut Bench<'_>, _: Size) -> Outcome {
    let words = 64_u32;
    let left = bench.upload(&vec![1_u32; words as usize])?;
    let right = bench.upload(&vec![2_u32; words as usize])?;
    let found = bench.upload(&[5_u32])?;
    let args = vec![arg(left), arg(right), arg(found), arg(words)];
    let shape = dsv4::count_differences::shape(words)?;
    if !bench.starts_early() {
        return Ok(());
    }
    bench.launch_late::<dsv4::count_differences>(shape, args)?;
    equal(&bench.download::<u32>(found, 1)?, &[5])
}

fn differences(bench: &mut Bench<'_>, _: Size) -> Outcome {
    // Blocks and warps that are full and that are not; the last word but one is
    // compared, the last is not.
    for len in [1_u32, 31, 257, 1_000] {
        let left: Vec<u32> = (0..=len).collect();
        let mut right = left.clone();
        let mut differ = 0;
        for at in (0..len as usize).filter(|at| at % 3 == 0 || *at + 1 == len as usize) {
            right[at] ^= 1 << (at % 32);
            differ += 1;
        }
        right[len as usize] = 0;
        let (left_at, right_at) = (bench.upload(&left)?, bench.upload(&right)?);
        let found = bench.upload(&[5_u32])?;
        let shape = dsv4::count_differences::shape(len)?;
        for (left, right) in [(left_at, right_at), (left_at, left_at)] {
            let args = vec![arg(left), arg(right), arg(found), arg(len)];
            bench.launch::<dsv4::count_differences>(shape, args)?;
        }
        equal(&bench.download::<u32>(found, 1)?, &[5 + differ])?;
    }
    Ok(())
}
