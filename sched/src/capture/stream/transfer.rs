//! Copies and fills.

use std::panic::Location;

use streamweir_trace::AccessMode;

use super::Stream;
use super::emit::first_byte;
use crate::capture::lane::{Lane, VisibleOn};
use crate::capture::place::Buffer;
use crate::capture::record::{Mark, What};
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
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(
            state,
            mark,
            &[(to, AccessMode::Write), (from, AccessMode::Read)],
        )?;
        self.emit_copy(
            state,
            mark,
            first_byte(&to),
            first_byte(&from),
            to.bytes.len(),
            line,
        )
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
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(state, mark, &[(to, AccessMode::Write)])?;
        state.recording.pinned.push(from.memory.clone());
        self.emit_copy(
            state,
            mark,
            first_byte(&to),
            from.memory.address(),
            to.bytes.len(),
            line,
        )
    }

    fn emit_copy(
        &self,
        state: &mut State,
        mark: Mark,
        to: u64,
        from: u64,
        bytes: u64,
        line: &'static Location<'static>,
    ) -> Result<()> {
        if bytes == 0 {
            state.recording.take_back(mark);
            return Ok(());
        }
        self.emit(state, mark, What::Copy { to, from, bytes }, line, |state| {
            // SAFETY: both ranges are of memory that the graph keeps.
            unsafe { state.strands[self.id.index()].stream.copy(to, from, bytes) }
        })
    }

    /// Records a fill of a buffer's bytes with `value`.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn fill(&self, to: impl Buffer + VisibleOn<L>, value: u8) -> Result<()> {
        let line = Location::caller();
        let place = to.place();
        let (to, bytes) = (first_byte(&place), place.bytes.len());
        let mut guard = self.core.state.borrow_mut();
        let state = &mut *guard;
        self.open(state)?;
        let mark = state.recording.mark();
        self.touch_each(state, mark, &[(place, AccessMode::Write)])?;
        if bytes == 0 {
            state.recording.take_back(mark);
            return Ok(());
        }
        self.emit(
            state,
            mark,
            What::Fill { to, bytes, value },
            line,
            |state| {
                // SAFETY: the range is of memory that the graph keeps.
                unsafe { state.strands[self.id.index()].stream.fill(to, value, bytes) }
            },
        )
    }
}
