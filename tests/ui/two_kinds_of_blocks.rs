//! A kernel that is declared twice over to wait, and one with a kind too many.

use streamweir::kernel;
use streamweir::kernel::InOut;

kernel! {
    /// Waits at a barrier.
    #[blocks(Spin)]
    #[allow(dead_code)]
    #[blocks(Cooperative)]
    fn barrier(arrived: InOut<u32>);
}

kernel! {
    #[blocks(Spin, Cooperative)]
    fn both(arrived: InOut<u32>);
}

fn main() {}
