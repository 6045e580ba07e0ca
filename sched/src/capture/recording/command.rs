//! One recorded command, and how it names buffers.

use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::BlockId;
use streamweir_hal::driver::{LaunchShape, Start};
use streamweir_trace::{AccessMode, ByteRange, PdlWait, ScopeId, SourceLine, StreamId};

use super::Draft;
use crate::device::{EventInner, HostFn, KernelInfo};

/// A buffer of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum BufferKey {
    /// A scratch block, by its place in the table of the pools.
    Scratch(u32),
    /// A registered buffer, by its place in the recording's table.
    Persistent(u32),
}

impl BufferKey {
    pub(in crate::capture) fn of_block(block: BlockId) -> Self {
        Self::Scratch(block.index() as u32)
    }

    /// The place of a scratch block in the table of the pools.
    pub(in crate::capture) fn block(self) -> Option<usize> {
        match self {
            Self::Scratch(block) => Some(block as usize),
            Self::Persistent(_) => None,
        }
    }
}

/// Where a command stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) struct Spot {
    pub(in crate::capture) stream: StreamId,
    pub(in crate::capture) scope: Option<ScopeId>,
    pub(in crate::capture) line: &'static Location<'static>,
}

impl Spot {
    /// The line, as a trace has it.
    pub(in crate::capture) fn source_line(&self) -> SourceLine {
        SourceLine {
            file: self.line.file().to_owned(),
            line: self.line.line(),
        }
    }
}

/// One recorded piece of work. The ranges are of the recording's tables.
pub(in crate::capture) struct Command {
    pub(in crate::capture) what: What,
    pub(in crate::capture) spot: Spot,
    pub(in crate::capture) params: Range<u32>,
    pub(in crate::capture) pointers: Range<u32>,
    /// The commands it waits for.
    pub(in crate::capture) after: Range<u32>,
}

pub(in crate::capture) enum What {
    Kernel {
        info: Arc<KernelInfo>,
        shape: LaunchShape,
        start: Start,
        said: LaunchSaid,
    },
    Copy {
        to: Operand,
        from: Operand,
        bytes: u64,
    },
    Fill {
        to: Operand,
        bytes: u64,
        value: u8,
        /// Added by [`Poison`](crate::Poison).
        poison: bool,
    },
    EventRecord(Arc<EventInner>),
    EventWait(Arc<EventInner>),
    /// A call of a function of the host.
    Host(Arc<HostFn>),
    /// A library's work.
    Foreign {
        name: String,
        said: CallSaid,
    },
}

/// What the author of a launch vouches for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::capture) struct LaunchSaid {
    /// An argument is narrowed: the kernel touches no more of it.
    pub(in crate::capture) narrowed: bool,
    /// Shape and arguments have not been checked.
    pub(in crate::capture) unchecked: bool,
}

/// What the caller of a library vouches for beside what is touched.
#[derive(Clone, Default)]
pub(in crate::capture) struct CallSaid {
    /// Whether kernels of the call that start early wait for what they follow.
    pub(in crate::capture) pdl: PdlWait,
    /// Memory that is kept alive for the call.
    pub(in crate::capture) keeps: Vec<Kept>,
    /// Why words of parameters that nothing explains are not used.
    pub(in crate::capture) left_over: Option<String>,
}

/// Memory that the graph keeps alive for a library's call.
#[derive(Clone)]
pub(in crate::capture) struct Kept {
    pub(in crate::capture) name: String,
    pub(in crate::capture) range: ByteRange,
}

impl What {
    /// What it is called in reports: the kernel's symbol, the library's call, or
    /// what is done.
    pub(in crate::capture) fn title(&self) -> String {
        match self {
            Self::Kernel { info, .. } => info.signature.symbol.to_owned(),
            Self::Copy { .. } => "copy".to_owned(),
            Self::Fill { poison: true, .. } => "poison".to_owned(),
            Self::Fill { .. } => "fill".to_owned(),
            Self::EventRecord(event) => format!("record {}", event.name),
            Self::EventWait(event) => format!("wait {}", event.name),
            Self::Host(function) => function.name.clone(),
            Self::Foreign { name, .. } => name.clone(),
        }
    }

    /// Whether nobody can say what the command touches or who relies on its order, so
    /// that straight on the device it comes after all that is in flight: see
    /// [`sink`](crate::capture::sink).
    pub(in crate::capture) fn is_open_ended(&self, draft: &Draft) -> bool {
        match self {
            Self::Kernel { info, .. } => shows_words(info, &draft.params, &draft.pointers),
            Self::EventRecord(event) => event.is_recorded_by_a_graph(),
            Self::Copy { .. } | Self::Fill { .. } | Self::EventWait(_) | Self::Host(_) => false,
            // It was ordered before it was made.
            Self::Foreign { .. } => false,
        }
    }

    /// What is being done, for errors of the driver.
    pub(in crate::capture) fn doing(&self) -> String {
        match self {
            Self::Kernel { info, .. } => format!("launching `{}`", info.signature.symbol),
            Self::Copy { bytes, .. } => format!("copying {bytes} bytes"),
            Self::Fill { bytes, poison, .. } => match poison {
                false => format!("filling {bytes} bytes"),
                true => format!("poisoning {bytes} bytes"),
            },
            Self::EventRecord(event) => format!("recording event \"{}\"", event.name),
            Self::EventWait(event) => format!("waiting for event \"{}\"", event.name),
            Self::Host(function) => format!("host function \"{}\"", function.name),
            Self::Foreign { name, .. } => format!("foreign call \"{name}\""),
        }
    }
}

/// Where a copy or a fill begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) struct Operand {
    pub(in crate::capture) address: u64,
    /// The buffer and the offset in it.
    pub(in crate::capture) of: (BufferKey, u64),
}

impl Operand {
    pub(super) fn relocate(&mut self, blocks: &[ByteRange]) {
        if let (BufferKey::Scratch(block), offset) = self.of {
            self.address = blocks[block as usize].start + offset;
        }
    }
}

/// Whether a launch passes a word that may be an address and is not declared as one.
#[inline]
pub(in crate::capture) fn shows_words(
    info: &KernelInfo,
    params: &[u8],
    pointers: &[Pointer],
) -> bool {
    info.shows_words(params, |param, at| {
        let is = |pointer: &Pointer| pointer.param == param && pointer.at == at;
        pointers.iter().any(is)
    })
}

/// A pointer among the parameters of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) struct Pointer {
    pub(in crate::capture) param: u32,
    /// Where in the parameter it stands, in bytes.
    pub(in crate::capture) at: u32,
    pub(in crate::capture) buffer: BufferKey,
    pub(in crate::capture) offset: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) struct RecordedAccess {
    pub(in crate::capture) command: u32,
    pub(in crate::capture) buffer: BufferKey,
    pub(in crate::capture) bytes: ByteRange,
    pub(in crate::capture) mode: AccessMode,
}
