//! A small program that uses most of the library, and knows its own result.

use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::{add_one, fill_words};
use streamweir::{Capture, CaptureOptions, Device, Error, Graph, LoadedKernel, Persistent};

/// Elements of every buffer.
pub(crate) const LEN: usize = 1 << 16;

pub(crate) struct Program {
    pub(crate) fill: LoadedKernel<fill_words>,
    pub(crate) bump: LoadedKernel<add_one>,
    pub(crate) left: Persistent<u32>,
    pub(crate) right: Persistent<u32>,
}

impl Program {
    pub(crate) fn prepare(device: &Device, image: &Image) -> Result<Self, Error> {
        let module = image.load(device)?;
        Ok(Self {
            fill: module.kernel()?,
            bump: module.kernel()?,
            left: device.persistent("left", LEN)?,
            right: device.persistent("right", LEN)?,
        })
    }

    /// Two streams, each with scratch of its own: `left` becomes 5 + 1 + 1 and
    /// `right` 9 + 1, at every replay.
    pub(crate) fn capture(
        &self,
        device: &Device,
        options: impl Into<CaptureOptions>,
    ) -> Result<Graph, Error> {
        let (graph, ()) = device.capture(options, |cap| self.record(cap))?;
        Ok(graph)
    }

    pub(crate) fn record(&self, cap: &Capture) -> Result<(), Error> {
        let len = LEN as u32;
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let a = main.scratch::<u32>("a", LEN)?;
        let b = side.scratch::<u32>("b", LEN)?;
        side.scope("layer 0/side").launch(
            &self.fill,
            fill_words {
                data: &b,
                len,
                value: 9,
            },
        )?;
        main.scope("layer 0").launch(
            &self.fill,
            fill_words {
                data: &a,
                len,
                value: 5,
            },
        )?;
        side.launch(&self.bump, add_one { data: &b, len })?;
        main.launch(&self.bump, add_one { data: &a, len })?;
        main.launch(&self.bump, add_one { data: &a, len })?;
        let seen = cap.join(&main, side)?;
        main.copy(&self.left, &a)?;
        main.copy(&self.right, seen.see(&b))
    }

    /// Whether the buffers hold what a replay leaves in them.
    pub(crate) fn check(&self) -> Result<bool, Error> {
        Ok(self.left.download()?.iter().all(|&value| value == 7)
            && self.right.download()?.iter().all(|&value| value == 10))
    }

    /// All of it, once.
    pub(crate) fn run(device: &Device, image: &Image) -> Result<bool, Error> {
        let program = Self::prepare(device, image)?;
        let graph = program.capture(device, "program")?;
        let [first, second] = [device.stream("first")?, device.stream("second")?];
        for _ in 0..3 {
            graph.replay(&first)?;
            graph.replay(&second)?;
        }
        let right = program.check()?;
        drop(graph);
        device.synchronize()?;
        Ok(right)
    }
}
