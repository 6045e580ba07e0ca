//! A kernel that waits on some paths only does not wait.

use streamweir::kernel;
use streamweir::kernel::InOut;

kernel! {
    #[waits(sometimes)]
    fn hesitant(data: InOut<u32>);
}

fn main() {}
