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
    /// What the allocator did during the capture, in host order.
    pub events: Vec<AllocEvent>,
    /// The allocator's memory when the capture had ended.
    pub segments: Vec<Segment>,
    /// The operators, in host order.
    pub operators: Vec<Operator>,
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
        /// The parameters.
        params: Vec<RawParam>,
    },
    /// A copy of one run of bytes.
    Copy {
        /// What is read; `None` when it is host memory.
        from: Option<ByteRange>,
        /// What is written; `None` when it is host memory.
        to: Option<ByteRange>,
    },
    /// A fill; `None` when the dump does not say of what.
    Fill(Option<ByteRange>),
    /// A node of another kind, by the driver's number (`CUgraphNodeType`).
    Other(u32),
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
    /// Whether it belongs to a pool of captured graphs alone.
    pub private: bool,
    /// What it is divided into.
    pub blocks: Vec<Block>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Tensor {
    /// From its first byte to its last, whether or not it has all in between.
    pub bytes: ByteRange,
    /// The storage that it lies in.
    pub storage: ByteRange,
    /// Whether the operator writes it.
    pub written: bool,
}
