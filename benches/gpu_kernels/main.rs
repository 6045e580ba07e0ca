//! Each kernel's time on a GPU against its floor: the bytes that it must move
//! over the memory's rate, or its operations over the tensor cores', whichever
//! is longer. A word on the command line measures only the kernels whose names
//! contain it.
//!
//! The peers that docs/benchmarks.md compares with are in `benches/peers`; they
//! time the same sizes in the same way and run in the same visit to the card.

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod harness;
mod indexer;
mod store;

use common::Outcome;
use harness::Harness;
use streamweir::Device;

fn main() -> Outcome {
    common::on_a_gpu(measure)
}

fn measure(device: Device) -> Outcome {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let harness = Harness::new(device, filter)?;
    indexer::rows(&harness)?;
    attention::rows(&harness)?;
    store::rows(&harness)
}
