//! Kernel launches.

use std::panic::Location;

use streamweir_hal::driver::{Backend, DeviceInfo, LaunchShape};
use streamweir_trace::AccessMode;

use super::Stream;
use crate::capture::args::{Args, Binder, CheckedArgs};
use crate::capture::buffer::Touch;
use crate::capture::early;
use crate::capture::lane::Lane;
use crate::capture::recording::{Draft, LaunchSaid, Recording, What};
use crate::device::{KernelInfo, LoadedKernel};
use crate::error::{Error, KernelError, Result};
use crate::kernel::{Bound, Given, Kernel};

impl<L: Lane> Stream<L> {
    /// Records the launch of a kernel, in the shape that its check gives.
    ///
    /// # Errors
    /// When the kernel does not take the arguments; when one has bytes of another
    /// that the kernel writes, and the declaration does not allow it; when one is of
    /// another capture or device, the driver refuses, or the capture has ended or is
    /// broken.
    #[track_caller]
    pub fn launch<K: Kernel, A: CheckedArgs<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        args: A,
    ) -> Result<()> {
        let line = Location::caller();
        let shape = |draft: &Draft| {
            let info = &*kernel.info;
            apart(info, &draft.bound)?;
            args.check(Given {
                slots: &info.slots,
                bytes: &draft.params,
                bound: &draft.bound,
                device: self.recorder.device.reclaim.info(),
                next: 0,
            })
            .map_err(|why| {
                Error::Kernel(KernelError::Arguments {
                    kernel: K::SYMBOL.to_owned(),
                    why,
                })
            })
        };
        self.launch_with(kernel, &args, None, shape, line)
    }

    /// Records the launch of a kernel in any shape, without its check. `also` is
    /// memory that it touches besides its arguments, such as what it reaches through a
    /// table.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), for all but the check.
    ///
    /// # Safety
    /// Launched so, with these arguments and whatever the buffers contain, the kernel
    /// touches what it declares, within the buffers, and `also`, and nothing else.
    #[track_caller]
    pub unsafe fn launch_unchecked<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        shape: impl Into<LaunchShape>,
        args: A,
        also: &[Touch<'_, L>],
    ) -> Result<()> {
        let line = Location::caller();
        let shape = shape.into();
        self.launch_with(kernel, &args, Some(also), |_| Ok(shape), line)
    }

    /// Records a launch, which nothing has checked when it says what it touches `also`.
    fn launch_with<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        args: &A,
        also: Option<&[Touch<'_, L>]>,
        shape: impl FnOnce(&Draft) -> Result<LaunchShape>,
        line: &'static Location<'static>,
    ) -> Result<()> {
        let info = &kernel.info;
        let recorder = &*self.recorder;
        drop(self.enter()?);
        if !info.function.module().is_on(&recorder.device.reclaim) {
            return Err(Error::OtherDevice {
                what: format!("kernel `{}`", K::SYMBOL),
                used_on: recorder.device.reclaim.info().name.clone(),
            });
        }
        let mut draft = recorder.draft();
        args.bind(&mut Binder::new(recorder, &mut draft, &info.slots))
            .map_err(|error| argument_of(K::SYMBOL, error))?;
        let shape = shape(&draft)?;
        check_cluster(info, shape, recorder.device.reclaim.info())?;
        info.allow_shared(shape.shared_bytes)?;
        for touch in also.unwrap_or_default() {
            recorder.touch(&mut draft, &touch.place, touch.mode)?;
        }
        let said = LaunchSaid {
            narrowed: draft.narrowed,
            unchecked: also.is_some(),
        };
        let what = |recording: &mut Recording| What::Kernel {
            info: info.clone(),
            shape,
            start: early::start(recorder.programmatic, recording, &info.signature),
            said,
        };
        recorder.perform(self.spot(line), self.generation, what, draft)
    }
}

/// The same error, which names the kernel of the argument.
fn argument_of(kernel: &str, error: Error) -> Error {
    match error {
        Error::OtherDevice { what, used_on } => Error::OtherDevice {
            what: format!("{what}, an argument of kernel `{kernel}`,"),
            used_on,
        },
        Error::OtherCapture {
            what,
            made_in,
            used_in,
        } => Error::OtherCapture {
            what: format!("{what}, an argument of kernel `{kernel}`,"),
            made_in,
            used_in,
        },
        other => other,
    }
}

/// Refuses clusters before the driver does, which would break the capture.
fn check_cluster(info: &KernelInfo, shape: LaunchShape, device: &DeviceInfo) -> Result<()> {
    let LaunchShape { cluster, grid, .. } = shape;
    if cluster == [0; 3] {
        return Ok(());
    }
    let divides = |(grid, cluster): (&u32, &u32)| *cluster > 0 && grid % cluster == 0;
    let why = if device.backend == Backend::Cuda && device.capability < (9, 0) {
        "the device has no clusters, which came with compute capability 9.0"
    } else if !grid.iter().zip(&cluster).all(divides) {
        "a cluster has to divide the grid along each axis"
    } else {
        return Ok(());
    };
    Err(Error::Kernel(KernelError::Cluster {
        kernel: info.signature.symbol.to_owned(),
        cluster,
        grid,
        why,
    }))
}

/// Refuses arguments that share bytes which the kernel writes: compiled code may take
/// them for apart.
fn apart(info: &KernelInfo, bound: &[Bound]) -> Result<()> {
    for (at, one) in bound.iter().enumerate() {
        for other in &bound[..at] {
            if !one.touched.overlaps(&other.touched) {
                continue;
            }
            let only_read = !one.mode.writes() && !other.mode.writes();
            let only_atomic = [one.mode, other.mode] == [AccessMode::Atomic; 2];
            if only_read || only_atomic {
                continue;
            }
            let [first, second] =
                [other, one].map(|bound| info.signature.params[bound.param as usize].name);
            let allowed = |&pair: &(&str, &str)| pair == (first, second) || pair == (second, first);
            let same = one.address == other.address && one.touched == other.touched;
            if same && info.signature.in_place.iter().any(allowed) {
                continue;
            }
            return Err(Error::Kernel(KernelError::SharedBytes {
                kernel: info.signature.symbol.to_owned(),
                first: first.to_owned(),
                second: second.to_owned(),
            }));
        }
    }
    Ok(())
}
