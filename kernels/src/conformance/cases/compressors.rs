//! The compressors over several steps of many sequences.
//!
//! The reference knows each sequence's whole history and no ring: an entry must
//! come out as the rows of its group and of the one before make it, wherever in
//! the ring they stood.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::kernel::Kernel;

use super::super::bench::{Bench, arg, equal};
use super::rows::{Pool, check_pool, repeated};
use super::{Failure, Outcome, case};
use crate::conformance::{Case, Size};
use crate::dims::DimensionError;
use crate::dsv4::{self, StateRing};
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};
use crate::reference;
use crate::rope::Rope;

pub(super) const CASES: &[Case] = &[
    case!(compress_c4),
    case!(compress_index_key),
    case!(compress_index_key_fp8),
    case!(compress_c128),
];

/// Positions of the table; some entries lie beyond.
const ROPE_ROWS: u32 = 400;
const EPSILON: f32 = 1e-6;

/// Lengths before the first step.
const C4_STARTS: [u32; 10] = [0, 3, 1, 4, 5, 7, 126, 2, 1021, 6];
const C128_STARTS: [u32; 10] = [127, 125, 126, 0, 254, 255, 128, 1021, 124, 382];
/// Steps: each sequence completes a group of four twice.
const C4_STEPS: usize = 8;
const C128_STEPS: usize = 4;

fn compress_c4(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::compress_c4 as Kernel;
    let pages = |entries| LatentFp8Pages::c4(entries / 64 + 2);
    compress::<Kernel, _>(bench, size, pages, Kernel::shape, Kernel::RING)
}

fn compress_index_key(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::compress_index_key as Kernel;
    let pages = |entries| IndexKeyPages::bf16(128, entries / 64 + 2);
    compress::<Kernel, _>(bench, size, pages, Kernel::shape, Kernel::RING)
}

fn compress_index_key_fp8(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::compress_index_key_fp8 as Kernel;
    let pages = |entries| IndexKeyFp8Pages::new(128, entries / 64 + 2);
    compress::<Kernel, _>(bench, size, pages, Kernel::shape, Kernel::RING)
}

fn compress_c128(bench: &mut Bench<'_>, size: Size) -> Outcome {
    use dsv4::compress_c128 as Kernel;
    let pages = |entries| LatentFp8Pages::c128(entries / 2 + 2);
    compress::<Kernel, _>(bench, size, pages, Kernel::shape, Kernel::RING)
}

type Shape<P> = fn(u32, u32, u32, &P) -> Result<LaunchShape, DimensionError>;

fn compress<K: Kernel, P: Pool>(
    bench: &mut Bench<'_>,
    size: Size,
    pages: impl Fn(u32) -> Result<P, crate::layout::LayoutError>,
    shape: Shape<P>,
    ring: StateRing,
) -> Outcome {
    let steps = if ring.ratio == 4 {
        C4_STEPS
    } else {
        C128_STEPS
    };
    let batches = if size == Size::FLASH {
        vec![1, 2, 3, 8, 33, 64]
    } else {
        vec![1, size.tokens]
    };
    for tokens in batches {
        let layout = pages(tokens * steps as u32)?;
        let run = Run::<P>::new(bench, layout, ring, tokens, steps)?;
        run.check::<K>(bench, shape)?;
    }
    Ok(())
}

/// What is special about a row of the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sequence,
    /// A padded row: state slot 0, no length.
    Padded,
    /// A state slot that there is no ring for.
    NoRing,
    /// Places outside the pool.
    NoPlace,
    /// Place 0: the entry is made and stored nowhere.
    PlaceZero,
}

/// One sequence of a run.
struct Sequence {
    kind: Kind,
    start: u32,
    /// The first position that `rows` knows.
    first: u32,
    /// Rows of keys and scores from `first` on.
    rows: Vec<f32>,
}

impl Sequence {
    fn row(&self, ring: StateRing, position: u32) -> &[f32] {
        let width = ring.width as usize;
        &self.rows[(position - self.first) as usize * width..][..width]
    }
}

/// Several steps of many sequences, and what should come of them.
struct Run<P> {
    layout: P,
    ring: StateRing,
    tokens: u32,
    sequences: Vec<Sequence>,
    ape: Vec<f32>,
    norm: Vec<f32>,
    table: Vec<f32>,
    /// The state and the pool before the first step.
    rings: Vec<f32>,
    pool: Vec<u8>,
    /// Lengths and places of each step, one for each row.
    lens: Vec<Vec<i32>>,
    places: Vec<Vec<i32>>,
    inputs: Vec<[u64; 3]>,
}

impl<P: Pool> Run<P> {
    fn new(
        bench: &mut Bench<'_>,
        layout: P,
        ring: StateRing,
        tokens: u32,
        steps: usize,
    ) -> Result<Self, Failure> {
        let starts = if ring.ratio == 4 {
            C4_STARTS
        } else {
            C128_STARTS
        };
        let width = ring.width as usize;
        let sequences: Vec<Sequence> = (0..tokens as usize)
            .map(|token| {
                let kind = match token % 7 {
                    2 => Kind::Padded,
                    4 => Kind::NoRing,
                    5 => Kind::NoPlace,
                    6 => Kind::PlaceZero,
                    _ => Kind::Sequence,
                };
                let start = starts[token % starts.len()];
                let first = start.saturating_sub(ring.rows);
                let known = start - first + steps as u32;
                // Scores as large as they get in a model, so that the softmax is
                // neither flat nor a maximum.
                let rows = bench
                    .floats(known as usize * width)
                    .into_iter()
                    .enumerate()
                    .map(|(i, v)| if i % width < width / 2 { v } else { 4.0 * v })
                    .collect();
                Sequence {
                    kind,
                    start,
                    first,
                    rows,
                }
            })
            .collect();
        // What no row was written to is no number: it must not be used.
        let mut rings = vec![f32::NAN; ring.floats(tokens + 1) as usize];
        for (token, sequence) in sequences.iter().enumerate() {
            for position in sequence.first..sequence.start {
                let at = place_in_rings(ring, token, position);
                rings[at..at + width].copy_from_slice(sequence.row(ring, position));
            }
        }
        let slots = layout.geometry().slots() as i32;
        let (mut lens, mut places, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..steps as u32 {
            let mut kv_score: Vec<f32> = Vec::new();
            let (mut step_lens, mut step_places) = (Vec::new(), Vec::new());
            for (token, sequence) in sequences.iter().enumerate() {
                let len = sequence.start + step + 1;
                kv_score.extend(sequence.row(ring, len - 1));
                step_lens.push(match sequence.kind {
                    Kind::Padded => 0,
                    _ => len as i32,
                });
                // Rows that complete nothing have a place too, and must not
                // use it.
                step_places.push(match sequence.kind {
                    Kind::NoPlace => slots + token as i32,
                    Kind::PlaceZero => 0,
                    _ => 1 + (step * tokens) as i32 + token as i32,
                });
            }
            inputs.push([
                bench.upload(&kv_score)?,
                bench.upload(&step_lens)?,
                bench.upload(&step_places)?,
            ]);
            lens.push(step_lens);
            places.push(step_places);
        }
        Ok(Self {
            layout,
            ring,
            tokens,
            sequences,
            ape: bench.floats(ring.ape_floats() as usize),
            norm: bench.floats(P::DIM),
            table: Rope::COMPRESSED.table(ROPE_ROWS),
            rings,
            pool: bench.bytes(layout.geometry().pool_bytes() as usize),
            lens,
            places,
            inputs,
        })
    }

    fn check<K: Kernel>(&self, bench: &mut Bench<'_>, shape: Shape<P>) -> Outcome {
        let slots = self.tokens + 1;
        let state_slots: Vec<i32> = self
            .sequences
            .iter()
            .enumerate()
            .map(|(token, sequence)| match sequence.kind {
                Kind::Padded => 0,
                Kind::NoRing if token % 2 == 0 => slots as i32,
                Kind::NoRing => -1,
                _ => token as i32 + 1,
            })
            .collect();
        let (ape, norm) = (bench.upload(&self.ape)?, bench.upload(&self.norm)?);
        let table = bench.upload(&self.table)?;
        let state_slots = bench.upload(&state_slots)?;
        let (rings, pool) = (bench.upload(&self.rings)?, bench.upload(&self.pool)?);
        let faults = bench.upload(&[0_u32])?;
        let shape = shape(self.tokens, slots, ROPE_ROWS, &self.layout)?;
        let after = repeated(bench, |bench| {
            bench.overwrite(rings, &self.rings)?;
            bench.overwrite(pool, &self.pool)?;
            bench.overwrite(faults, &[0_u32])?;
            for &[kv_score, lens, places] in &self.inputs {
                let mut args = [
                    kv_score,
                    ape,
                    norm,
                    table,
                    lens,
                    state_slots,
                    places,
                    rings,
                    pool,
                    faults,
                ]
                .map(arg)
                .to_vec();
                args.extend([
                    arg(self.layout),
                    arg(self.tokens),
                    arg(slots),
                    arg(ROPE_ROWS),
                    arg(EPSILON),
                ]);
                bench.launch::<K>(shape, args)?;
            }
            bench.download::<u8>(pool, self.pool.len())
        })?;

        let (rows, counted) = self.entries();
        check_pool(&self.layout, &self.pool, after, &rows)?;
        equal(&bench.download::<u32>(faults, 1)?, &[counted])?;
        // By bits: what was never written is no number.
        let bits = |rings: Vec<f32>| rings.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let after = bench.download::<f32>(rings, self.rings.len())?;
        equal(&bits(after), &bits(self.rings_after()))
    }

    /// The entries that the steps make, with their places, and the faults that
    /// they count.
    fn entries(&self) -> (Vec<(i32, Vec<f64>)>, u32) {
        let (mut rows, mut faults) = (Vec::new(), 0);
        for (lens, places) in self.lens.iter().zip(&self.places) {
            for ((sequence, &len), &place) in self.sequences.iter().zip(lens).zip(places) {
                match sequence.kind {
                    Kind::Padded => continue,
                    Kind::NoRing => {
                        faults += 1;
                        continue;
                    }
                    _ if !(len as u32).is_multiple_of(self.ring.ratio) => continue,
                    Kind::NoPlace => {
                        faults += 1;
                        continue;
                    }
                    Kind::PlaceZero => continue,
                    Kind::Sequence => {}
                }
                let position = len - self.ring.ratio as i32;
                faults += u32::from(position >= ROPE_ROWS as i32);
                rows.push((place, self.entry(sequence, len as u32, position)));
            }
        }
        (rows, faults)
    }

    fn entry(&self, sequence: &Sequence, len: u32, position: i32) -> Vec<f64> {
        let group: Vec<&[f32]> = (len.saturating_sub(self.ring.rows)..len)
            .map(|position| sequence.row(self.ring, position))
            .collect();
        let entry = if self.ring.ratio == 4 {
            reference::compress_c4(&group, &self.ape, P::DIM)
        } else {
            reference::compress_c128(&group, &self.ape, P::DIM)
        };
        let mut row = reference::weighted_rms_norm(&entry, &self.norm, EPSILON);
        reference::rotate(&mut row, reference::angles(&self.table, position), false);
        P::last_step(&mut row);
        row
    }

    fn rings_after(&self) -> Vec<f32> {
        let mut rings = self.rings.clone();
        for (token, sequence) in self.sequences.iter().enumerate() {
            if matches!(sequence.kind, Kind::Padded | Kind::NoRing) {
                continue;
            }
            for position in sequence.start..sequence.start + self.lens.len() as u32 {
                let at = place_in_rings(self.ring, token, position);
                rings[at..at + self.ring.width as usize]
                    .copy_from_slice(sequence.row(self.ring, position));
            }
        }
        rings
    }
}

/// Where the row of a position begins in the state, the sequence of row `token`
/// having slot `token + 1`.
fn place_in_rings(ring: StateRing, token: usize, position: u32) -> usize {
    (token + 1) * ring.ring_floats() as usize + (position % ring.rows * ring.width) as usize
}
