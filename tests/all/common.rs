//! Kernels and short forms that the tests share.

use std::sync::Arc;

use streamweir::driver::sim::{LiveObjects, SimDriver};
use streamweir::driver::{DriverError, ModuleImage};
use streamweir::kernel::{In, InOut, Out, twin};
use streamweir::{ArenaConfig, Device, Error, Graph, LoadedKernel, Module, Persistent, kernel};

kernel! {
    /// `output[i] = input[i] + more`, one element a block.
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub(crate) unsafe fn plus(input: In<u32>, output: Out<u32>, more: u32, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len.max(1), 1).into())
    }
    /// `output[i] = left[i] + right[i]`, one element a block.
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub(crate) unsafe fn sum(left: In<u32>, right: In<u32>, output: Out<u32>, len: u32) {
        left.holds([len])?;
        right.holds([len])?;
        output.holds([len])?;
        Ok((len.max(1), 1).into())
    }
    /// `data[i] += 1`, one element a block.
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub(crate) unsafe fn bump(data: InOut<u32>, len: u32) {
        data.holds([len])?;
        Ok((len.max(1), 1).into())
    }
}

/// Elements of every buffer, and blocks of every launch.
pub(crate) const N: u32 = 4;
pub(crate) const LEN: usize = N as usize;
pub(crate) const GRID: (u32, u32) = (N, 1);

/// An arena that grows in small steps, so that what it reserves is what is
/// used.
pub(crate) const SMALL: ArenaConfig = ArenaConfig {
    segment_bytes: 4096,
    span_bytes: 256,
};

pub(crate) fn image() -> ModuleImage {
    ModuleImage::Sim(vec![
        twin::<plus>(|block, (input, output, more, len)| {
            let i = block.index()[0];
            if i < len {
                let value = block.read::<u32>(input.at(i as usize), 1)?[0];
                block.write(output.at(i as usize), &[value.wrapping_add(more)])?;
            }
            Ok(())
        }),
        twin::<sum>(|block, (left, right, output, len)| {
            let i = block.index()[0];
            if i < len {
                let left = block.read::<u32>(left.at(i as usize), 1)?[0];
                let right = block.read::<u32>(right.at(i as usize), 1)?[0];
                block.write(output.at(i as usize), &[left.wrapping_add(right)])?;
            }
            Ok(())
        }),
        twin::<bump>(|block, (data, len)| {
            let i = block.index()[0];
            if i < len {
                let value = block.read::<u32>(data.at(i as usize), 1)?[0];
                block.write(data.at(i as usize), &[value.wrapping_add(1)])?;
            }
            Ok(())
        }),
    ])
}

/// The kernels of [`image`], loaded.
pub(crate) struct Kernels {
    pub(crate) plus: LoadedKernel<plus>,
    pub(crate) sum: LoadedKernel<sum>,
    pub(crate) bump: LoadedKernel<bump>,
    pub(crate) module: Module,
}

impl Kernels {
    pub(crate) fn load(device: &Device) -> Result<Self, Error> {
        let module = device.load(&image())?;
        // SAFETY: the module has the twins of these declarations.
        unsafe {
            Ok(Self {
                plus: module.kernel()?,
                sum: module.kernel()?,
                bump: module.kernel()?,
                module,
            })
        }
    }
}

/// A graph that computes `y = x + 2` by scratch of a side stream that is joined.
pub(crate) fn by_a_side_stream(
    device: &Device,
    kernels: &Kernels,
    name: &str,
    x: &Persistent<u32>,
    y: &Persistent<u32>,
) -> Graph {
    let (more, len) = (1, N);
    let captured = device.capture::<_, Error>(name, |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let a = side.scratch::<u32>("a", LEN)?;
        let (input, output) = (x, &a);
        side.launch(
            &kernels.plus,
            plus {
                input,
                output,
                more,
                len,
            },
        )?;
        cap.join(&main, side)?;
        let (input, output) = (&a, y);
        main.launch(
            &kernels.plus,
            plus {
                input,
                output,
                more,
                len,
            },
        )
    });
    captured.unwrap().0
}

/// A simulated device, and the driver below it to ask what is live.
pub(crate) fn sim(seed: u64) -> (Device, Arc<SimDriver>) {
    let driver = SimDriver::new(seed);
    (Device::with_driver(driver.clone()), driver)
}

/// A driver's failure as an error of a foreign call.
pub(crate) fn foreign(source: DriverError) -> Error {
    Error::Driver {
        during: "a foreign call".into(),
        source,
    }
}

pub(crate) const NOTHING: LiveObjects = LiveObjects {
    allocations: 0,
    bytes: 0,
    reservations: 0,
    host_allocations: 0,
    streams: 0,
    events: 0,
    graphs: 0,
    execs: 0,
    modules: 0,
    captures: 0,
};

/// What is live, without the streams and events that a device keeps for its
/// next capture.
pub(crate) fn live(driver: &SimDriver) -> LiveObjects {
    LiveObjects {
        streams: 0,
        events: 0,
        ..driver.live()
    }
}
