//! The JSON of a dump, and how it becomes a [`Dump`].

use serde::Deserialize;

use super::bounded::{Capped, Hex};
use super::error::DumpError;
use super::model::{
    AllocAction, AllocEvent, Block, CopyEnd, DUMP_FORMAT, Dump, DumpNode, Limits, Operator, Pool,
    RawParam, Segment, Tensor, View,
};
use super::tensor::RawTensor;
use crate::range::ByteRange;

#[derive(Deserialize)]
pub(super) struct File {
    format: String,
    #[serde(default)]
    name: String,
    nodes: Capped<Node, { Limits::NODES }>,
    edges: Capped<(u64, u64), { Limits::ENTRIES }>,
    alloc_trace: Option<Capped<Event, { Limits::ENTRIES }>>,
    segments: Option<Capped<RawSegment, { Limits::ENTRIES }>>,
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
    pool: Option<(u64, u64)>,
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
    tensors: Capped<RawTensor, { Limits::TENSORS }>,
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
        let events = self.alloc_trace.map(|events| {
            let events = events.0.into_iter().enumerate();
            events
                .map(|(at, event)| event.into_event(at))
                .collect::<Result<_, DumpError>>()
        });
        let segments = self.segments.map(|segments| {
            let segments = segments.0.into_iter();
            segments
                .map(RawSegment::into_segment)
                .collect::<Result<_, DumpError>>()
        });
        let operators = self.ops.0.into_iter().enumerate();
        let operators = operators.map(|(at, op)| op.into_operator(at, count));
        Ok(Dump {
            name: self.name,
            edges,
            events: events.transpose()?,
            segments: segments.transpose()?,
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
        match self.kind {
            0 => Ok(DumpNode::Kernel {
                function: self.kernel.ok_or_else(|| missing("kernel", "kernel"))?,
                grid: self.grid.unwrap_or_default(),
                block: self.block.unwrap_or_default(),
                shared_bytes: self.smem.unwrap_or_default(),
                params: (self.params)
                    .map(|params| {
                        let params = params.0.into_iter().enumerate();
                        params
                            .map(|(place, param)| param.into_param(at, place))
                            .collect::<Result<_, _>>()
                    })
                    .transpose()?,
            }),
            1 => {
                let bytes = self.bytes.ok_or_else(|| missing("copy", "bytes"))?;
                let end = |host, kind, start, field| {
                    copy_end(host, kind, start, bytes, || format!("node {at}"))?
                        .ok_or_else(|| missing("copy", field))
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

/// An end of a copy, by what the file calls it and by the driver's
/// `CU_MEMORYTYPE`; `None` when device memory has no address. A host address of
/// zero is what recorders write that do not know it.
fn copy_end(
    host: bool,
    kind: Option<u32>,
    start: Option<u64>,
    bytes: u64,
    whence: impl Fn() -> String,
) -> Result<Option<CopyEnd>, DumpError> {
    const HOST: u32 = 1;
    const ARRAY: u32 = 3;
    const UNIFIED: u32 = 4;
    let known = |start| range(start, bytes, &whence);
    Ok(Some(match (host, kind, start) {
        (_, Some(ARRAY), _) => CopyEnd::Unknown(bytes),
        (true, ..) | (_, Some(HOST), _) => match start.filter(|&start| start != 0) {
            Some(start) => CopyEnd::Host(known(start)?),
            None => CopyEnd::Unknown(bytes),
        },
        (_, _, None) => return Ok(None),
        (_, Some(UNIFIED), Some(start)) => CopyEnd::Unified(known(start)?),
        (_, _, Some(start)) => CopyEnd::Device(known(start)?),
    }))
}

impl Event {
    fn into_event(self, at: usize) -> Result<AllocEvent, DumpError> {
        Ok(AllocEvent {
            action: match self.action {
                Action::Alloc => AllocAction::Alloc,
                Action::FreeRequested => AllocAction::FreeRequested,
                Action::FreeCompleted => AllocAction::FreeCompleted,
                Action::Other => AllocAction::Other,
            },
            range: range(self.addr, self.size, || format!("allocator event {at}"))?,
            stream: self.stream,
        })
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
            pool: match self.pool {
                Some((0, 0)) => Pool::General,
                Some(_) => Pool::Private,
                None => Pool::Unknown,
            },
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
        for (place, tensor) in self.tensors.0.into_iter().enumerate() {
            let RawTensor {
                first,
                extent,
                start,
                len,
                written,
                view,
            } = tensor;
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
            if let Some(what) = view.as_ref().and_then(|view| misfit(view, extent)) {
                let (name, tensor) = (self.op, place);
                return Err(DumpError::View {
                    at,
                    name,
                    tensor,
                    what,
                });
            }
            tensors.push(Tensor {
                bytes,
                storage,
                written,
                view,
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

/// What keeps a view from being one of so many bytes from first to last.
fn misfit(view: &View, extent: u64) -> Option<String> {
    let spanned = if view.dims.iter().any(|&(size, _)| size == 0) {
        Some(0)
    } else {
        let dims = view.dims.iter();
        dims.map(|&(size, stride)| (size - 1).checked_mul(stride))
            .try_fold(view.element, |sum, span| sum.checked_add(span?))
    };
    match spanned {
        Some(bytes) if bytes == extent => None,
        Some(bytes) => Some(format!(
            "its sizes and strides span {bytes} bytes, and {extent} are announced"
        )),
        None => Some("its sizes and strides span more than 2^64 bytes".to_owned()),
    }
}

fn range(start: u64, len: u64, whence: impl Fn() -> String) -> Result<ByteRange, DumpError> {
    ByteRange::from_len(start, len).ok_or_else(|| DumpError::PastEnd {
        whence: whence(),
        start,
        len,
    })
}
