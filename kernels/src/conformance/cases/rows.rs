//! How a row that a kernel stored is held against its reference.
//!
//! A value near the border between two codes may fall to either side of it by
//! the rounding of f32 arithmetic. So the expected row is moved by as much as
//! that, up and down, and the stored code must lie between the codes of both:
//! anywhere but at a border that is exactly one code.

use bytemuck::Pod;
use half::bf16;

use super::super::bench::{Bench, equal};
use super::Outcome;
use crate::conformance::{Failure, Size};
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages, PageLayout};
use crate::reference;

/// What f32 arithmetic may move a value by, as a part of the largest value that
/// took part in it.
const ARITHMETIC: f64 = 2e-5;

fn largest(row: &[f64]) -> f64 {
    row.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// Refuses a number that is not between two others, or is none.
fn between(what: &str, at: usize, actual: f64, low: f64, high: f64) -> Outcome {
    if low <= actual && actual <= high {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{what} {at} is {actual}; expected {low} to {high}"
    )))
}

/// Batch sizes of kernels whose rows are independent: all up to 64 at the
/// model's sizes.
pub(super) fn batches(size: Size) -> Vec<u32> {
    if size == Size::FLASH {
        (1..=64).collect()
    } else {
        vec![1, size.tokens]
    }
}

/// Runs `run` as often as [`Bench::runs`] says and gives its result when each
/// has the same bits.
pub(super) fn repeated<T: Pod>(
    bench: &mut Bench<'_>,
    mut run: impl FnMut(&mut Bench<'_>) -> Result<Vec<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let first = run(bench)?;
    for again in 1..bench.runs() {
        let next = run(bench)?;
        if bytemuck::cast_slice::<T, u8>(&first) != bytemuck::cast_slice::<T, u8>(&next) {
            return Err(Failure::new(format!("run {again} gave different bits")));
        }
    }
    Ok(first)
}

/// Values as bf16.
pub(super) fn check_bf16(stored: &[bf16], row: &[f64]) -> Outcome {
    let slack = ARITHMETIC * largest(row);
    for (at, (stored, &value)) in stored.iter().zip(row).enumerate() {
        let [low, high] = [value - slack, value + slack].map(|v| bf16::from_f64(v).to_f64());
        between("value", at, stored.to_f64(), low, high)?;
    }
    Ok(())
}

/// Values as e4m3, by a scale.
pub(super) fn check_e4m3(codes: &[u8], scale: f64, row: &[f64]) -> Outcome {
    let slack = ARITHMETIC * largest(row);
    for (at, (&code, &value)) in codes.iter().zip(row).enumerate() {
        let [low, high] = [value - slack, value + slack]
            .map(|v| reference::from_e4m3(reference::to_e4m3((v / scale) as f32)));
        let stored = f64::from(reference::from_e4m3(code));
        between("e4m3 value", at, stored, low.into(), high.into())?;
    }
    Ok(())
}

/// The f32 scale of a row.
pub(super) fn check_scale(scale: f32, row: &[f64]) -> Outcome {
    let expected = f64::from(reference::e4m3_scale(largest(row) as f32));
    let [low, high] = [1.0 - ARITHMETIC, 1.0 + ARITHMETIC].map(|factor| expected * factor);
    between("scale", 0, scale.into(), low, high)
}

/// A pool of rows.
pub(super) trait Pool: Pod {
    /// Dimensions of a row.
    const DIM: usize;

    fn geometry(&self) -> &PageLayout;

    /// What becomes of a normalised and rotated row before it is stored.
    fn last_step(row: &mut [f64]);

    /// Holds a stored row against what should be there.
    fn check(values: &[u8], scales: &[u8], row: &[f64]) -> Outcome;
}

fn halves(bytes: &[u8]) -> Vec<bf16> {
    bytes
        .chunks_exact(2)
        .map(|pair| bf16::from_le_bytes([pair[0], pair[1]]))
        .collect()
}

impl Pool for LatentFp8Pages {
    const DIM: usize = Self::DIM as usize;

    fn geometry(&self) -> &PageLayout {
        self.layout()
    }

    fn last_step(_: &mut [f64]) {}

    fn check(values: &[u8], scales: &[u8], row: &[f64]) -> Outcome {
        let (quantised, rotated) = row.split_at(Self::NOPE as usize);
        let group = Self::GROUP as usize;
        for ((row, codes), &scale) in quantised
            .chunks_exact(group)
            .zip(values.chunks_exact(group))
            .zip(scales)
        {
            let most = largest(row);
            let [low, high] = [1.0 - ARITHMETIC, 1.0 + ARITHMETIC]
                .map(|factor| reference::ue8m0_scale((most * factor) as f32));
            between("UE8M0 scale", 0, scale.into(), low.into(), high.into())?;
            check_e4m3(codes, reference::from_ue8m0(scale).into(), row)?;
        }
        equal(&scales[7..], &[0])?;
        check_bf16(&halves(&values[Self::NOPE as usize..]), rotated)
    }
}

impl Pool for IndexKeyPages {
    const DIM: usize = 128;

    fn geometry(&self) -> &PageLayout {
        self.layout()
    }

    fn last_step(row: &mut [f64]) {
        reference::hadamard(row);
    }

    fn check(values: &[u8], _: &[u8], row: &[f64]) -> Outcome {
        check_bf16(&halves(values), row)
    }
}

impl Pool for IndexKeyFp8Pages {
    const DIM: usize = 128;

    fn geometry(&self) -> &PageLayout {
        self.layout()
    }

    fn last_step(row: &mut [f64]) {
        reference::hadamard(row);
    }

    fn check(values: &[u8], scales: &[u8], row: &[f64]) -> Outcome {
        let scale: f32 = bytemuck::pod_read_unaligned(scales);
        check_scale(scale, row)?;
        check_e4m3(values, scale.into(), row)
    }
}

/// Holds a whole pool against the rows that it should have at some slots and
/// what it had before everywhere else.
pub(super) fn check_pool<P: Pool>(
    pool: &P,
    before: &[u8],
    mut after: Vec<u8>,
    rows: &[(i32, Vec<f64>)],
) -> Outcome {
    let layout = pool.geometry();
    for (slot, row) in rows {
        let (Some(values), Some(scales)) =
            (layout.value_offset(*slot), layout.scale_position(*slot))
        else {
            return Err(Failure::new(format!("slot {slot} is none of the pool")));
        };
        let part = |at: u64, bytes: u32| at as usize..at as usize + bytes as usize;
        let values = part(values, layout.value_bytes());
        let scales = part(scales, layout.scale_bytes());
        P::check(&after[values.clone()], &after[scales.clone()], row)
            .map_err(|failure| Failure::new(format!("slot {slot}: {failure}")))?;
        for part in [values, scales] {
            after[part.clone()].copy_from_slice(&before[part]);
        }
    }
    equal(&after, before)
}
