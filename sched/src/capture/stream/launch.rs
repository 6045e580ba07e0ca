//! Kernel launches.

use std::panic::Location;

use streamweir_trace::BlockSync;

use super::Stream;
use crate::capture::args::{Args, Binder};
use crate::capture::lane::Lane;
use crate::capture::place::Touch;
use crate::capture::record::What;
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
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
        if !info.function.module().is_on(&self.core.device.reclaim) {
            return Err(Error::OtherDevice {
                what: format!("kernel `{}`", K::SYMBOL),
                used_on: self.core.device.reclaim.info().name.clone(),
            });
        }
        let mark = state.recording.mark();
        let mut binder = Binder {
            core: &self.core,
            base: state.recording.param_bytes.len(),
            recording: &mut state.recording,
            slots: &info.slots,
            next: 0,
        };
        let bound = args
            .bind(&mut binder)
            .and_then(|()| self.touch_all(state, also));
        if let Err(error) = bound {
            state.recording.take_back(mark);
            return Err(error);
        }
        state.recording.spins |= info.signature.sync != BlockSync::Independent;
        let what = What::Kernel {
            info: info.clone(),
            shape,
            start: self.core.start_of(state, &info.signature),
            params: state.recording.params_since(mark),
            pointers: state.recording.pointers_since(mark),
        };
        self.emit(state, mark, what, line)
    }
}
