//! What can go wrong.

use streamweir_kernels::DimensionError;
use streamweir_kernels::dsv4::ImageError;
use streamweir_kernels::layout::LayoutError;
use streamweir_verify::Report;
use thiserror::Error;

/// A demonstration that did not run to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, a capture or a replay failed.
    #[error(transparent)]
    Device(#[from] streamweir_sched::Error),
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

impl Error {
    /// The verifier's report, when a capture was refused.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Device(error) => error.report(),
            Self::Image(_) | Self::Dimension(_) | Self::Layout(_) => None,
        }
    }
}
