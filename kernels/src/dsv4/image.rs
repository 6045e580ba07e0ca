//! The module that holds all kernels, for either backend.

use std::fmt::Write as _;

use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::driver::{DeviceInfo, ModuleImage};
use thiserror::Error;

use crate::compile::{self, CompileError, Header, Program};

/// The sources, by the names that the program includes.
const SOURCES: &[(&str, &str)] = &[
    (
        "query_projection.cu",
        include_str!("../../cuda/glue/query_projection.cu"),
    ),
    (
        "index_weights.cu",
        include_str!("../../cuda/indexer/index_weights.cu"),
    ),
    (
        "index_key_store.cu",
        include_str!("../../cuda/cache/index_key_store.cu"),
    ),
    (
        "indexer_logits.cu",
        include_str!("../../cuda/indexer/indexer_logits.cu"),
    ),
    (
        "indexer_logits_fp8.cu",
        include_str!("../../cuda/indexer/indexer_logits_fp8.cu"),
    ),
    ("top_k.cu", include_str!("../../cuda/indexer/top_k.cu")),
    (
        "gather_attention.cu",
        include_str!("../../cuda/attention/gather_attention.cu"),
    ),
    (
        "sparse_attention.cu",
        include_str!("../../cuda/attention/sparse_attention.cu"),
    ),
    (
        "paged_attention.cu",
        include_str!("../../cuda/attention/paged_attention.cu"),
    ),
    (
        "combine_attention.cu",
        include_str!("../../cuda/attention/combine_attention.cu"),
    ),
    (
        "check_page_table.cu",
        include_str!("../../cuda/attention/check_page_table.cu"),
    ),
    (
        "store_rows.cu",
        include_str!("../../cuda/cache/store_rows.cu"),
    ),
    (
        "compress.cu",
        include_str!("../../cuda/compressor/compress.cu"),
    ),
    ("heads.cu", include_str!("../../cuda/query/heads.cu")),
    (
        "index_query.cu",
        include_str!("../../cuda/query/index_query.cu"),
    ),
    (
        "quantise.cu",
        include_str!("../../cuda/quantise/quantise.cu"),
    ),
    (
        "metadata.cu",
        include_str!("../../cuda/metadata/metadata.cu"),
    ),
    ("rms_norm.cu", include_str!("../../cuda/glue/rms_norm.cu")),
    ("tokens.cu", include_str!("../../cuda/glue/tokens.cu")),
    ("mix.cu", include_str!("../../cuda/glue/mix.cu")),
    ("words.cu", include_str!("../../cuda/glue/words.cu")),
];

/// What the sources include.
const HEADERS: &[(&str, &str)] = &[
    ("common.cuh", include_str!("../../cuda/common.cuh")),
    ("logits.cuh", include_str!("../../cuda/indexer/logits.cuh")),
    (
        "selection.cuh",
        include_str!("../../cuda/indexer/selection.cuh"),
    ),
    ("mma.cuh", include_str!("../../cuda/mma.cuh")),
    ("pages.cuh", include_str!("../../cuda/pages.cuh")),
    ("fp8.cuh", include_str!("../../cuda/fp8.cuh")),
    ("rope.cuh", include_str!("../../cuda/rope.cuh")),
    ("hadamard.cuh", include_str!("../../cuda/hadamard.cuh")),
    ("row.cuh", include_str!("../../cuda/cache/row.cuh")),
    (
        "attention.cuh",
        include_str!("../../cuda/attention/attention.cuh"),
    ),
    (
        "hopper.cuh",
        include_str!("../../cuda/attention/hopper.cuh"),
    ),
    (
        "sparse.cuh",
        include_str!("../../cuda/attention/sparse.cuh"),
    ),
    ("wgmma.cuh", include_str!("../../cuda/attention/wgmma.cuh")),
    (
        "projection.cuh",
        include_str!("../../cuda/glue/projection.cuh"),
    ),
];

/// No image for a device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The kernels do not compile for the device.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device's backend is neither `cuda` nor `sim`.
    #[error("no kernels for the backend \"{0}\"; there are for \"cuda\" and \"sim\"")]
    Backend(&'static str),
}

/// The program that holds all kernels: one compilation, one module. It needs no
/// header of the CUDA toolkit.
pub fn program() -> Program {
    let mut source = String::new();
    for (name, _) in SOURCES {
        // Writing to a string does not fail.
        let _ = writeln!(source, "#include \"{name}\"");
    }
    Program {
        name: "dsv4.cu".into(),
        source,
        headers: SOURCES
            .iter()
            .chain(HEADERS)
            .map(|&(name, source)| Header {
                name: name.into(),
                source: source.into(),
            })
            .collect(),
        toolkit_headers: false,
    }
}

/// The CPU twins of all kernels.
pub fn twins() -> Vec<SimKernel> {
    [
        super::glue::twins(),
        super::cache::twins(),
        super::compressor::twins(),
        super::query::twins(),
        super::quantise::twins(),
        super::metadata::twins(),
        super::indexer::twins(),
        super::attention::twins(),
    ]
    .concat()
}

/// The module for a device: the twins for `sim`, a cubin compiled or taken from
/// the cache for `cuda`.
///
/// # Errors
/// For a CUDA device when the kernels cannot be compiled; see [`CompileError`].
/// For any other backend.
pub fn image(info: &DeviceInfo) -> Result<ModuleImage, ImageError> {
    match info.backend {
        "sim" => Ok(ModuleImage::Sim(twins())),
        "cuda" => Ok(ModuleImage::Cuda(compile::compile(
            &program(),
            info.capability,
        )?)),
        other => Err(ImageError::Backend(other)),
    }
}
