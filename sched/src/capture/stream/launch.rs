//! Kernel launches.

use std::panic::Location;

use super::Stream;
use crate::capture::args::{Args, Binder};
use crate::capture::buffer::Touch;
use crate::capture::early;
use crate::capture::lane::Lane;
use crate::capture::recording::{Recording, What};
use crate::device::LoadedKernel;
use crate::driver::LaunchShape;
use crate::error::{Error, Result};
use crate::kernel::Kernel;

impl<L: Lane> Stream<L> {
    /// Records the launch of a kernel.
    ///
    /// # Errors
    /// When an argument is of another capture or device, the driver refuses, or
    /// the capture has ended or is broken.
    #[track_caller]
    pub fn launch<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        shape: impl Into<LaunchShape>,
        args: A,
    ) -> Result<()> {
        self.launch_also(kernel, shape, args, &[])
    }

    /// Records the launch of a kernel that touches more memory than its
    /// parameters point to: what it reaches through a table.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_also<K: Kernel, A: Args<K, L>>(
        &self,
        kernel: &LoadedKernel<K>,
        shape: impl Into<LaunchShape>,
        args: A,
        also: &[Touch<'_, L>],
    ) -> Result<()> {
        let line = Location::caller();
        let shape = shape.into();
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
        args.bind(&mut Binder::new(recorder, &mut draft, &info.slots))?;
        for touch in also {
            recorder.touch(&mut draft, &touch.place, touch.mode)?;
        }
        let what = |recording: &mut Recording| What::Kernel {
            info: info.clone(),
            shape,
            start: early::start(recorder.programmatic, recording, &info.signature),
        };
        recorder.perform(self.spot(line), self.generation, what, draft)
    }
}
