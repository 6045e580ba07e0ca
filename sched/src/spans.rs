//! Spans of `tracing` around what takes time: captures, proofs, instantiations, updates,
//! eager runs and replays, each with the name of its graph. With the feature `tracing`;
//! without it there is nothing here.
//!
//! Their target is `streamweir`. NVIDIA's layer for them, `nvtx::tracing::NvtxLayer`, makes
//! NVTX ranges of them in a domain of that name.

#[cfg(feature = "tracing")]
macro_rules! span {
    ($name:literal, $graph:expr) => {
        ::tracing::info_span!(target: "streamweir", $name, graph = %$graph).entered()
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($name:literal, $graph:expr) => {
        $crate::spans::Nothing
    };
}

/// What stands for a span where there is none.
#[cfg(not(feature = "tracing"))]
pub(crate) struct Nothing;

pub(crate) use span;
