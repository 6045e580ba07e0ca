//! What the checks of the kernels let through, on a card.

use streamweir::Device;
use streamweir::kernels::conformance::edge;
use streamweir::kernels::dsv4::Image;

use super::{Outcome, Test};

pub(super) const TESTS: &[Test] = &[("short_buffers", short), ("hostile_contents", hostile)];

fn short(device: &Device, image: &Image) -> Outcome {
    Ok(edge::short(device, &image.load(device)?)?)
}

/// The guards stand around buffers that belong to this device alone.
fn hostile(_: &Device, image: &Image) -> Outcome {
    let device = Device::cuda(0)?.guarded();
    let code = image.load(&device)?;
    let seed = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    for nth in 0..32 {
        edge::hostile(&device, &code, seed.wrapping_add(nth))?;
    }
    Ok(())
}
