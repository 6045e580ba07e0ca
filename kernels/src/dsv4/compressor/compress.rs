//! Store into the ring, compression of a complete group, norm, rotation and
//! store of the entry.

use half::bf16;
use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::{SimBlock, SimFault, SimKernel};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{Atomic, In, InOut, Ptr, twin};

use super::StateRing;
use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;
use crate::dsv4::cache::{Finish, RowPool, angles_at, check_rope, count_fault, store_slot};
use crate::dsv4::extents;
use crate::dsv4::extents::WORD;
use crate::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentFp8Pages};
use crate::reference;

kernel! {
    /// The C4 compressor of the latents.
    ///
    /// Row `t` of `kv_score`, `[tokens, 2048]`, is the keys of 512 overlap and
    /// 512 normal channels and then their scores. It goes into the ring of the
    /// sequence, row `(seq_lens[t] - 1) % 8` of ring `state_slots[t]` of
    /// `rings`. Where `seq_lens[t]`, the length with this token, is a multiple
    /// of four, the group is complete: each channel of the entry is the sum of
    /// eight keys weighted by a softmax of score plus `ape`, the overlap
    /// channels of the four tokens before the group and the normal channels of
    /// the group's own. The first group of a sequence has no tokens before it.
    /// `ape` is `[4, 1024]`, by the token's place in its group.
    ///
    /// The entry is RMS-normalised with `norm`, `[512]`, its last 64 dimensions
    /// are rotated at the position of the group's first token, and it is stored
    /// at slot `out_loc[t]` of the pool. `rope` is a table of
    /// [`Rope`](crate::rope::Rope) with `rope_rows` positions. All arithmetic is
    /// f32; the entry is quantised without a rounding to bf16 before.
    ///
    /// A row of state slot 0 or without a length is a padded row and does
    /// nothing. A state slot that is not below `slots`, an `out_loc` outside the
    /// pool and a position outside the table are counted in `faults`, one `u32`;
    /// the first does nothing, the second stores no entry, the third rotates by
    /// the nearest angle. Rows of one launch must not share a state slot other
    /// than 0.
    ///
    /// # Safety
    /// A block touches the ring of its token's state slot, when there is one, in rows that
    /// the length gives modulo the ring, and writes one row of the pool, at a slot that the
    /// pool has.
    #[waits]
    pub unsafe fn compress_c4(
        kv_score: In<f32>,
        ape: In<f32>,
        norm: In<f32>,
        rope: In<f32>,
        seq_lens: In<i32>,
        state_slots: In<i32>,
        out_loc: In<i32>,
        rings: InOut<f32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: LatentFp8Pages,
        tokens: u32,
        slots: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        compress_c4::RING.held(tokens, slots, kv_score, ape, rings)?;
        extents::norm_and_rope(norm, rope, rope_rows, <LatentFp8Pages as RowPool>::DIM)?;
        seq_lens.holds([tokens])?;
        state_slots.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(compress_c4::shape(tokens, slots, rope_rows, &layout)?)
    }

    /// The C4 compressor of the indexer: as [`compress_c4`] over 128 channels
    /// (`kv_score` is `[tokens, 512]`, `ape` `[4, 256]`, `norm` `[128]`), and
    /// after the rotation the Hadamard transform divided by `128^0.5`.
    ///
    /// # Safety
    /// A block touches the ring of its token's state slot, when there is one, in rows that
    /// the length gives modulo the ring, and writes one row of the pool, at a slot that the
    /// pool has.
    #[waits]
    pub unsafe fn compress_index_key(
        kv_score: In<f32>,
        ape: In<f32>,
        norm: In<f32>,
        rope: In<f32>,
        seq_lens: In<i32>,
        state_slots: In<i32>,
        out_loc: In<i32>,
        rings: InOut<f32>,
        pool: InOut<bf16>,
        faults: Atomic<u32>,
        layout: IndexKeyPages,
        tokens: u32,
        slots: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        compress_index_key::RING.held(tokens, slots, kv_score, ape, rings)?;
        extents::norm_and_rope(norm, rope, rope_rows, <IndexKeyPages as RowPool>::DIM)?;
        seq_lens.holds([tokens])?;
        state_slots.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(compress_index_key::shape(tokens, slots, rope_rows, &layout)?)
    }

    /// As [`compress_index_key`], with the keys as e4m3 and one f32 scale each.
    ///
    /// # Safety
    /// A block touches the ring of its token's state slot, when there is one, in rows that
    /// the length gives modulo the ring, and writes one row of the pool, at a slot that the
    /// pool has.
    #[waits]
    pub unsafe fn compress_index_key_fp8(
        kv_score: In<f32>,
        ape: In<f32>,
        norm: In<f32>,
        rope: In<f32>,
        seq_lens: In<i32>,
        state_slots: In<i32>,
        out_loc: In<i32>,
        rings: InOut<f32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: IndexKeyFp8Pages,
        tokens: u32,
        slots: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        compress_index_key_fp8::RING.held(tokens, slots, kv_score, ape, rings)?;
        extents::norm_and_rope(norm, rope, rope_rows, <IndexKeyFp8Pages as RowPool>::DIM)?;
        seq_lens.holds([tokens])?;
        state_slots.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(compress_index_key_fp8::shape(tokens, slots, rope_rows, &layout)?)
    }

    /// The C128 compressor of the latents: as [`compress_c4`] over 128 tokens
    /// and without overlap. `kv_score` is `[tokens, 1024]`, keys and scores of
    /// 512 channels; `ape` is `[128, 512]`; the ring has 128 rows.
    ///
    /// Eight blocks share a token. They are a cluster, which the device starts
    /// together or not at all, so none waits for one that may not run.
    ///
    /// # Safety
    /// A block touches the ring of its token's state slot, when there is one, in rows that
    /// the length gives modulo the ring, and writes one row of the pool, at a slot that the
    /// pool has.
    #[waits]
    pub unsafe fn compress_c128(
        kv_score: In<f32>,
        ape: In<f32>,
        norm: In<f32>,
        rope: In<f32>,
        seq_lens: In<i32>,
        state_slots: In<i32>,
        out_loc: In<i32>,
        rings: InOut<f32>,
        pool: InOut<u8>,
        faults: Atomic<u32>,
        layout: LatentFp8Pages,
        tokens: u32,
        slots: u32,
        rope_rows: u32,
        epsilon: f32,
    ) {
        compress_c128::RING.held(tokens, slots, kv_score, ape, rings)?;
        extents::norm_and_rope(norm, rope, rope_rows, <LatentFp8Pages as RowPool>::DIM)?;
        seq_lens.holds([tokens])?;
        state_slots.holds([tokens])?;
        out_loc.holds([tokens])?;
        extents::pool(pool, &layout)?.aligned(WORD)?;
        faults.holds([1_u32])?;
        Ok(compress_c128::shape(tokens, slots, rope_rows, &layout)?)
    }
}

/// What the four kernels have in common: the launch and the twin.
macro_rules! compressor {
    ($kernel:ident, $pages:ident, $ring:ident, $parts:expr, $threads:expr) => {
        impl $kernel {
            /// The geometry of the state.
            pub const RING: StateRing = StateRing::$ring;

            /// The launch for these sizes: the blocks of a token, and tokens.
            ///
            /// # Errors
            /// When there is no token, no state slot or no row of the table, or
            /// the pool's dimension is another.
            pub fn shape(
                tokens: u32,
                slots: u32,
                rope_rows: u32,
                layout: &$pages,
            ) -> Result<LaunchShape, DimensionError> {
                let dims = Dims::of(stringify!($kernel)).at_least_1("slots", slots)?;
                layout.check(check_rope(dims, rope_rows)?)?.grid(
                    $parts,
                    ("tokens", tokens),
                    $threads,
                )
            }

            pub(super) fn sim() -> SimKernel {
                twin::<$kernel>(
                    |block,
                     (
                        kv_score,
                        ape,
                        norm,
                        rope,
                        seq_lens,
                        state_slots,
                        out_loc,
                        rings,
                        pool,
                        faults,
                        layout,
                        tokens,
                        slots,
                        rope_rows,
                        epsilon,
                    )| {
                        let rows = Rows {
                            ring: Self::RING,
                            parts: $parts,
                            kv_score,
                            ape,
                            rope,
                            seq_lens,
                            state_slots,
                            out_loc,
                            rings,
                            faults,
                            tokens,
                            slots,
                            rope_rows,
                        };
                        let finish = Finish {
                            pool: pool.address,
                            layout,
                            norm,
                            epsilon,
                        };
                        rows.compress(block, &finish)
                    },
                )
            }
        }
    };
}

shared! {
    pub(super) COMPRESSOR = compressor {
        /// Blocks that share the channels of a C128 entry.
        C128_PARTS: u32 = 8;
        /// Threads of such a block.
        C128_THREADS: u32 = 256;
    }
}

/// Threads of a block that has an entry of this pool: one for four channels.
const fn threads<P: RowPool>() -> u32 {
    P::DIM / 4
}

compressor!(
    compress_c4,
    LatentFp8Pages,
    C4,
    1,
    threads::<LatentFp8Pages>()
);
compressor!(
    compress_index_key,
    IndexKeyPages,
    INDEX,
    1,
    threads::<IndexKeyPages>()
);
compressor!(
    compress_index_key_fp8,
    IndexKeyFp8Pages,
    INDEX,
    1,
    threads::<IndexKeyFp8Pages>()
);
compressor!(
    compress_c128,
    LatentFp8Pages,
    C128,
    C128_PARTS,
    C128_THREADS
);

/// What a compressor works on.
struct Rows {
    ring: StateRing,
    /// Blocks of a token: each writes its part of the channels to the ring, the
    /// first makes the entry.
    parts: u32,
    kv_score: Ptr<f32>,
    ape: Ptr<f32>,
    rope: Ptr<f32>,
    seq_lens: Ptr<i32>,
    state_slots: Ptr<i32>,
    out_loc: Ptr<i32>,
    rings: Ptr<f32>,
    faults: Ptr<u32>,
    tokens: u32,
    slots: u32,
    rope_rows: u32,
}

impl Rows {
    fn compress<P: RowPool>(
        &self,
        block: &mut SimBlock<'_>,
        finish: &Finish<P>,
    ) -> Result<(), SimFault> {
        let [part, token, _] = block.index();
        if token >= self.tokens || part >= self.parts {
            return Ok(());
        }
        let token = token as usize;
        let slot: i32 = block.read(self.state_slots.at(token), 1)?[0];
        let len: i32 = block.read(self.seq_lens.at(token), 1)?[0];
        if slot == 0 || len <= 0 {
            return Ok(());
        }
        if slot < 0 || slot as u32 >= self.slots {
            return match part {
                0 => count_fault(block, self.faults),
                _ => Ok(()),
            };
        }
        let (len, StateRing { width, ratio, .. }) = (len as u32, self.ring);
        let width = width as usize;
        let ring = self
            .rings
            .at(slot as usize * self.ring.ring_floats() as usize);
        let ring = Ptr::<f32>::new(ring);
        let place = |position: u32| (position % self.ring.rows) as usize * width;
        let incoming = block
            .read::<f32>(self.kv_score.at(token * width), width)?
            .to_vec();
        for half in [0, width / 2] {
            let here = blocks::span(part, self.ring.width / 2 / self.parts, self.ring.width / 2);
            let here = half + here.start..half + here.end;
            block.write(ring.at(place(len - 1) + here.start), &incoming[here])?;
        }
        if !len.is_multiple_of(ratio) || part != 0 {
            return Ok(());
        }
        let out_loc = block.read(self.out_loc.at(token), 1)?[0];
        let geometry = finish.layout.layout();
        let Some(out_loc) = store_slot(block, geometry, out_loc, self.faults)? else {
            return Ok(());
        };
        let first = (len - ratio) as i32;
        let angles = angles_at(block, self.rope, self.rope_rows, first, Some(self.faults))?;
        let entry = {
            // The incoming row, which the other blocks may not have written yet,
            // is the last.
            let mut rows = (len.saturating_sub(self.ring.rows)..len - 1)
                .map(|position| block.read::<f32>(ring.at(place(position)), width))
                .collect::<Result<Vec<_>, _>>()?;
            rows.push(&incoming);
            let ape = block.read(self.ape.address, self.ring.ape_floats() as usize)?;
            let channels = self.ring.channels as usize;
            if self.ring == StateRing::C128 {
                reference::compress_c128(&rows, ape, channels)
            } else {
                reference::compress_c4(&rows, ape, channels)
            }
        };
        finish.run(block, &entry, &angles, out_loc)
    }
}
