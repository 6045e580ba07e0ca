//! Kernels that tests and benches need and engines do not: poison, a counter, a
//! copy that is late, and the steps of the fused kernels, each alone.

mod quantise;
mod words;

pub use quantise::{hadamard_rows, quantise_e4m3, quantise_latent};
pub use words::{add_one, copy_late, fill_words};

use super::part::part;
use words::WORDS;

part! {
    fill_words: "testing/words.cu", words::sim_fill_words, WORDS;
    add_one: "testing/words.cu", words::sim_add_one, WORDS;
    copy_late: "testing/words.cu", words::sim_copy_late, WORDS;
    hadamard_rows: "testing/quantise.cu", quantise::sim_hadamard_rows;
    quantise_e4m3: "testing/quantise.cu", quantise::sim_quantise_e4m3;
    quantise_latent: "testing/quantise.cu", quantise::sim_quantise_latent;
}
