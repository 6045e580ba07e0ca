//! What each kernel computes, in plain Rust and double precision.
//!
//! Two kinds of function stand in each module: the formula for one row, which
//! the kernel's CPU twin calls for the part of the output that its thread block
//! owns, and the whole tensor, which tests hold a device's output against.
//! Nothing here knows how the CUDA kernel splits its work, and inputs are the
//! values that the kernel reads (bf16, f32), so what remains between a kernel
//! and its reference is the rounding of its f32 arithmetic and of its output.
//!
//! | kernel | compare with | tolerance |
//! | --- | --- | --- |
//! | bf16 results | `‖out - ref‖ / ‖ref‖` | 1e-2 |
//! | f32 logits, index weights | `‖out - ref‖ / ‖ref‖` over the entries inside the length | 2e-3 |
//! | selected indices | equality, given the same f32 logits | exact |
//! | fp8 bytes of given f32 values | equality with the quantiser | exact |
//! | fp8 bytes of computed values | the quantiser's bytes of a value that differs by no more than f32 arithmetic does | 2e-5 of the group's largest |
//!
//! # Panics
//! A function panics when a slice is shorter than its dimensions say; these are
//! tools for tests and twins, whose slices come from the same dimensions.

mod attention;
mod compressor;
mod fp8;
mod index_keys;
mod latents;
mod logits;
mod mix;
mod projection;
mod rows;
mod selection;
mod step;

pub use attention::{
    AttentionPart, attend, attend_part, combine_parts, gather_attention, latent_attention,
};
pub use compressor::{compress_c4, compress_c128, softmax_pool};
pub(crate) use fp8::FP8;
pub use fp8::{
    absmax, e4m3_scale, from_e4m3, from_ue8m0, quantise_e4m3, quantise_ue8m0, to_e4m3, ue8m0_scale,
};
pub use index_keys::{index_key, index_keys};
pub use latents::{latent, latent_at};
pub use logits::{fp8_key, indexer_logits, indexer_logits_fp8, logit, logit_fp8};
pub use mix::{mix, mix_element};
pub use projection::{dot, projection};
pub use rows::{
    Stored, angles, hadamard, rms_norm, rotate, stored_key, stored_key_fp8, stored_latent,
    weighted_rms_norm,
};
pub use selection::{order_key, select, top_k};
pub(crate) use step::MODEL;
pub use step::{C4, C128, MODEL_PAGE, StepMetadata, WINDOW, argmax, step_metadata, window};

/// `‖actual - expected‖ / ‖expected‖`, over the pairs whose expected value is
/// finite. Infinite where a pair disagrees about being finite, or where an
/// actual value is not a number.
///
/// ```
/// use streamweir_kernels::reference::relative_error;
///
/// let masked = f64::NEG_INFINITY;
/// assert_eq!(relative_error(&[3.0, masked], &[3.0, masked]), 0.0);
/// assert_eq!(relative_error(&[3.0, 0.0], &[3.0, masked]), f64::INFINITY);
/// ```
pub fn relative_error(actual: &[f64], expected: &[f64]) -> f64 {
    if actual.len() != expected.len() {
        return f64::INFINITY;
    }
    let (mut difference, mut norm) = (0.0_f64, 0.0_f64);
    for (&a, &e) in actual.iter().zip(expected) {
        if e.is_finite() && a.is_finite() {
            difference += (a - e) * (a - e);
            norm += e * e;
        } else if a != e {
            return f64::INFINITY;
        }
    }
    match (difference == 0.0, norm == 0.0) {
        (true, _) => 0.0,
        (false, true) => f64::INFINITY,
        (false, false) => (difference / norm).sqrt(),
    }
}
