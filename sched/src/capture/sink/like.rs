//! Runs that are like one that was proved before.
//!
//! # What may be left out
//! The verdict on an eager run is a function of its trace, and the trace one of the
//! recording, the blocks of its pools, the streams, and what else is known of memory
//! that its nodes show. A run is taken for one that was proved when all of these are
//! equal, command by command and byte by byte. Nothing is left to a digest.
//!
//! What else is known of memory, by the registry and by the driver, changes without a
//! word. It enters a trace in two ways, and a run in which one of them is possible
//! is proved each time ([`may_be_compared`]):
//!
//! - a parameter has a word that is long enough for an address and is not declared as
//!   one: what is there has to be asked again;
//! - somebody has said that memory was freed, of which every node is looked at.
//!
//! What a call of a library keeps or leaves unexplained is not compared either.
//!
//! # What is kept
//! Plain data. A kernel is known by the identity of its declaration, an event by its
//! own, both held weakly: nobody else is made there as long as somebody remembers it,
//! and nothing is kept alive. A persistent buffer is known by its number, which no
//! other buffer of the device has had or will have.

use std::ops::Range;
use std::sync::{Arc, Weak};

use streamweir_alloc::BlockRecord;
use streamweir_hal::driver::{LaunchShape, Start};
use streamweir_trace::{PdlWait, StreamId};

use crate::capture::recorded::Recorded;
use crate::capture::recording::{
    Command, LaunchSaid, Operand, Pointer, RecordedAccess, Recording, Spot, What, shows_words,
};
use crate::device::{EventInner, KernelInfo};
use crate::error::Name;

/// What a run was made of, as far as its trace depends on it.
pub(in crate::capture) struct Likeness {
    commands: Vec<Known>,
    waits: Vec<u32>,
    param_bytes: Vec<u8>,
    pointers: Vec<Pointer>,
    accesses: Vec<RecordedAccess>,
    scopes: Vec<String>,
    persistents: Vec<u64>,
    allocs: Vec<Range<u32>>,
    alloc_frontiers: Vec<u32>,
    blocks: Vec<BlockRecord>,
    streams: Vec<Branch>,
}

struct Known {
    what: Work,
    spot: Spot,
    params: Range<u32>,
    pointers: Range<u32>,
    after: Range<u32>,
}

enum Work {
    Kernel {
        info: Weak<KernelInfo>,
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
        poison: bool,
    },
    EventRecord(Weak<EventInner>),
    EventWait(Weak<EventInner>),
    Foreign {
        name: String,
        pdl: PdlWait,
    },
    /// Like nothing else.
    Own,
}

#[derive(PartialEq, Eq)]
struct Branch {
    name: Name,
    parent: Option<StreamId>,
    active: bool,
    frontier: Vec<u32>,
}

/// Whether the trace of a run is a function of what is compared.
pub(in crate::capture) fn may_be_compared(recorded: &Recorded) -> bool {
    let Recorded {
        recording, device, ..
    } = recorded;
    let comparable = |command: &Command| match &command.what {
        What::Kernel { info, .. } => {
            !shows_words(info, recording.params(command), recording.pointers(command))
        }
        What::Copy { .. } | What::Fill { .. } | What::EventRecord(_) | What::EventWait(_) => true,
        What::Foreign { said, .. } => said.keeps.is_empty() && said.left_over.is_none(),
        // A closure is like no other.
        What::Host(_) => false,
    };
    recording.commands.iter().all(comparable) && device.registry.freed().is_empty()
}

impl Likeness {
    /// Of a run that may be compared.
    pub(in crate::capture) fn of(recorded: &mut Recorded) -> Self {
        let Recording {
            spins: _,
            commands,
            waits,
            param_bytes,
            pointers,
            accesses,
            scopes,
            persistents,
            pinned: _,
            allocs,
            alloc_frontiers,
            ..
        } = std::mem::take(&mut recorded.recording);
        let streams = branches(recorded).collect();
        Self {
            commands: commands.into_iter().map(Known::of).collect(),
            waits,
            param_bytes,
            pointers,
            accesses,
            scopes,
            persistents: persistents.iter().map(|buffer| buffer.number).collect(),
            allocs,
            alloc_frontiers,
            blocks: recorded.pools.pools.buffers(),
            streams,
        }
    }

    /// Whether the trace of a run is the one of this, given that the run
    /// [may be compared](may_be_compared).
    pub(in crate::capture) fn is_of(&self, recorded: &Recorded) -> bool {
        let Recording {
            spins: _,
            commands,
            waits,
            param_bytes,
            pointers,
            accesses,
            scopes,
            persistents,
            pinned: _,
            allocs,
            alloc_frontiers,
            ..
        } = &recorded.recording;
        self.commands.len() == commands.len()
            && self.param_bytes == *param_bytes
            && self.persistents.len() == persistents.len()
            && (self.persistents.iter().zip(persistents)).all(|(known, now)| *known == now.number)
            && (self.commands.iter().zip(commands)).all(|(known, now)| known.is(now))
            && self.pointers == *pointers
            && self.accesses == *accesses
            && self.waits == *waits
            && self.allocs == *allocs
            && self.alloc_frontiers == *alloc_frontiers
            && self.scopes == *scopes
            && self.streams.len() == recorded.strands.all().len()
            && self
                .streams
                .iter()
                .zip(recorded.strands.all())
                .all(|(known, now)| {
                    known.name == now.name
                        && known.parent == now.parent
                        && known.active == now.active
                        && known.frontier == now.frontier
                })
            && recorded.pools.pools.has_buffers(&self.blocks)
    }
}

fn branches(recorded: &Recorded) -> impl Iterator<Item = Branch> + '_ {
    recorded.strands.all().iter().map(|strand| Branch {
        name: strand.name.clone(),
        parent: strand.parent,
        active: strand.active,
        frontier: strand.frontier.clone(),
    })
}

impl Known {
    fn of(command: Command) -> Self {
        let Command {
            what,
            spot,
            params,
            pointers,
            after,
        } = command;
        let what = match what {
            What::Kernel {
                info,
                shape,
                start,
                said,
            } => Work::Kernel {
                info: Arc::downgrade(&info),
                shape,
                start,
                said,
            },
            What::Copy { to, from, bytes } => Work::Copy { to, from, bytes },
            What::Fill {
                to,
                bytes,
                value,
                poison,
            } => Work::Fill {
                to,
                bytes,
                value,
                poison,
            },
            What::EventRecord(event) => Work::EventRecord(Arc::downgrade(&event)),
            What::EventWait(event) => Work::EventWait(Arc::downgrade(&event)),
            What::Host(_) => Work::Own,
            What::Foreign { name, said } => Work::Foreign {
                name,
                pdl: said.pdl,
            },
        };
        Self {
            what,
            spot,
            params,
            pointers,
            after,
        }
    }

    fn is(&self, other: &Command) -> bool {
        let Command {
            what,
            spot,
            params,
            pointers,
            after,
        } = other;
        self.what.is(what)
            && self.spot == *spot
            && self.params == *params
            && self.pointers == *pointers
            && self.after == *after
    }
}

impl Work {
    fn is(&self, other: &What) -> bool {
        match (self, other) {
            (
                Self::Kernel {
                    info,
                    shape,
                    start,
                    said,
                },
                What::Kernel {
                    info: other,
                    shape: of,
                    start: begins,
                    said: vouched,
                },
            ) => {
                info.as_ptr() == Arc::as_ptr(other)
                    && shape == of
                    && start == begins
                    && said == vouched
            }
            (
                Self::Copy { to, from, bytes },
                What::Copy {
                    to: into,
                    from: out_of,
                    bytes: length,
                },
            ) => to == into && from == out_of && bytes == length,
            (
                Self::Fill {
                    to,
                    bytes,
                    value,
                    poison,
                },
                What::Fill {
                    to: into,
                    bytes: length,
                    value: byte,
                    poison: added,
                },
            ) => to == into && bytes == length && value == byte && poison == added,
            (Self::EventRecord(known), What::EventRecord(event))
            | (Self::EventWait(known), What::EventWait(event)) => {
                known.as_ptr() == Arc::as_ptr(event)
            }
            (Self::Foreign { name, pdl }, What::Foreign { name: other, said }) => {
                name == other && *pdl == said.pdl
            }
            (
                Self::Kernel { .. }
                | Self::Copy { .. }
                | Self::Fill { .. }
                | Self::EventRecord(_)
                | Self::EventWait(_)
                | Self::Foreign { .. }
                | Self::Own,
                _,
            ) => false,
        }
    }
}
