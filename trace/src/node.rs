//! Nodes: the work that a graph replays.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BufferId, ByteRange, ScopeId, StreamId};

/// One node of a captured graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What the node does.
    pub kind: NodeKind,
    /// The kernel's name, or the operation's.
    pub name: String,
    /// The captured stream it was recorded on, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The scope it was recorded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeId>,
    /// The source line that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<SourceLine>,
    /// What is known of programmatic dependent launch in this node.
    #[serde(default, skip_serializing_if = "PdlWait::is_none")]
    pub pdl: PdlWait,
    /// Whether the accesses of the node were declared. A node that is not
    /// analysed is listed by every verdict, never passed in silence.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub analysed: bool,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Node {
    /// A node of `kind` called `name`, on no known stream.
    pub fn new(kind: NodeKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            stream: None,
            scope: None,
            launch: None,
            pdl: PdlWait::None,
            analysed: true,
        }
    }

    /// The same node, recorded on `stream`.
    #[must_use]
    pub fn on(mut self, stream: StreamId) -> Self {
        self.stream = Some(stream);
        self
    }
}

/// What a node does at replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeKind {
    /// A kernel launch.
    Kernel(KernelNode),
    /// A copy.
    Memcpy(CopyNode),
    /// A fill.
    Memset(FillNode),
    /// Nothing but a place for edges to meet.
    Empty,
    /// A call of a host function.
    Host,
    /// Another graph, replayed as one node.
    ChildGraph,
    /// A wait for an event recorded outside the graph. Orders nothing inside.
    EventWait,
    /// A record of an event waited for outside the graph. Orders nothing inside.
    EventRecord,
    /// An allocation made by the graph itself.
    MemAlloc(AllocNode),
    /// A free made by the graph itself.
    MemFree(FreeNode),
    /// A batch of memory operations.
    BatchMemOp,
    /// A conditional body.
    Conditional,
    /// A signal of an external semaphore.
    SemaphoreSignal,
    /// A wait for an external semaphore.
    SemaphoreWait,
    /// A kind that this version does not know, by the driver's number.
    Unknown(u32),
}

impl NodeKind {
    /// A kernel of which nothing but the accesses is known.
    pub fn kernel() -> Self {
        Self::Kernel(KernelNode::default())
    }

    /// A copy of which nothing but the accesses is known.
    pub fn memcpy() -> Self {
        Self::Memcpy(CopyNode::default())
    }

    /// A fill of which nothing but the accesses is known.
    pub fn memset() -> Self {
        Self::Memset(FillNode::default())
    }

    /// The kind in one word, as reports print it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Memcpy(_) => "memcpy",
            Self::Memset(_) => "memset",
            Self::Empty => "empty",
            Self::Host => "host function",
            Self::ChildGraph => "child graph",
            Self::EventWait => "event wait",
            Self::EventRecord => "event record",
            Self::MemAlloc(_) => "memory allocation",
            Self::MemFree(_) => "memory free",
            Self::BatchMemOp => "batch memory operation",
            Self::Conditional => "conditional",
            Self::SemaphoreSignal => "semaphore signal",
            Self::SemaphoreWait => "semaphore wait",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The launch of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelNode {
    /// The kernel's symbol in its module, mangled where the compiler mangles.
    pub function: String,
    /// Thread blocks along x, y, z; all zero when not known.
    #[serde(default)]
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z; all zero when not known.
    #[serde(default)]
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    #[serde(default)]
    pub shared_bytes: u32,
    /// Whether blocks of the launch wait for each other.
    #[serde(default, skip_serializing_if = "BlockSync::is_independent")]
    pub sync: BlockSync,
    /// The parameters, in the order of the signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
}

/// Whether the thread blocks of a launch wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockSync {
    /// They do not, or only inside a cluster, whose blocks the device runs
    /// together.
    #[default]
    Independent,
    /// They spin on each other's progress, and nothing but the size of the
    /// device makes them run together.
    Spin,
    /// They wait for each other, and the launch is a cooperative one, so that
    /// the device runs all of them together or none.
    Cooperative,
}

impl BlockSync {
    fn is_independent(&self) -> bool {
        matches!(self, Self::Independent)
    }
}

/// The operands of an allocation node; all zero when not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocNode {
    /// The first byte of the memory, a device address.
    #[serde(with = "crate::range::hex_address")]
    pub at: u64,
    /// How many bytes were asked for.
    pub bytes: u64,
}

/// The operand of a free node; zero when not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreeNode {
    /// The first byte of the memory, a device address.
    #[serde(with = "crate::range::hex_address")]
    pub at: u64,
}

/// The operands of a copy; addresses and bytes are zero when not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyNode {
    /// The first byte written: a device address, or a host address.
    #[serde(with = "crate::range::hex_address")]
    pub to: u64,
    /// The first byte read: a device address, or a host address.
    #[serde(with = "crate::range::hex_address")]
    pub from: u64,
    /// How many bytes of each row are copied.
    pub bytes: u64,
    /// How many rows are copied.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rows: u64,
    /// From the first byte of one row to that of the next, where it is written.
    /// No matter when there is one row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_pitch: u64,
    /// The same where it is read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_pitch: u64,
}

impl CopyNode {
    /// A copy of one run of bytes.
    pub const fn linear(to: u64, from: u64, bytes: u64) -> Self {
        Self {
            to,
            from,
            bytes,
            rows: 1,
            to_pitch: 0,
            from_pitch: 0,
        }
    }

    /// The same copy with as few rows as its pitches allow, so that two
    /// descriptions of one copy are equal.
    #[must_use]
    pub const fn flattened(self) -> Self {
        let packed = self.to_pitch == self.bytes && self.from_pitch == self.bytes;
        match self.bytes.checked_mul(self.rows) {
            Some(bytes) if self.rows == 1 || packed => Self::linear(self.to, self.from, bytes),
            _ => self,
        }
    }

    /// From the first byte written to the last, gaps between rows included;
    /// `None` when it runs past 2^64.
    pub const fn written(&self) -> Option<ByteRange> {
        extent(self.to, self.bytes, self.rows, self.to_pitch)
    }

    /// From the first byte read to the last, gaps between rows included; `None`
    /// when it runs past 2^64.
    pub const fn read(&self) -> Option<ByteRange> {
        extent(self.from, self.bytes, self.rows, self.from_pitch)
    }
}

impl Default for CopyNode {
    fn default() -> Self {
        Self::linear(0, 0, 0)
    }
}

/// The operands of a fill; address and bytes are zero when not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillNode {
    /// The first byte written, a device address.
    #[serde(with = "crate::range::hex_address")]
    pub to: u64,
    /// How many bytes of each row are written.
    pub bytes: u64,
    /// The value of every element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    #[serde(default = "one_byte", skip_serializing_if = "is_one_byte")]
    pub element: u8,
    /// How many rows are written.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rows: u64,
    /// From the first byte of one row to that of the next. No matter when there
    /// is one row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pitch: u64,
}

impl FillNode {
    /// A fill of one run of bytes, each with `value`.
    pub const fn linear(to: u64, bytes: u64, value: u8) -> Self {
        Self {
            to,
            bytes,
            value: value as u32,
            element: 1,
            rows: 1,
            pitch: 0,
        }
    }

    /// The same fill with as few rows and as small elements as it can be said
    /// with, so that two descriptions of one fill are equal. A driver may widen
    /// the elements of a fill.
    #[must_use]
    pub const fn flattened(mut self) -> Self {
        if self.rows == 1 {
            self.pitch = 0;
        } else if self.pitch == self.bytes
            && let Some(bytes) = self.bytes.checked_mul(self.rows)
        {
            (self.bytes, self.rows, self.pitch) = (bytes, 1, 0);
        }
        let [a, b, c, d] = self.value.to_le_bytes();
        if self.element == 4 && a == c && b == d {
            (self.element, self.value) = (2, self.value & 0xffff);
        }
        if self.element == 2 && a == b {
            (self.element, self.value) = (1, self.value & 0xff);
        }
        self
    }

    /// From the first byte written to the last, gaps between rows included;
    /// `None` when it runs past 2^64.
    pub const fn written(&self) -> Option<ByteRange> {
        extent(self.to, self.bytes, self.rows, self.pitch)
    }
}

impl Default for FillNode {
    fn default() -> Self {
        Self::linear(0, 0, 0)
    }
}

const fn extent(start: u64, bytes: u64, rows: u64, pitch: u64) -> Option<ByteRange> {
    if rows == 0 || bytes == 0 {
        return Some(ByteRange { start, end: start });
    }
    let Some(before_last) = (rows - 1).checked_mul(pitch) else {
        return None;
    };
    match before_last.checked_add(bytes) {
        Some(len) => ByteRange::from_len(start, len),
        None => None,
    }
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

fn one_byte() -> u8 {
    1
}

fn is_one_byte(value: &u8) -> bool {
    *value == 1
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// One parameter of a kernel launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The name in the signature; empty when read back from a driver.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Offset in the parameter buffer, in bytes.
    pub offset: u32,
    /// The raw bytes as passed, in hexadecimal.
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
    /// What the parameter points to, when it is declared as a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<PointerParam>,
}

/// The target of a declared pointer parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointerParam {
    /// The buffer pointed into; `None` when the declared pointer is in no
    /// known memory.
    pub buffer: Option<BufferId>,
    /// The distance from the first byte of the buffer.
    pub offset: u64,
}

/// How a node takes part in programmatic dependent launch (PDL), in which a
/// kernel may start before the kernel it follows has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PdlWait {
    /// Nothing is declared: a programmatic edge into the node orders nothing.
    #[default]
    None,
    /// The kernel waits for its predecessors on every path before it touches
    /// memory that the graph writes; an access before that has a phase that says
    /// so.
    OnAllPaths,
}

impl PdlWait {
    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// A place in source code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceLine {
    /// The file as the compiler named it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

mod hex {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            text.push(DIGITS[usize::from(byte >> 4)] as char);
            text.push(DIGITS[usize::from(byte & 15)] as char);
        }
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an even number of hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
                let (pairs, odd) = text.as_bytes().as_chunks::<2>();
                let bytes = pairs.iter().map(|&[high, low]| {
                    let digit = |letter: u8| char::from(letter).to_digit(16);
                    // Two digits below 16 make a byte.
                    Some((digit(high)? << 4 | digit(low)?) as u8)
                });
                match bytes.collect() {
                    Some(bytes) if odd.is_empty() => Ok(bytes),
                    _ => Err(E::custom("expected an even number of hexadecimal digits")),
                }
            }
        }
        deserializer.deserialize_str(Digits)
    }
}
