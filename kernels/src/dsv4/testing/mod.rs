//! Kernels that tests and benches need and engines do not: poison, a counter, a
//! copy that is late, and the steps of the fused kernels, each alone.

mod quantise;
mod words;

pub use quantise::{hadamard_rows, quantise_e4m3, quantise_latent};
pub use words::{add_one, copy_late, fill_words};

use super::part::{Line, line};
use words::WORDS;

/// The kernels of this part.
pub(super) const KERNELS: &[Line] = &[
    line!("testing/words.cu", words::sim_fill_words, WORDS),
    line!("testing/words.cu", words::sim_add_one, WORDS),
    line!("testing/words.cu", words::sim_copy_late, WORDS),
    line!("testing/quantise.cu", quantise::sim_hadamard_rows),
    line!("testing/quantise.cu", quantise::sim_quantise_e4m3),
    line!("testing/quantise.cu", quantise::sim_quantise_latent),
];
