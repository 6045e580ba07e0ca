//! A part of a layer is a list of its kernels, one to a line.

use streamweir_sched::driver::sim::SimKernel;

use crate::constants::Constants;

/// A kernel that stands in the list of a part.
pub trait Listed {}

/// One kernel of a part.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// The source below `cuda/`; several kernels may share it.
    pub(super) file: &'static str,
    pub(super) source: &'static str,
    pub(super) twin: fn() -> SimKernel,
    /// What the source takes from the host's side.
    pub(super) constants: &'static [Constants],
}

/// A source that kernels include.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) file: &'static str,
    pub(super) source: &'static str,
    pub(super) constants: &'static [Constants],
}

/// The text of a file below `cuda/`.
macro_rules! source {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/", $file))
    };
}

/// The list of a part: a kernel, its source, what makes its twin, and the constants
/// that the source takes from the host's side.
macro_rules! part {
    ($($kernel:ident: $file:literal, $twin:expr $(, $constants:path)*;)+) => {
        $(
            impl $crate::dsv4::part::Listed for $kernel {}
            impl $crate::dsv4::Shipped for $kernel {}
        )+

        /// The kernels of this part.
        pub(super) const KERNELS: &[$crate::dsv4::part::Line] = &[
            $($crate::dsv4::part::Line {
                file: $file,
                source: $crate::dsv4::part::source!($file),
                twin: $twin,
                constants: &[$($constants),*],
            },)+
        ];
    };
}

/// A header: its source, and the constants that it takes.
macro_rules! header {
    ($file:literal $(, $constants:path)* $(,)?) => {
        $crate::dsv4::part::Header {
            file: $file,
            source: $crate::dsv4::part::source!($file),
            constants: &[$($constants),*],
        }
    };
}

pub(super) use {header, part, source};
