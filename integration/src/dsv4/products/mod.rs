//! The matrix products of a step.
//!
//! The algorithms are fixed when they are made, one set for each number of rows, so
//! that an eager run and every graph of these rows give the same bits. For the
//! products of main in a bucket, which the step waits for, they are what is measured to
//! be the fastest; two engines may decide otherwise, and then differ in last bits.

mod fastest;

use std::num::NonZeroU32;

use half::bf16;
use streamweir::kernels::gemm::{Gemm, GemmOptions, GemmOutput, GemmShape};
use streamweir::{Device, Persistent};

use self::fastest::fastest;
use super::config::{Config, HEAD_DIM, INDEX_DIM};
use super::error::Error;
use super::model::Model;
use super::weights::LayerWeights;

/// Multiprocessors for the compressors' products, of an H200's 132: with all of them
/// such a product comes to its end sooner, and the step beside which it runs later. By
/// measurement (docs/gpu-results.md, "Leaving room").
const FOR_C4_SCORES: u32 = 32;
const FOR_C128_SCORES: u32 = 48;
/// Likewise for that of the index queries, beside the queries'.
const FOR_INDEX_QUERIES: u32 = 48;

/// The products of a step of so many rows.
pub(super) struct Products {
    pub(super) qkv_a: Gemm<bf16>,
    pub(super) q_b: Gemm<bf16>,
    pub(super) o_a: Gemm<bf16>,
    pub(super) o_b: Gemm<bf16>,
    pub(super) c4_scores: Gemm<f32>,
    pub(super) c128_scores: Gemm<f32>,
    pub(super) key_scores: Gemm<f32>,
    pub(super) head_weights: Gemm<f32>,
    pub(super) index_q_b: Gemm<bf16>,
    pub(super) head: Gemm<f32>,
}

impl Products {
    /// Those of a bucket: main's are measured.
    pub(super) fn measured(device: &Device, model: &Model, rows: u32) -> Result<Self, Error> {
        Self::new(model, rows, |shape, weight| {
            let weights: Vec<_> = model.weights.layers.iter().map(weight).collect();
            let options = GemmOptions::default();
            let proposals = model.library.proposals::<bf16>(shape, options)?;
            fastest(device, proposals, &weights)
        })
    }

    /// Those of a batch that no bucket holds, as the library thinks best: a step is
    /// due, and others may be in flight, beside which nothing can be measured.
    pub(super) fn at_once(model: &Model, rows: u32) -> Result<Self, Error> {
        Self::new(model, rows, |shape, _| first_choice(model, shape, None))
    }

    fn new(
        model: &Model,
        rows: u32,
        main: impl Fn(GemmShape, fn(&LayerWeights) -> &Persistent<bf16>) -> Result<Gemm<bf16>, Error>,
    ) -> Result<Self, Error> {
        let shape = |width, out| GemmShape::new(rows, width, out);
        let Config {
            hidden,
            q_lora,
            o_lora,
            o_groups,
            ..
        } = model.config;
        let config = &model.config;
        Ok(Self {
            qkv_a: main(shape(hidden, config.qkv()), |layer| &layer.qkv_a)?,
            q_b: main(shape(q_lora, config.query()), |layer| &layer.q_b)?,
            o_a: main(
                GemmShape::grouped(rows, o_groups, config.query() / o_groups, o_lora),
                |layer| &layer.o_a,
            )?,
            o_b: main(shape(o_groups * o_lora, hidden), |layer| &layer.o_b)?,
            c4_scores: first_choice(model, shape(hidden, 4 * HEAD_DIM), Some(FOR_C4_SCORES))?,
            c128_scores: first_choice(model, shape(hidden, 2 * HEAD_DIM), Some(FOR_C128_SCORES))?,
            key_scores: first_choice(model, shape(hidden, 4 * INDEX_DIM), None)?,
            head_weights: first_choice(model, shape(hidden, config.index_heads), None)?,
            index_q_b: first_choice(
                model,
                shape(q_lora, config.index_query()),
                Some(FOR_INDEX_QUERIES),
            )?,
            head: first_choice(model, shape(hidden, config.vocabulary), None)?,
        })
    }
}

/// What the library thinks the fastest, with so many multiprocessors or all.
fn first_choice<O: GemmOutput>(
    model: &Model,
    shape: GemmShape,
    multiprocessors: Option<u32>,
) -> Result<Gemm<O>, Error> {
    let options = GemmOptions {
        multiprocessors: multiprocessors.and_then(NonZeroU32::new),
        ..GemmOptions::default()
    };
    Ok(model.library.gemm(shape, options)?)
}
