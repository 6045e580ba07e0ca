//! What taps have read, and how two runs differ in it.

use std::fmt;
use std::panic::Location;

use streamweir_trace::{Buffer, BufferId, BufferKind, ByteRange, NodeId, Trace};
use streamweir_verify::Report;

use super::element::ElementKind;
use crate::error::{Error, InstrumentError, Result};

/// One copy.
#[derive(Clone, Debug)]
pub(super) struct Tap {
    /// Which command, of those that were tapped.
    pub(super) command: usize,
    pub(super) kernel: String,
    pub(super) stream: String,
    pub(super) scope: Option<String>,
    pub(super) line: &'static Location<'static>,
    pub(super) buffer: String,
    /// Of scratch, its number among the buffers that the recording took, from 0.
    pub(super) scratch: Option<usize>,
    pub(super) written: bool,
    pub(super) element: ElementKind,
    /// In the buffer.
    pub(super) bytes: ByteRange,
    /// Where the copy lies.
    pub(super) segment: usize,
    pub(super) offset: u64,
}

/// What the taps of one run read.
pub struct Readings {
    pub(super) name: String,
    pub(super) segments: Vec<Vec<u8>>,
    pub(super) taps: Vec<Tap>,
    pub(super) left_out: Vec<String>,
}

/// Where a run differs from another one of the same recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Differential {
    /// Copies that were compared.
    pub compared: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Copies that differ.
    pub differing: usize,
    /// The first of those that differ, in the order in which the commands were
    /// recorded; at most [`KEPT`](Self::KEPT).
    pub differences: Vec<Difference>,
    /// Buffers that commands write and that were not compared.
    pub not_compared: Vec<String>,
}

/// A buffer that differs, where a command has just read or written it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The buffer.
    pub buffer: String,
    /// Of scratch, its number among the buffers that the recording took, from 0.
    pub scratch: Option<usize>,
    /// The command: a kernel, or `copy`, `fill`, a library's call.
    pub kernel: String,
    /// Which command it is, counted from 0.
    pub command: usize,
    /// Whether the command has written the buffer; it has read it else.
    pub written: bool,
    /// The stream that the command is on in the run that was looked at.
    pub stream: String,
    /// The scope.
    pub scope: Option<String>,
    /// Where it was recorded.
    pub launch: String,
    /// Elements that were compared, and how many differ.
    pub elements: (usize, usize),
    /// The first element that differs, counted from the first of the buffer.
    pub element: usize,
    /// What the other run has there.
    pub expected: String,
    /// What the run that was looked at has.
    pub found: String,
}

impl Readings {
    /// How many copies there are.
    pub fn len(&self) -> usize {
        self.taps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// Buffers that commands write and of which there is no copy: libraries'
    /// workspaces, and persistent buffers that are too large.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn bytes(&self, tap: &Tap) -> &[u8] {
        let start = tap.offset as usize;
        &self.segments[tap.segment][start..start + tap.bytes.len() as usize]
    }

    /// Where `seen` differs from these readings. Streams may be others; the
    /// commands and their buffers are the same in both.
    ///
    /// # Errors
    /// [`InstrumentError::OtherRecording`](crate::InstrumentError::OtherRecording) when they are not.
    pub fn compare(&self, seen: &Self) -> Result<Differential> {
        let pairs = self.taps.iter().zip(&seen.taps);
        let odd = pairs
            .clone()
            .position(|(ours, theirs)| !ours.matches(theirs));
        let odd = odd.or((self.len() != seen.len()).then(|| self.len().min(seen.len())));
        if let Some(at) = odd {
            let what = |readings: &Self| {
                let tap = readings.taps.get(at);
                tap.map_or("nothing more".to_owned(), Tap::title)
            };
            return Err(Error::Instrument(InstrumentError::OtherRecording {
                expected: self.name.clone(),
                seen: seen.name.clone(),
                at,
                expected_has: what(self),
                seen_has: what(seen),
            }));
        }
        let mut result = Differential {
            compared: self.len(),
            not_compared: seen.left_out.clone(),
            ..Differential::default()
        };
        for (ours, theirs) in pairs {
            let (expected, found) = (self.bytes(ours), seen.bytes(theirs));
            result.bytes += expected.len() as u64;
            if expected == found {
                continue;
            }
            result.differing += 1;
            if result.differences.len() < Differential::KEPT {
                result.differences.push(theirs.difference(expected, found));
            }
        }
        Ok(result)
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings")
            .field("name", &self.name)
            .field("taps", &self.taps.len())
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

impl Tap {
    fn matches(&self, other: &Self) -> bool {
        let key = |tap: &Self| (tap.command, tap.written, tap.bytes);
        key(self) == key(other)
            && self.buffer == other.buffer
            && self.kernel == other.kernel
            && self.scope == other.scope
    }

    fn title(&self) -> String {
        let verb = if self.written { "written" } else { "read" };
        let Self {
            buffer,
            kernel,
            command,
            bytes,
            ..
        } = self;
        format!("\"{buffer}\" at {bytes}, {verb} by `{kernel}`, command {command}")
    }

    fn difference(&self, expected: &[u8], found: &[u8]) -> Difference {
        let size = self.element.size();
        let elements = expected.len().div_ceil(size);
        let differ =
            |element: &usize| part(expected, *element, size) != part(found, *element, size);
        let first = (0..elements).find(differ).unwrap_or(0);
        Difference {
            buffer: self.buffer.clone(),
            scratch: self.scratch,
            kernel: self.kernel.clone(),
            command: self.command,
            written: self.written,
            stream: self.stream.clone(),
            scope: self.scope.clone(),
            launch: self.line.to_string(),
            elements: (elements, (0..elements).filter(differ).count()),
            element: self.bytes.start as usize / size + first,
            expected: self.element.show(part(expected, first, size)),
            found: self.element.show(part(found, first, size)),
        }
    }
}

fn part(bytes: &[u8], element: usize, size: usize) -> &[u8] {
    &bytes[element * size..bytes.len().min((element + 1) * size)]
}

impl Differential {
    /// How many differences are kept.
    pub const KEPT: usize = 64;

    /// The first buffer that differs, in the order of the recording.
    pub fn first(&self) -> Option<&Difference> {
        self.differences.first()
    }

    /// Whether nothing differs.
    pub fn is_clean(&self) -> bool {
        self.differing == 0
    }
}

impl fmt::Display for Differential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            compared,
            bytes,
            differing,
            ..
        } = self;
        write!(
            f,
            "{differing} of {compared} copies differ ({bytes} bytes compared)"
        )?;
        if let Some(first) = self.first() {
            write!(f, "; the first:\n{first}")?;
        }
        if !self.not_compared.is_empty() {
            write!(f, "\nnot compared: {}", self.not_compared.join(", "))?;
        }
        Ok(())
    }
}

impl Difference {
    /// Whether a hazard of the report is about the very buffer, of several with one
    /// name this one, or about the command that wrote it: a product whose workspace
    /// is overwritten comes to a wrong result, and its workspace is compared with
    /// nothing. Trace and report are those of the run that was looked at.
    pub fn is_named_by(&self, trace: &Trace, report: &Report) -> bool {
        let buffers = &trace.buffers;
        let persistent = |buffer: &&Buffer| matches!(buffer.kind, BufferKind::Persistent);
        let id = match self.scratch {
            // Scratch stands behind what is persistent, in the order it was taken.
            Some(taken) => Some(buffers.iter().filter(persistent).count() + taken),
            None => (buffers.iter()).position(|buffer| buffer.name == self.buffer),
        };
        let Some(id) = id.filter(|&id| buffers.get(id).is_some_and(|b| b.name == self.buffer))
        else {
            return false;
        };
        let id = BufferId::at(id);
        let writers: Vec<NodeId> = (trace.accesses.iter())
            .filter(|access| self.written && access.buffer == id && access.mode.writes())
            .map(|access| access.node)
            .filter(|&node| trace.node(node).name == self.kernel)
            .filter(|&node| trace.scope_of(node) == self.scope.as_deref())
            .collect();
        report.hazards.iter().any(|hazard| {
            let sites = [Some(&hazard.first), hazard.second.as_ref()];
            hazard.buffers.iter().any(|buffer| buffer.id == id)
                || (sites.iter().flatten())
                    .any(|site| site.node.is_some_and(|node| writers.contains(&node)))
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.written { "written" } else { "read" };
        let scope = self.scope.as_deref().unwrap_or("-");
        let (elements, differ) = self.elements;
        write!(
            f,
            "  buffer \"{}\", {verb} by `{}` in \"{scope}\" on stream \"{}\" ({})\n  \
             element {}: {} instead of {}; {differ} of {elements} elements differ",
            self.buffer,
            self.kernel,
            self.stream,
            self.launch,
            self.element,
            self.found,
            self.expected,
        )
    }
}
