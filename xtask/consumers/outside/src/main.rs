//! What a dependent does: captures two streams and replays the proven graph.

use streamweir::{Device, Error};

fn main() -> Result<(), Error> {
    let device = Device::sim(1);
    let out = device.persistent::<u32>("out", 64)?;
    let (graph, ()) = device.capture("outside", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let part = side.scratch::<u32>("part", 64)?;
        side.fill(&part, 7)?;
        let seen = cap.join(&main, side)?;
        main.copy(&out, seen.see(&part))
    })?;
    graph.replay(&device.stream("replay")?)?;
    assert_eq!(out.download()?, [0x0707_0707; 64]);
    assert!(graph.certificate().is_some(), "{}", graph.report());
    Ok(())
}

/// The consumer's cudarc and ours are one crate, so that contexts, streams and
/// slices can be handed over.
#[cfg(any(feature = "cuda-12080", feature = "cuda-13000"))]
pub fn one_cudarc(
    context: &std::sync::Arc<cudarc::driver::CudaContext>,
) -> &std::sync::Arc<streamweir::cudarc::driver::CudaContext> {
    context
}
