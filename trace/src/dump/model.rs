//! A dump as plain data.

use crate::range::ByteRange;

/// The value of the `format` field of a capture dump.
pub const DUMP_FORMAT: &str = "capture-dump-1";

/// How much a dump may hold. A file beyond them is refused, not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits;

impl Limits {
    /// The most nodes.
    pub const NODES: usize = 1 << 24;
    /// The most edges, allocator events, operators, segments and blocks, each.
    pub const ENTRIES: usize = 1 << 26;
    /// The most parameters of one kernel. CUDA passes at most 32,764 bytes.
    pub const PARAMS: usize = 1 << 15;
    /// The most bytes of one parameter.
    pub const PARAM_BYTES: usize = 1 << 16;
    /// The most tensors of one operator.
    pub const TENSORS: usize = 1 << 20;
    /// The most dimensions of a tensor.
    pub const DIMENSIONS: usize = 64;
}

/// A capture dump whose tables fit together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// The name of the capture.
    pub name: String,
    /// The nodes, in the order in which the host recorded them.
    pub nodes: Vec<DumpNode>,
    /// Pairs of node positions: the first node ends before the second starts.
    pub edges: Vec<(u32, u32)>,
    /// What the allocator did during the capture, in host order; `None` when the
    /// file does not say.
    pub events: Option<Vec<AllocEvent>>,
    /// The allocator's memory when the capture had ended; `None` when the file
    /// does not say.
    pub segments: Option<Vec<Segment>>,
    /// The operators, in host order.
    pub operators: Vec<Operator>,
}

impl Dump {
    /// What the allocator is known to have done during the capture.
    pub fn known_events(&self) -> &[AllocEvent] {
        self.events.as_deref().unwrap_or_default()
    }

    /// The memory that the allocator is known to hold.
    pub fn known_segments(&self) -> &[Segment] {
        self.segments.as_deref().unwrap_or_default()
    }
}

/// One node of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpNode {
    /// A kernel launch.
    Kernel {
        /// The kernel's symbol.
        function: String,
        /// Thread blocks along x, y, z.
        grid: [u32; 3],
        /// Threads of a block along x, y, z.
        block: [u32; 3],
        /// Dynamic shared memory of a block, in bytes.
        shared_bytes: u32,
        /// The parameters; `None` when the dump does not hold them.
        params: Option<Vec<RawParam>>,
    },
    /// A copy of one run of bytes.
    Copy {
        /// What is read.
        from: CopyEnd,
        /// What is written.
        to: CopyEnd,
    },
    /// A fill; `None` when the dump does not say of what.
    Fill(Option<ByteRange>),
    /// A node of another kind, by the driver's number (`CUgraphNodeType`).
    Other(u32),
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// Device memory.
    Device(ByteRange),
    /// Host memory.
    Host(ByteRange),
    /// Memory of the host or of the device, which the dump does not tell apart.
    Unified(ByteRange),
    /// Host memory whose address the dump does not hold, or an array: so many
    /// bytes somewhere.
    Unknown(u64),
}

impl CopyEnd {
    /// The addresses, where they are known.
    pub fn range(&self) -> Option<ByteRange> {
        match *self {
            Self::Device(range) | Self::Host(range) | Self::Unified(range) => Some(range),
            Self::Unknown(_) => None,
        }
    }
}

/// The bytes of one kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawParam {
    /// Offset in the parameters, in bytes.
    pub offset: u32,
    /// The bytes as passed.
    pub bytes: Vec<u8>,
}

/// One thing that the caching allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocEvent {
    /// What.
    pub action: AllocAction,
    /// The block, or the segment.
    pub range: ByteRange,
    /// The handle of the stream whose pool it belongs to.
    pub stream: u64,
}

/// What a caching allocator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocAction {
    /// A block was given out.
    Alloc,
    /// Its owner dropped it.
    FreeRequested,
    /// Its bytes may be given out again.
    FreeCompleted,
    /// Anything else: segments that come and go, marks.
    Other,
}

/// A piece of memory that the allocator took from the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Its device addresses.
    pub range: ByteRange,
    /// The handle of the stream whose pool it belongs to.
    pub stream: u64,
    /// What it serves.
    pub pool: Pool,
    /// What it is divided into.
    pub blocks: Vec<Block>,
}

/// What a segment of the allocator serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Whoever asks.
    General,
    /// Captured graphs alone.
    Private,
    /// The dump does not say.
    Unknown,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Its device addresses.
    pub range: ByteRange,
    /// Whether somebody held it.
    pub active: bool,
}

/// One operator that was run during the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operator {
    /// Its name, such as `aten.mm.default`.
    pub name: String,
    /// The handle of the stream it was run on.
    pub stream: u64,
    /// The nodes it recorded: from the first, up to but without the second.
    pub nodes: (u32, u32),
    /// The tensors among its arguments and results, arguments first.
    pub tensors: Vec<Tensor>,
}

/// A tensor that an operator names.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// From its first byte to its last, whether or not it has all in between.
    pub bytes: ByteRange,
    /// The storage that it lies in.
    pub storage: ByteRange,
    /// Whether the operator writes it.
    pub written: bool,
    /// How its elements lie; `None` when the dump does not say, so that any byte
    /// between the first and the last may be one of a gap.
    pub view: Option<View>,
}

/// How the elements of a tensor lie.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// For each dimension how many elements it has, and how many bytes lie between
    /// two neighbours.
    pub dims: Box<[(u64, u64)]>,
    /// The bytes of an element.
    pub element: u64,
}
