//! What can go wrong between candle and streamweir.

use candle_core::DType;
use streamweir::kernels::DimensionError;
use streamweir::kernels::dsv4::ImageError;
use streamweir::kernels::layout::LayoutError;
use thiserror::Error;

/// A `Result` with this crate's [`Error`](enum@Error).
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why candle and streamweir do not come together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor or the device is not CUDA's.
    #[error("{what} is not on a CUDA device: make it on `Device::new_cuda_with_stream`")]
    NotCuda {
        /// Which.
        what: String,
    },
    /// A tensor is another device's.
    #[error(
        "tensor \"{tensor}\" is of another candle device than the one that was adopted: work on \
         it has another stream, and nothing would order it with replays"
    )]
    OtherDevice {
        /// The name that it was to have.
        tensor: String,
    },
    /// A tensor has another type than its buffer was to have.
    #[error("tensor \"{tensor}\" holds {is:?}, not {wanted:?}: convert it with `to_dtype`")]
    Type {
        /// The name that it was to have.
        tensor: String,
        /// What it holds.
        is: DType,
        /// What was asked for.
        wanted: DType,
    },
    /// A tensor's elements do not lie in a row.
    #[error(
        "tensor \"{tensor}\" has strides {strides:?} for shape {shape:?}, so its elements are not \
         one range: register `contiguous()` of it"
    )]
    Strided {
        /// The name that it was to have.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Its strides.
        strides: Vec<usize>,
    },
    /// candle's stream is being captured.
    #[error(
        "tensor \"{tensor}\" cannot be registered while candle's stream is being captured: \
         register it before the capture begins"
    )]
    Capturing {
        /// The name that it was to have.
        tensor: String,
    },
    /// cudarc's events would break the capture.
    #[error(
        "op `{op}` is inside a capture while cudarc tracks uses of tensors by events, which breaks \
         the capture: call `CudaDevice::disable_event_tracking` before the tensors are made"
    )]
    EventTracking {
        /// The op.
        op: &'static str,
    },
    /// An op was called with a tensor that it was not made for.
    #[error(
        "op `{op}` was made for another {role} tensor (at {made_for:#x}) than the one that it is \
         called with (at {called_with:#x}): a batch has one input and one output"
    )]
    OtherTensor {
        /// The op.
        op: &'static str,
        /// Input or output.
        role: &'static str,
        /// The address of the batch's tensor.
        made_for: u64,
        /// The address of the tensor in the call.
        called_with: u64,
    },
    /// The sequences are full.
    #[error("a sequence has room for {room} entries, and {wanted} were asked for")]
    Full {
        /// Entries that there is room for.
        room: u32,
        /// Entries that were asked for.
        wanted: u32,
    },
    /// An eager run broke a rule. It has run all the same.
    #[error("{report}")]
    Hazard {
        /// The verifier's report, as text.
        report: String,
    },
    /// candle failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// streamweir refused or failed.
    #[error(transparent)]
    Streamweir(#[from] streamweir::Error),
    /// There are no kernels for the device.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A kernel does not take the sizes.
    #[error(transparent)]
    Dimension(#[from] DimensionError),
    /// A cache pool cannot have the sizes.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Candle(error) => error,
            other => candle_core::Error::wrap(other),
        }
    }
}
