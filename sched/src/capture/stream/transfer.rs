//! Copies and fills.

use std::panic::Location;

use streamweir_trace::AccessMode;

use super::Stream;
use crate::capture::buffer::{Buffer, Place};
use crate::capture::lane::{Lane, VisibleOn};
use crate::capture::recording::{Draft, Operand, What};
use crate::device::{Pinned, Recorded};
use crate::error::{Error, Result};
use crate::kernel::Element;

impl<L: Lane> Stream<L> {
    /// Records a copy between two buffers of the same length.
    ///
    /// # Errors
    /// When the lengths differ or the bytes overlap; otherwise as [`launch`](Self::launch).
    #[track_caller]
    pub fn copy<T: Element>(
        &self,
        to: impl Buffer<Item = T> + VisibleOn<L>,
        from: impl Buffer<Item = T> + VisibleOn<L>,
    ) -> Result<()> {
        let line = Location::caller();
        let [to, from] = [to.place(), from.place()];
        self.transport::<T>(&to, &from, None, line)
    }

    /// Records an upload from page-locked host memory of the same length, which is read
    /// at each replay. Between replays it is refilled through
    /// [`Pinned::hold`](crate::Pinned::hold).
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[track_caller]
    pub fn upload<T: Element>(
        &self,
        to: impl Buffer<Item = T> + VisibleOn<L>,
        from: &Pinned<T>,
    ) -> Result<()> {
        let line = Location::caller();
        let host = Recorded::of(&from.inner);
        self.transport::<T>(&to.place(), &from.place(), Some(host), line)
    }

    /// Records a download to page-locked host memory of the same length, which is written
    /// at each replay. The host reads it through [`Pinned::hold`](crate::Pinned::hold).
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// use streamweir::{Device, Error};
    ///
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// let mut tokens = device.pinned::<u32>("tokens", 4)?;
    /// let (graph, ()) = device.capture::<_, Error>("step", |cap| {
    ///     let main = cap.origin();
    ///     let sampled = main.scratch::<u32>("sampled", 4)?;
    ///     main.fill(&sampled, 1)?;
    ///     main.download(&mut tokens, &sampled)
    /// })?;
    /// graph.replay(&device.stream("replay")?)?;
    /// assert_eq!(tokens.hold()?[..], [0x0101_0101; 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    #[track_caller]
    pub fn download<T: Element>(
        &self,
        to: &mut Pinned<T>,
        from: impl Buffer<Item = T> + VisibleOn<L>,
    ) -> Result<()> {
        let line = Location::caller();
        to.inner.note_written();
        let host = Recorded::of(&to.inner);
        self.transport::<T>(&to.place(), &from.place(), Some(host), line)
    }

    /// Records a copy between two places, one of which may be of page-locked memory.
    fn transport<T: Element>(
        &self,
        to: &Place<'_>,
        from: &Place<'_>,
        host: Option<Recorded>,
        line: &'static Location<'static>,
    ) -> Result<()> {
        let written = to.bytes.shifted(to.memory.range().start);
        let read = from.bytes.shifted(from.memory.range().start);
        if let (Some(written), Some(read)) = (written, read)
            && written.overlaps(&read)
        {
            return Err(Error::BadCopy {
                to: to.memory.name(),
                from: from.memory.name(),
                bytes: written,
            });
        }
        if to.bytes.len() != from.bytes.len() {
            return Err(Error::Length {
                buffer: to.memory.name(),
                has: to.bytes.len() as usize / size_of::<T>().max(1),
                what: format!(
                    "a copy of {} elements from \"{}\" does not fit",
                    from.bytes.len() as usize / size_of::<T>().max(1),
                    from.memory.name()
                ),
            });
        }
        drop(self.enter()?);
        let mut draft = self.recorder.draft();
        let bytes = to.bytes.len();
        let to = self.operand(&mut draft, to, AccessMode::Write)?;
        let from = self.operand(&mut draft, from, AccessMode::Read)?;
        draft.pinned.extend(host);
        self.transfer(draft, What::Copy { to, from, bytes }, bytes, line)
    }

    /// Notes that the command in the making touches `place`, from its first byte
    /// on.
    fn operand(&self, draft: &mut Draft, place: &Place<'_>, mode: AccessMode) -> Result<Operand> {
        let buffer = self.recorder.touch(draft, place, mode)?;
        Ok(Operand {
            address: place.memory.range().start + place.bytes.start,
            of: (buffer, place.bytes.start),
        })
    }

    /// Records a copy or a fill, unless it is of no bytes.
    fn transfer(
        &self,
        draft: Box<Draft>,
        what: What,
        bytes: u64,
        line: &'static Location<'static>,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.recorder
            .perform(self.spot(line), self.generation, |_| what, draft)
    }

    /// Records a fill of a buffer's bytes with `value`.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn fill(&self, to: impl Buffer + VisibleOn<L>, value: u8) -> Result<()> {
        let line = Location::caller();
        let place = to.place();
        let bytes = place.bytes.len();
        drop(self.enter()?);
        let mut draft = self.recorder.draft();
        let to = self.operand(&mut draft, &place, AccessMode::Write)?;
        let what = What::Fill {
            to,
            bytes,
            value,
            poison: false,
        };
        self.transfer(draft, what, bytes, line)
    }
}
