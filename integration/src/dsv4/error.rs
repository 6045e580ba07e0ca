//! What can go wrong, by name.

use streamweir::kernels::DimensionError;
use streamweir::kernels::dsv4::ImageError;
use streamweir::kernels::gemm::GemmError;
use streamweir::kernels::layout::LayoutError;
use streamweir::verify::Report;
use thiserror::Error;

use super::config::UnknownConfig;
use super::pages::PageError;

/// A decode step, or its preparation, that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, a capture or a replay failed.
    #[error(transparent)]
    Device(Box<streamweir::Error>),
    /// There are no kernels for the device.
    #[error(transparent)]
    Image(Box<ImageError>),
    /// A kernel does not take the sizes.
    #[error(transparent)]
    Dimension(#[from] DimensionError),
    /// A cache pool cannot have the sizes.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The products of the layers cannot be made.
    #[error(transparent)]
    Gemm(Box<GemmError>),
    /// A graph cannot be drawn.
    #[error(transparent)]
    Drawing(#[from] streamweir::verify::VerifyError),
    /// A layout file is of other caches.
    #[error(transparent)]
    LayoutFile(#[from] super::layout::LayoutFileError),
    /// A sequence cannot begin or grow.
    #[error(transparent)]
    Page(#[from] PageError),
    /// There is no such model.
    #[error(transparent)]
    Config(#[from] UnknownConfig),
    /// A batch that no bucket holds, where eager runs are not allowed.
    #[error(
        "a batch of {batch} is above the largest bucket, {largest}; split it, add a bucket, or allow \
         eager runs"
    )]
    Batch {
        /// Sequences of the batch.
        batch: usize,
        /// The largest bucket.
        largest: u32,
    },
    /// A batch for which there are no inputs.
    #[error(
        "a batch of {batch} has no inputs, which there are for {rows} rows; split it, or make \
         Capacity::rows larger"
    )]
    Rows {
        /// Sequences of the batch.
        batch: usize,
        /// Rows that there are inputs for.
        rows: u32,
    },
    /// Buckets that cannot be captured.
    #[error(
        "buckets {buckets:?} are not in ascending order from 1 to the {rows} rows that there are inputs \
         for; sort them, leave doubles out, or make Capacity::rows larger"
    )]
    Buckets {
        /// The buckets.
        buckets: Vec<u32>,
        /// Rows that there are inputs for.
        rows: u32,
    },
    /// A replay in an arm that runs launch by launch, or of rows that have no bucket.
    #[error(
        "there is no graph of {bucket} rows: run the arm with Exec::Graph, and give the setup that bucket"
    )]
    NoGraph {
        /// Rows of the step.
        bucket: u32,
    },
    /// A comparison in an arm that is not watched.
    #[error(
        "the steps of this arm are not compared: make the engine with Instruments::differential, and \
         choose another arm than the reference itself"
    )]
    NotWatched,
    /// Page-locked memory that an earlier step still holds, though the device
    /// is idle.
    #[error("\"{slot}\" is still held by an earlier step; a graph must not upload from it")]
    Staging {
        /// The memory.
        slot: String,
    },
    /// A row that cannot be in a batch.
    #[error("row {row} of the batch is of {fault}")]
    Row {
        /// The row.
        row: usize,
        /// What is wrong with its sequence.
        fault: RowFault,
    },
}

/// Why a sequence cannot be in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowFault {
    /// Its pages are somebody else's.
    #[error("a sequence that began before the caches were reset")]
    Stale,
    /// There is nothing to attend to.
    #[error("a sequence without tokens")]
    Empty,
    /// Two rows would write the same places.
    #[error("a sequence that another row has already")]
    Twice,
}

impl Error {
    /// The verifier's report, when a capture was refused.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Device(error) => error.report(),
            _ => None,
        }
    }
}

// The large ones are boxed, so that a result is not mostly room for its failure.

impl From<streamweir::Error> for Error {
    fn from(error: streamweir::Error) -> Self {
        Self::Device(Box::new(error))
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl From<GemmError> for Error {
    fn from(error: GemmError) -> Self {
        Self::Gemm(Box::new(error))
    }
}
