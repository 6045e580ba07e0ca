//! Which sizes a kernel takes.

use streamweir_sched::driver::LaunchShape;
use streamweir_sched::kernel::Refusal;
use thiserror::Error;

use crate::layout::PageLayout;

/// A size that a kernel does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("kernel {kernel}: {dimension} is {value}; it must be {requirement}")]
pub struct DimensionError {
    /// The kernel.
    pub kernel: &'static str,
    /// The size.
    pub dimension: &'static str,
    /// Its value.
    pub value: u64,
    /// What the kernel takes.
    pub requirement: &'static str,
}

impl From<DimensionError> for Refusal {
    fn from(error: DimensionError) -> Self {
        Self::Size {
            dimension: error.dimension,
            value: error.value,
            requirement: error.requirement,
        }
    }
}

/// The most blocks along y and z of a grid.
const MAX_GRID_YZ: u32 = 65_535;

/// Checks the sizes of one launch and makes its shape.
#[derive(Clone, Copy)]
pub(crate) struct Dims {
    kernel: &'static str,
}

impl Dims {
    pub(crate) const fn of(kernel: &'static str) -> Self {
        Self { kernel }
    }

    /// Refuses `value` unless `ok`.
    pub(crate) fn check(
        self,
        dimension: &'static str,
        value: u32,
        ok: bool,
        requirement: &'static str,
    ) -> Result<Self, DimensionError> {
        if ok {
            Ok(self)
        } else {
            Err(DimensionError {
                kernel: self.kernel,
                dimension,
                value: value.into(),
                requirement,
            })
        }
    }

    pub(crate) fn at_least_1(
        self,
        dimension: &'static str,
        value: u32,
    ) -> Result<Self, DimensionError> {
        self.check(dimension, value, value > 0, "at least 1")
    }

    /// Rows of bf16 that are read in 16-byte words.
    pub(crate) fn row(self, dimension: &'static str, value: u32) -> Result<Self, DimensionError> {
        self.check(
            dimension,
            value,
            value > 0 && value.is_multiple_of(8),
            "a positive multiple of 8 (16-byte rows)",
        )
    }

    /// Page tables whose rows must reach `max_entries`.
    pub(crate) fn table(
        self,
        layout: &PageLayout,
        table_stride: u32,
        max_entries: u32,
    ) -> Result<Self, DimensionError> {
        let reach = u64::from(table_stride) * u64::from(layout.tokens_per_page());
        self.check(
            "table_stride",
            table_stride,
            reach >= u64::from(max_entries),
            "enough pages for max_entries",
        )
    }

    /// A grid of `x` by `y` blocks of `threads` threads.
    pub(crate) fn grid(
        self,
        x: u32,
        (dimension, y): (&'static str, u32),
        threads: u32,
    ) -> Result<LaunchShape, DimensionError> {
        self.check(
            dimension,
            y,
            (1..=MAX_GRID_YZ).contains(&y),
            "from 1 to 65,535",
        )?;
        Ok(LaunchShape::from(([x, y, 1], [threads, 1, 1])))
    }
}
