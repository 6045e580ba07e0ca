//! What can go wrong before a product is recorded.

use streamweir_sched::driver::Backend;
use thiserror::Error;

use super::GemmShape;
use crate::dims::DimensionError;

/// No product.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GemmError {
    /// A size that no product has.
    #[error(transparent)]
    Dimension(#[from] DimensionError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] streamweir_sched::Error),
    /// The device's backend is neither CUDA nor the simulated device.
    #[error("no matrix products for the backend \"{0}\"; there are for \"cuda\" and \"sim\"")]
    Backend(Backend),
    /// cuBLASLt is not there.
    #[error(
        "cuBLASLt (libcublasLt) was not found on the loader's search path; install the CUDA \
         toolkit or name the library's folder in LD_LIBRARY_PATH"
    )]
    NoLibrary,
    /// cuBLASLt refused a call.
    #[error("cuBLASLt: {call} failed: {status}")]
    Library {
        /// The call.
        call: &'static str,
        /// What it returned.
        status: String,
    },
    /// cuBLAS is not there.
    #[error(
        "cuBLAS (libcublas) was not found on the loader's search path; install the CUDA toolkit or \
         name the library's folder in LD_LIBRARY_PATH"
    )]
    NoCublas,
    /// There is no cuBLAS handle for a captured stream.
    #[error(
        "there is no cuBLAS handle for stream \"{stream}\", only for {has:?}; name it where the \
         handles are made, outside of any capture"
    )]
    NoHandle {
        /// The captured stream.
        stream: String,
        /// The streams that have one.
        has: Vec<String>,
    },
    /// cuBLASLt has no algorithm.
    #[error(
        "cuBLASLt has no algorithm for {shape:?} with up to {workspace} bytes of workspace; \
         allow it more"
    )]
    NoAlgorithm {
        /// The sizes.
        shape: GemmShape,
        /// The workspace that it may use.
        workspace: usize,
    },
}
