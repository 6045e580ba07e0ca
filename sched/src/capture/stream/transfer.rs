//! Copies and fills.

use std::panic::Location;

use streamweir_trace::AccessMode;

use super::Stream;
use crate::capture::args::touch;
use crate::capture::lane::{Lane, VisibleOn};
use crate::capture::place::{Buffer, Place};
use crate::capture::record::{Mark, Operand, What};
use crate::capture::session::State;
use crate::device::Pinned;
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
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
        let mark = state.recording.mark();
        let bytes = to.bytes.len();
        let to = self.operand(state, mark, &to, AccessMode::Write)?;
        let from = self.operand(state, mark, &from, AccessMode::Read)?;
        self.emit_copy(state, mark, What::Copy { to, from, bytes }, bytes, line)
    }

    /// Records an upload from page-locked host memory, which is read at each
    /// replay.
    ///
    /// # Errors
    /// When the lengths differ; otherwise as [`launch`](Self::launch).
    #[track_caller]
    pub fn upload<T: Element>(
        &self,
        to: impl Buffer<Item = T> + VisibleOn<L>,
        from: &Pinned<T>,
    ) -> Result<()> {
        let line = Location::caller();
        let to = to.place();
        if to.bytes.len() != (from.len() * size_of::<T>()) as u64 {
            return Err(Error::Length {
                buffer: to.memory.name(),
                has: to.bytes.len() as usize / size_of::<T>().max(1),
                what: format!("\"{}\" has {}", from.name(), from.len()),
            });
        }
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
        let mark = state.recording.mark();
        let bytes = to.bytes.len();
        let to = self.operand(state, mark, &to, AccessMode::Write)?;
        state.recording.pinned.push(from.memory.clone());
        let from = Operand {
            address: from.memory.address(),
            of: None,
        };
        self.emit_copy(state, mark, What::Copy { to, from, bytes }, bytes, line)
    }

    /// Records that the command in the making touches `place`, from its first
    /// byte on.
    fn operand(
        &self,
        state: &mut State,
        mark: Mark,
        place: &Place<'_>,
        mode: AccessMode,
    ) -> Result<Operand> {
        match touch(&self.core, &mut state.recording, place, mode) {
            Ok(buffer) => Ok(Operand {
                address: place.memory.range().start + place.bytes.start,
                of: Some((buffer, place.bytes.start)),
            }),
            Err(error) => {
                state.recording.take_back(mark);
                Err(error)
            }
        }
    }

    /// Emits a copy or a fill, unless it is of no bytes.
    fn emit_copy(
        &self,
        state: &mut State,
        mark: Mark,
        what: What,
        bytes: u64,
        line: &'static Location<'static>,
    ) -> Result<()> {
        if bytes == 0 {
            state.recording.take_back(mark);
            return Ok(());
        }
        self.emit(state, mark, what, line)
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
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.enter(state)?;
        let mark = state.recording.mark();
        let to = self.operand(state, mark, &place, AccessMode::Write)?;
        let what = What::Fill {
            to,
            bytes,
            value,
            poison: false,
        };
        self.emit_copy(state, mark, what, bytes, line)
    }
}
