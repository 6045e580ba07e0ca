//! What one node of work does, slice by slice.

use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

use streamweir_trace::{CopyNode, FillNode, KernelNode, NodeKind, Param};

use super::inside;
use super::memory::Memory;
use crate::driver::code::{SimBlock, SimFault, SimKernel};
use crate::driver::{
    EventHandle, FunctionHandle, GraphHandle, HostCall, KernelAttributes, LaunchShape, Start,
};

/// Copies and fills run in at most so many slices.
const CHUNKS: u64 = 4;

/// A kernel that a module holds.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) handle: FunctionHandle,
    pub(super) kernel: SimKernel,
}

/// One piece of work, enqueued on a stream or captured as a node.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Kernel {
        function: Arc<Function>,
        shape: LaunchShape,
        /// It touches nothing before what it follows has ended, however early it
        /// starts; so this decides what a graph says of its edges, and no more.
        start: Start,
        params: Arc<[u8]>,
    },
    Copy(CopyNode),
    Fill(FillNode),
    EventRecord(EventHandle),
    EventWait(EventHandle),
    /// Another graph, which this node owns.
    Child(GraphHandle),
    /// A function of the host.
    Host(HostCall),
    /// A place where edges meet.
    Empty,
}

/// A fault, and the line of a kernel's code that it is known to come from.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) fault: SimFault,
    pub(super) at: Option<&'static Location<'static>>,
}

impl From<SimFault> for Failed {
    fn from(fault: SimFault) -> Self {
        Self { fault, at: None }
    }
}

impl Work {
    /// How many slices the work has; at least one.
    pub(super) fn slices(&self) -> u64 {
        match self {
            Self::Kernel { shape, .. } => shape.grid.iter().map(|&n| u64::from(n)).product(),
            Self::Copy(copy) => chunks(copy.bytes),
            Self::Fill(fill) => chunks(fill.bytes),
            Self::EventRecord(_)
            | Self::EventWait(_)
            | Self::Child(_)
            | Self::Host(_)
            | Self::Empty => 1,
        }
    }

    /// Runs slice number `slice`.
    pub(super) fn run(&self, slice: u64, memory: &mut Memory) -> Result<(), Failed> {
        match self {
            Self::Kernel {
                function,
                shape,
                params,
                ..
            } => {
                let [x, y, _] = shape.grid.map(u64::from);
                // Each is below its bound in the grid, which has 32 bits.
                let index = [slice % x, slice / x % y, slice / x / y].map(|i| i as u32);
                let mut block = SimBlock {
                    index,
                    shape: *shape,
                    params,
                    memory,
                    fault: Cell::new(None),
                };
                let ran = (function.kernel.run)(&mut block);
                let at = block.fault.get();
                ran.map_err(|fault| Failed { fault, at })
            }
            Self::Copy(copy) => {
                // Only linear copies and fills of bytes are submitted.
                let (skip, bytes) = chunk(copy.bytes, slice);
                Ok(memory.copy(copy.to + skip, copy.from + skip, bytes)?)
            }
            Self::Fill(fill) => {
                let (skip, bytes) = chunk(fill.bytes, slice);
                Ok(memory.fill(fill.to + skip, fill.value as u8, bytes)?)
            }
            Self::Host(call) => {
                inside::call(*call);
                Ok(())
            }
            Self::EventRecord(_) | Self::EventWait(_) | Self::Child(_) | Self::Empty => Ok(()),
        }
    }

    /// Whether an update of an instantiated graph may put it in the place of `old`.
    pub(super) fn may_replace(&self, old: &Self) -> bool {
        match (self, old) {
            (
                Self::Kernel { start, shape, .. },
                Self::Kernel {
                    start: was,
                    shape: had,
                    ..
                },
            ) => start == was && shape.priority == had.priority,
            _ => std::mem::discriminant(self) == std::mem::discriminant(old),
        }
    }

    /// Whether a graph may be told to leave it out.
    pub(super) fn may_be_disabled(&self) -> bool {
        matches!(self, Self::Kernel { .. } | Self::Copy(_) | Self::Fill(_))
    }

    /// How a kernel is launched, beyond its shape; nothing of other work.
    pub(super) fn attributes(&self) -> Option<KernelAttributes> {
        match self {
            Self::Kernel { shape, start, .. } => Some(KernelAttributes {
                cooperative: *start == Start::Together,
                cluster: shape.cluster,
                priority: shape.priority.unwrap_or_default(),
                device_updatable: false,
            }),
            _ => None,
        }
    }

    /// When it may start.
    pub(super) fn start(&self) -> Start {
        match self {
            Self::Kernel { start, .. } => *start,
            _ => Start::InOrder,
        }
    }

    /// The name that a fault's message prints.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Kernel { function, .. } => function.kernel.symbol,
            Self::Copy(_) => "copy",
            Self::Fill(_) => "fill",
            Self::EventRecord(_) => "event record",
            Self::EventWait(_) => "event wait",
            Self::Child(_) => "child graph",
            Self::Host(_) => "host function",
            Self::Empty => "empty",
        }
    }

    /// The work as a graph reports it.
    pub(super) fn kind(&self) -> NodeKind {
        match self {
            Self::Kernel {
                function,
                shape,
                params,
                ..
            } => NodeKind::Kernel(KernelNode {
                function: function.kernel.symbol.to_owned(),
                grid: shape.grid,
                block: shape.block,
                shared_bytes: shape.shared_bytes,
                cluster: shape.cluster,
                params: function
                    .kernel
                    .params
                    .iter()
                    .map(|slot| Param {
                        name: String::new(),
                        offset: slot.offset,
                        bytes: params[slot.offset as usize..][..slot.size as usize].to_vec(),
                        pointer: None,
                        fields: Vec::new(),
                    })
                    .collect(),
                ..KernelNode::default()
            }),
            Self::Copy(copy) => NodeKind::Memcpy(*copy),
            Self::Fill(fill) => NodeKind::Memset(*fill),
            Self::EventRecord(_) => NodeKind::EventRecord,
            Self::EventWait(_) => NodeKind::EventWait,
            Self::Child(_) => NodeKind::ChildGraph,
            Self::Host(_) => NodeKind::Host,
            Self::Empty => NodeKind::Empty,
        }
    }
}

fn chunks(bytes: u64) -> u64 {
    bytes.div_ceil(chunk_bytes(bytes)).max(1)
}

/// Chunks end between 16-byte words, so that no element is torn.
fn chunk_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNKS).next_multiple_of(16).max(16)
}

/// First byte and length of one chunk.
fn chunk(bytes: u64, slice: u64) -> (u64, u64) {
    let size = chunk_bytes(bytes);
    let skip = size * slice;
    (skip, size.min(bytes - skip))
}
