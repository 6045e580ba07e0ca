//! Each kernel's time on a GPU against its floor: the bytes that it must move
//! over the memory's rate, or its operations over the tensor cores', whichever
//! is longer. A word on the command line measures only the kernels whose names
//! contain it.
//!
//! The peers that docs/benchmarks.md compares with are in `benches/peers`; they
//! time the same sizes in the same way and run in the same visit to the card.

mod attention;
mod harness;
mod indexer;
mod store;

use harness::{Harness, Outcome};
use streamweir::Device;

fn main() -> Outcome {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) if std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1") => {
            return Err(error.into());
        }
        Err(error) => {
            println!("not run: {error}");
            return Ok(());
        }
    };
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let harness = Harness::new(device, filter)?;
    indexer::rows(&harness)?;
    attention::rows(&harness)?;
    store::rows(&harness)
}
