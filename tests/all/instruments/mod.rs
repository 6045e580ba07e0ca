//! Instruments of captures: poison, taps, guards. Each finds what it is for, and
//! none leaves a trace where it is not asked for.

mod guards;
mod poison;
mod taps;

use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::{Capture, CaptureOptions, Device, Error, Graph, Persistent, Scratch, Verify};

use crate::common::{Kernels, LEN, N, plus};

/// ```text
/// main   W a ---- drop a ---- W b ------------- R c
///            \                              /
/// side        R a -> c --------------------+
/// ```
///
/// A pool in host order puts `b` where `side` still reads `a`. Both hold the same
/// values, so that no result shows it.
pub(super) struct Story {
    pub(super) driver: Arc<SimDriver>,
    pub(super) device: Device,
    pub(super) x: Persistent<u32>,
    pub(super) y: Persistent<u32>,
    pub(super) z: Persistent<u32>,
    pub(super) kernels: Kernels,
    /// What is added to `x` for `b`; 10 for `a`.
    pub(super) more: u32,
}

impl Story {
    pub(super) const Y: [u32; 4] = [12, 13, 14, 15];

    pub(super) fn new(more: u32) -> Self {
        let driver = SimDriver::new(0);
        let device = Device::with_driver(driver.clone());
        Self {
            x: device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            z: device.persistent("z", LEN).unwrap(),
            kernels: Kernels::load(&device).unwrap(),
            device,
            driver,
            more,
        }
    }

    /// Records it; `drop_a` is given `a` where it is dropped.
    pub(super) fn record_with(
        &self,
        cap: &Capture,
        overlap: bool,
        drop_a: impl FnOnce(Scratch<u32>),
    ) -> Result<(), Error> {
        let plus = &self.kernels.plus;
        let main = cap.origin();
        let a = main.scope("layer 0").scratch::<u32>("a", LEN)?;
        main.launch(
            plus,
            plus {
                input: &self.x,
                output: &a,
                more: 10,
                len: N,
            },
        )?;
        let side = cap.fork_if(overlap, &main, "side")?.scope("layer 0/side");
        let c = side.scratch::<u32>("c", LEN)?;
        side.launch(
            plus,
            plus {
                input: &a,
                output: &c,
                more: 1,
                len: N,
            },
        )?;
        drop_a(a);
        let b = main.scope("layer 0").scratch::<u32>("b", LEN)?;
        main.launch(
            plus,
            plus {
                input: &self.x,
                output: &b,
                more: self.more,
                len: N,
            },
        )?;
        cap.join(&main, side)?;
        main.launch(
            plus,
            plus {
                input: &c,
                output: &self.y,
                more: 0,
                len: N,
            },
        )?;
        main.launch(
            plus,
            plus {
                input: &b,
                output: &self.z,
                more: 0,
                len: N,
            },
        )
    }

    pub(super) fn record(&self, cap: &Capture, overlap: bool) -> Result<(), Error> {
        self.record_with(cap, overlap, drop)
    }

    pub(super) fn capture(&self, options: CaptureOptions) -> Graph {
        let record = |cap: &Capture| self.record(cap, true);
        self.device.capture::<_, Error>(options, record).unwrap().0
    }

    /// Whether a replay under `seed` gives other results than it should.
    pub(super) fn goes_wrong(&self, graph: &Graph, seed: u64) -> bool {
        self.driver.reseed(seed);
        let stream = self.device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        let z = [1, 2, 3, 4].map(|x| x + self.more);
        self.y.download().unwrap() != Self::Y || self.z.download().unwrap() != z
    }
}

/// The options of an engine that frees at host drop.
pub(super) fn host_order() -> CaptureOptions {
    // SAFETY: nothing relies on the results, and no kernel computes addresses.
    let options = unsafe { CaptureOptions::new("story").host_order_pools() };
    options.verify(Verify::Report)
}
