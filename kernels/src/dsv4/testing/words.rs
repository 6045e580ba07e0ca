//! Kernels on plain 32-bit words: poison for buffers, a counter, a copy
//! that is late.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, InOut, Out, twin};

use crate::constants::shared;
use crate::dims::{DimensionError, Dims};
use crate::dsv4::blocks;

kernel! {
    /// `data[i] = value` for `i < len`: poison, so that a read of what nobody
    /// wrote shows.
    ///
    /// # Safety
    /// A thread writes its own word, and none from `len` on.
    pub unsafe fn fill_words(data: Out<u32>, len: u32, value: u32) {
        data.holds([len])?;
        Ok(fill_words::shape(len)?)
    }
    /// `data[i] += 1` for `i < len`, wrapping: the smallest kernel whose runs
    /// can be counted.
    ///
    /// # Safety
    /// A thread touches its own word, and none from `len` on.
    pub unsafe fn add_one(data: InOut<u32>, len: u32) {
        data.holds([len])?;
        Ok(add_one::shape(len)?)
    }
    /// Copies words, as late as a kernel can be: what follows it may start at once,
    /// and only after `nanoseconds` it begins. A kernel that is launched
    /// programmatically behind it and does not wait finds what was there before.
    ///
    /// `table` has `count` entries of three words: the addresses to copy to and
    /// from, and how many 32-bit words. The memory that they name is no parameter, so
    /// a launch cannot be checked: who makes one says what is touched
    /// ([`Stream::launch_unchecked`]).
    ///
    /// [`Stream::launch_unchecked`]: streamweir_sched::Stream::launch_unchecked
    pub fn copy_late(table: In<u64>, count: u32, nanoseconds: u32);
}

shared! {
    pub(super) WORDS = words {
        /// Threads of a block.
        THREADS: u32 = 256;
        /// Words of an entry of the table of late copies: to, from, how many.
        COPY_WORDS: u32 = 3;
    }
}

fn words_shape(kernel: &'static str, len: u32) -> Result<LaunchShape, DimensionError> {
    Dims::of(kernel).at_least_1("len", len)?.grid(
        len.div_ceil(THREADS),
        ("blocks along y", 1),
        THREADS,
    )
}

impl fill_words {
    /// A word whose halves are NaN as bf16, and which is NaN as f32 and no
    /// plausible index as i32.
    pub const POISON: u32 = 0xffc5_ffc5;

    /// The launch for `len` words: a thread for each.
    ///
    /// # Errors
    /// When `len` is zero.
    pub fn shape(len: u32) -> Result<LaunchShape, DimensionError> {
        words_shape("fill_words", len)
    }
}

impl add_one {
    /// The launch for `len` words: a thread for each.
    ///
    /// # Errors
    /// When `len` is zero.
    pub fn shape(len: u32) -> Result<LaunchShape, DimensionError> {
        words_shape("add_one", len)
    }
}

impl copy_late {
    /// The launch, whatever is copied: one block for two multiprocessors or so of a
    /// large device, so that there is room for what follows.
    pub fn shape() -> LaunchShape {
        (64, THREADS).into()
    }
}

pub(super) fn sim_fill_words() -> SimKernel {
    twin::<fill_words>(|block, (data, len, value)| {
        let here = blocks::span(block.index()[0], block.shape().block[0], len);
        block.write(data.at(here.start), &vec![value; here.len()])
    })
}

pub(super) fn sim_add_one() -> SimKernel {
    twin::<add_one>(|block, (data, len)| {
        let here = blocks::span(block.index()[0], block.shape().block[0], len);
        let words: Vec<u32> = block
            .read(data.at(here.start), here.len())?
            .iter()
            .map(|word: &u32| word.wrapping_add(1))
            .collect();
        block.write(data.at(here.start), &words)
    })
}

pub(super) fn sim_copy_late() -> SimKernel {
    twin::<copy_late>(|block, (table, count, _)| {
        if block.index()[0] != 0 {
            return Ok(());
        }
        let table: Vec<u64> = block
            .read(table.at(0), (COPY_WORDS * count) as usize)?
            .to_vec();
        for entry in table.chunks_exact(COPY_WORDS as usize) {
            let words: Vec<u32> = block.read(entry[1], entry[2] as usize)?.to_vec();
            block.write(entry[0], &words)?;
        }
        Ok(())
    })
}
