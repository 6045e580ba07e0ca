//! Whether the tables of a session fit together: every id names an entry, every
//! range lies in its buffer. Whether the session is safe is the verifier's to
//! say.

use super::error::{MAX_USES, SessionError};
use super::model::Session;
use super::step::{Place, StepKind, Use};
use crate::access::AccessMode;
use crate::id::{BufferId, StepId};
use crate::range::ByteRange;

impl Session {
    /// Checks that the tables fit together.
    ///
    /// # Errors
    /// The first id without an entry, the first range upside down or outside its
    /// buffer, or the first `reads_from` that names a step which is not earlier
    /// or writes nothing there. Also when the steps touch too many places.
    pub fn check(&self) -> Result<(), SessionError> {
        for (at, buffer) in self.buffers.iter().enumerate() {
            let whence = || format!("buffer {} (\"{}\")", BufferId::at(at), buffer.name);
            upright(buffer.range, whence)?;
        }
        for (at, graph) in self.graphs.iter().enumerate() {
            let whence = || format!("graph g{at} (\"{}\")", graph.name);
            self.check_uses(&graph.uses, whence)?;
        }
        let mut left = MAX_USES;
        for at in 0..self.steps.len() {
            self.check_step(StepId::at(at), &mut left)?;
        }
        Ok(())
    }

    fn check_step(&self, id: StepId, left: &mut usize) -> Result<(), SessionError> {
        let step = self.step(id);
        let whence = || format!("step {id} (\"{}\")", step.name);
        let known = |id: &dyn ToString, index: usize, table: &'static str, count: usize| {
            if index < count {
                return Ok(());
            }
            Err(SessionError::NoSuchEntry {
                whence: whence(),
                id: id.to_string(),
                table,
                count,
            })
        };
        let stream = step.stream().or(match step.kind {
            StepKind::SyncStream { stream } => Some(stream),
            _ => None,
        });
        if let Some(stream) = stream {
            known(&stream, stream.index(), "streams", self.streams.len())?;
        }
        match &step.kind {
            StepKind::Launch { graph, .. } => {
                known(graph, graph.index(), "graphs", self.graphs.len())?;
            }
            StepKind::Record { event, .. }
            | StepKind::Wait { event, .. }
            | StepKind::SyncEvent { event } => {
                known(event, event.index(), "events", self.events.len())?;
            }
            StepKind::Eager { uses, .. } | StepKind::Host { uses } => {
                self.check_uses(uses, whence)?;
            }
            StepKind::Copy {
                from, to, bytes, ..
            } => {
                self.check_place(from, *bytes, whence)?;
                self.check_place(to, *bytes, whence)?;
            }
            StepKind::SyncStream { .. } | StepKind::SyncDevice => {}
        }
        self.take(id, left)?;
        for &from in &step.reads_from {
            if from >= id {
                return Err(SessionError::ReadsFromLater {
                    whence: whence(),
                    from,
                });
            }
            self.take(from, left)?;
            self.take(id, left)?;
            if !self.feeds(from, id) {
                return Err(SessionError::ReadsFromNothing {
                    whence: whence(),
                    from,
                    name: self.step(from).name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Takes the uses of a step from what may still be looked at.
    fn take(&self, id: StepId, left: &mut usize) -> Result<(), SessionError> {
        let uses = match &self.step(id).kind {
            StepKind::Launch { graph, .. } => self.graphs[graph.index()].uses.len(),
            StepKind::Eager { uses, .. } | StepKind::Host { uses } => uses.len(),
            _ => 2,
        };
        *left = left.checked_sub(uses).ok_or(SessionError::TooLarge)?;
        Ok(())
    }

    /// Whether one step writes a byte, by address, that another reads.
    fn feeds(&self, from: StepId, reader: StepId) -> bool {
        let ranges = |step: StepId, wanted: fn(AccessMode) -> bool| {
            let uses = self.uses(self.step(step)).into_iter();
            let mut ranges: Vec<ByteRange> = uses
                .filter(|used| wanted(used.mode) && !used.bytes.is_empty())
                .filter_map(|used| used.bytes.shifted(self.buffer(used.buffer).range.start))
                .collect();
            ranges.sort_unstable();
            ranges
        };
        let writes = ranges(from, AccessMode::writes);
        let mut written = writes.iter().peekable();
        let mut reached = 0;
        ranges(reader, AccessMode::reads).into_iter().any(|read| {
            while let Some(write) = written.next_if(|write| write.start < read.end) {
                reached = reached.max(write.end);
            }
            // The writes so far all start below the end of this read; those
            // that end above its start reach into it.
            reached > read.start
        })
    }

    fn check_place(
        &self,
        place: &Place,
        bytes: u64,
        whence: impl Fn() -> String,
    ) -> Result<(), SessionError> {
        match ByteRange::from_len(place.at, bytes) {
            Some(range) => self.check_bytes(place.buffer, range, whence),
            None => Err(SessionError::PastTheEnd {
                whence: whence(),
                at: place.at,
                bytes,
            }),
        }
    }

    fn check_uses(&self, uses: &[Use], whence: impl Fn() -> String) -> Result<(), SessionError> {
        uses.iter()
            .try_for_each(|used| self.check_bytes(used.buffer, used.bytes, &whence))
    }

    fn check_bytes(
        &self,
        id: BufferId,
        bytes: ByteRange,
        whence: impl Fn() -> String,
    ) -> Result<(), SessionError> {
        let Some(buffer) = self.buffers.get(id.index()) else {
            return Err(SessionError::NoSuchEntry {
                whence: whence(),
                id: id.to_string(),
                table: "buffers",
                count: self.buffers.len(),
            });
        };
        upright(bytes, &whence)?;
        if bytes.end > buffer.range.len() {
            return Err(SessionError::OutsideBuffer {
                whence: whence(),
                buffer: buffer.name.clone(),
                bytes,
                len: buffer.range.len(),
            });
        }
        Ok(())
    }
}

fn upright(range: ByteRange, whence: impl FnOnce() -> String) -> Result<(), SessionError> {
    if range.start <= range.end {
        return Ok(());
    }
    Err(SessionError::InvertedRange {
        whence: whence(),
        start: range.start,
        end: range.end,
    })
}
