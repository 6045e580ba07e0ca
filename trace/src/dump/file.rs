//! The JSON of a dump, and how it becomes a [`Dump`].

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::DumpError;
use super::model::{
    AllocAction, AllocEvent, Block, DUMP_FORMAT, Dump, DumpNode, Limits, Operator, RawParam,
    Segment, Tensor,
};
use crate::hex::decode;
use crate::range::ByteRange;

#[derive(Deserialize)]
pub(super) struct File {
    format: String,
    #[serde(default)]
    name: String,
    nodes: Capped<Node, { Limits::NODES }>,
    edges: Capped<(u64, u64), { Limits::ENTRIES }>,
    #[serde(default)]
    alloc_trace: Capped<Event, { Limits::ENTRIES }>,
    #[serde(default)]
    segments: Capped<RawSegment, { Limits::ENTRIES }>,
    #[serde(default)]
    ops: Capped<Op, { Limits::ENTRIES }>,
}

/// A node with the fields of every kind.
#[derive(Deserialize)]
struct Node {
    id: u64,
    #[serde(rename = "type")]
    kind: u32,
    kernel: Option<String>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    smem: Option<u32>,
    params: Option<Capped<Param, { Limits::PARAMS }>>,
    src: Option<u64>,
    src_type: Option<u32>,
    #[serde(default)]
    src_host: bool,
    dst: Option<u64>,
    dst_type: Option<u32>,
    #[serde(default)]
    dst_host: bool,
    bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Param {
    offset: u32,
    size: u64,
    hex: Hex,
}

#[derive(Deserialize)]
struct Event {
    action: Action,
    addr: u64,
    size: u64,
    stream: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct RawSegment {
    address: u64,
    size: u64,
    stream: u64,
    #[serde(default)]
    pool: (u64, u64),
    blocks: Capped<(u64, u64, State), { Limits::ENTRIES }>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Inactive,
    #[serde(other)]
    Active,
}

#[derive(Deserialize)]
struct Op {
    op: String,
    stream: u64,
    nodes: (u64, u64),
    tensors: Capped<(u64, u64, u64, u64, bool), { Limits::TENSORS }>,
}

impl File {
    pub(super) fn into_dump(self) -> Result<Dump, DumpError> {
        if self.format != DUMP_FORMAT {
            return Err(DumpError::Format(self.format));
        }
        let count = self.nodes.0.len();
        let node = |node: u64, whence: &dyn Fn() -> String| match u32::try_from(node) {
            Ok(at) if (at as usize) < count => Ok(at),
            _ => Err(DumpError::NoSuchNode {
                whence: whence(),
                node,
                count,
            }),
        };
        let edges = self
            .edges
            .0
            .into_iter()
            .enumerate()
            .map(|(at, (from, to))| {
                let whence = || format!("edge {at}");
                Ok((node(from, &whence)?, node(to, &whence)?))
            });
        let edges = edges.collect::<Result<_, DumpError>>()?;
        let events = self
            .alloc_trace
            .0
            .into_iter()
            .enumerate()
            .map(|(at, event)| {
                Ok(AllocEvent {
                    action: match event.action {
                        Action::Alloc => AllocAction::Alloc,
                        Action::FreeRequested => AllocAction::FreeRequested,
                        Action::FreeCompleted => AllocAction::FreeCompleted,
                        Action::Other => AllocAction::Other,
                    },
                    range: range(event.addr, event.size, || format!("allocator event {at}"))?,
                    stream: event.stream,
                })
            });
        let operators = self.ops.0.into_iter().enumerate();
        let operators = operators.map(|(at, op)| op.into_operator(at, count));
        Ok(Dump {
            name: self.name,
            edges,
            events: events.collect::<Result<_, DumpError>>()?,
            segments: (self.segments.0.into_iter())
                .map(RawSegment::into_segment)
                .collect::<Result<_, _>>()?,
            operators: operators.collect::<Result<_, _>>()?,
            nodes: (self.nodes.0.into_iter().enumerate())
                .map(|(at, node)| node.into_node(at))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Node {
    fn into_node(self, at: usize) -> Result<DumpNode, DumpError> {
        if self.id != at as u64 {
            return Err(DumpError::NodeId { at, id: self.id });
        }
        let missing = |kind, field| DumpError::Missing { at, kind, field };
        // CU_MEMORYTYPE_HOST is 1.
        let device = |host: bool, kind: Option<u32>| !host && kind != Some(1);
        match self.kind {
            0 => Ok(DumpNode::Kernel {
                function: self.kernel.ok_or_else(|| missing("kernel", "kernel"))?,
                grid: self.grid.unwrap_or_default(),
                block: self.block.unwrap_or_default(),
                shared_bytes: self.smem.unwrap_or_default(),
                params: (self.params.map(|params| params.0).unwrap_or_default())
                    .into_iter()
                    .enumerate()
                    .map(|(place, param)| param.into_param(at, place))
                    .collect::<Result<_, _>>()?,
            }),
            1 => {
                let bytes = self.bytes.ok_or_else(|| missing("copy", "bytes"))?;
                let whence = || format!("node {at}");
                let end = |host, kind, start: Option<u64>, field| match (device(host, kind), start)
                {
                    (false, _) => Ok(None),
                    (true, Some(start)) => range(start, bytes, whence).map(Some),
                    (true, None) => Err(missing("copy", field)),
                };
                Ok(DumpNode::Copy {
                    from: end(self.src_host, self.src_type, self.src, "src")?,
                    to: end(self.dst_host, self.dst_type, self.dst, "dst")?,
                })
            }
            2 => match (self.dst, self.bytes) {
                (Some(start), Some(bytes)) => {
                    let filled = range(start, bytes, || format!("node {at}"))?;
                    Ok(DumpNode::Fill(Some(filled)))
                }
                _ => Ok(DumpNode::Fill(None)),
            },
            other => Ok(DumpNode::Other(other)),
        }
    }
}

impl Param {
    fn into_param(self, at: usize, param: usize) -> Result<RawParam, DumpError> {
        if self.hex.0.len() as u64 != self.size {
            return Err(DumpError::ParamSize {
                at,
                param,
                size: self.size,
                found: self.hex.0.len(),
            });
        }
        Ok(RawParam {
            offset: self.offset,
            bytes: self.hex.0,
        })
    }
}

impl RawSegment {
    fn into_segment(self) -> Result<Segment, DumpError> {
        let blocks = self.blocks.0.into_iter().map(|(start, len, state)| {
            Ok(Block {
                range: range(start, len, || "a block".to_owned())?,
                active: matches!(state, State::Active),
            })
        });
        Ok(Segment {
            range: range(self.address, self.size, || "a segment".to_owned())?,
            stream: self.stream,
            private: self.pool != (0, 0),
            blocks: blocks.collect::<Result<_, DumpError>>()?,
        })
    }
}

impl Op {
    fn into_operator(self, at: usize, count: usize) -> Result<Operator, DumpError> {
        let (from, to) = self.nodes;
        // The end may be the number of nodes.
        if to > count as u64 || from > count as u64 {
            return Err(DumpError::NoSuchNode {
                whence: format!("operator {at} (\"{}\")", self.op),
                node: from.max(to),
                count,
            });
        }
        if to < from {
            let name = self.op;
            return Err(DumpError::Interval { at, name, from, to });
        }
        let mut tensors = Vec::with_capacity(self.tensors.0.len());
        for (place, (first, extent, start, len, written)) in self.tensors.0.into_iter().enumerate()
        {
            let whence = || format!("operator {at} (\"{}\"), tensor {place}", self.op);
            let bytes = range(first, extent, whence)?;
            let storage = range(start, len, whence)?;
            if !bytes.is_empty() && !storage.contains(&bytes) {
                return Err(DumpError::OutsideStorage {
                    at,
                    name: self.op,
                    tensor: place,
                    bytes,
                    storage,
                });
            }
            tensors.push(Tensor {
                bytes,
                storage,
                written,
            });
        }
        Ok(Operator {
            name: self.op,
            stream: self.stream,
            // Both are at most the number of nodes, which fits.
            nodes: (from as u32, to as u32),
            tensors,
        })
    }
}

fn range(start: u64, len: u64, whence: impl Fn() -> String) -> Result<ByteRange, DumpError> {
    ByteRange::from_len(start, len).ok_or_else(|| DumpError::PastEnd {
        whence: whence(),
        start,
        len,
    })
}

/// A list of at most `MAX` entries.
struct Capped<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for Capped<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Capped<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == MAX {
                        return Err(A::Error::invalid_length(MAX + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer
            .deserialize_seq(List::<T, MAX>(PhantomData))
            .map(Self)
    }
}

/// Bytes in hexadecimal, decoded as they are read.
struct Hex(Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let most = Limits::PARAM_BYTES;
                write!(
                    f,
                    "an even number of hexadecimal digits, for at most {most} bytes"
                )
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hex, E> {
                if text.len() > 2 * Limits::PARAM_BYTES || !text.len().is_multiple_of(2) {
                    return Err(E::invalid_length(text.len(), &self));
                }
                decode(text)
                    .map(Hex)
                    .ok_or_else(|| E::custom("a letter that is no hexadecimal digit"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}
