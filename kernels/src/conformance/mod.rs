//! Every kernel against its reference, as cases that every backend passes.
//!
//! A test binary of a backend runs [`suite`] on its device: the simulated one
//! in this crate's tests, a card in the GPU tests. A case makes random inputs
//! from a seed, fills the outputs with poison, launches twice and expects the
//! same bits both times, and compares with [`reference`](mod@crate::reference)
//! within the tolerances stated there. Each launch first checks the kernel's
//! signature against what the loaded code expects.

mod bench;
mod cases;
pub mod edge;
mod gemm;
mod random;

use std::fmt;

use streamweir_sched::driver::{DriverError, DynDriver, ModuleImage};

use crate::dims::DimensionError;
use crate::gemm::GemmError;
use crate::layout::LayoutError;
use bench::Bench;

/// The sizes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Tokens of the batch.
    pub tokens: u32,
    /// Values of a token's input.
    pub width: u32,
    /// Heads of the attention.
    pub heads: u32,
    /// Dimensions of the latent, hence of a head.
    pub dim: u32,
    /// Heads of the indexer.
    pub index_heads: u32,
    /// Dimensions of an index key.
    pub index_dim: u32,
    /// The most cache entries of a sequence.
    pub entries: u32,
    /// Entries that are selected.
    pub k: u32,
}

impl Size {
    /// Small, and uneven where a kernel divides its work.
    pub const TINY: Self = Self {
        tokens: 9,
        width: 72,
        heads: 11,
        dim: 40,
        index_heads: 3,
        index_dim: 24,
        entries: 150,
        k: 16,
    };

    /// The model's own: DeepSeek-V4-Flash, eight sequences of 16,384 entries.
    pub const FLASH: Self = Self {
        tokens: 8,
        width: 4096,
        heads: 64,
        dim: 512,
        index_heads: 64,
        index_dim: 128,
        entries: 16_384,
        k: 512,
    };
}

/// One kernel's comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The kernel, and what is special about the inputs.
    pub name: &'static str,
    body: fn(&mut Bench<'_>, Size) -> Result<(), Failure>,
}

impl Case {
    /// Runs the case on a device, with the module of
    /// [`dsv4::image`](crate::dsv4::image).
    ///
    /// # Errors
    /// What differs, or the call that failed.
    pub fn run(
        &self,
        driver: &DynDriver,
        image: &ModuleImage,
        size: Size,
        seed: u64,
    ) -> Result<(), Failure> {
        let mut bench = Bench::new(driver, image, seed)?;
        let outcome = (self.body)(&mut bench, size);
        outcome.and(bench.close())
    }
}

/// Why a case does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

macro_rules! failure_from {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.to_string())
            }
        })*
    };
}

failure_from!(
    DriverError,
    DimensionError,
    LayoutError,
    GemmError,
    streamweir_sched::Error
);

pub use gemm::gemm;

/// All cases.
pub fn suite() -> Vec<Case> {
    cases::all()
}
