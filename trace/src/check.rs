//! Whether the tables of a trace fit together.
//!
//! The check is about form alone: every id names an entry, every range and every
//! declared pointer lies in its buffer, all memory ends within the address space.
//! Whether the capture is safe is the verifier's to say, and so is whether the
//! edges form a cycle.

use std::collections::HashMap;

use crate::buffer::{Buffer, BufferKind};
use crate::error::TraceError;
use crate::id::{BufferId, NodeId, ScopeId, StreamId};
use crate::model::Trace;
use crate::node::{NodeKind, Param, PointerParam};
use crate::operand::AllocNode;
use crate::promise::Promised;
use crate::range::ByteRange;

impl Trace {
    /// Checks that the tables fit together.
    ///
    /// # Errors
    /// The first id without an entry, the first range that ends before it starts,
    /// the first memory that ends beyond the address space, the first access or
    /// declared pointer outside its buffer, the first edge from a node to itself
    /// or the first two statements about a free node that contradict each other.
    pub fn check(&self) -> Result<(), TraceError> {
        for (i, stream) in self.streams.iter().enumerate() {
            let whence = || format!("stream {} (\"{}\")", StreamId::at(i), stream.name);
            if let Some(parent) = stream.parent {
                self.has_stream(parent, whence)?;
            }
            for &node in &stream.end.frontier {
                self.has_node(node, whence)?;
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let whence = || format!("node {} (\"{}\")", NodeId::at(i), node.name);
            if let Some(stream) = node.stream {
                self.has_stream(stream, whence)?;
            }
            if let Some(scope) = node.scope {
                self.has_scope(scope, whence)?;
            }
            self.operands_exist(&node.kind, whence)?;
        }
        for (i, edge) in self.edges.iter().enumerate() {
            let whence = || format!("edge {i}");
            self.has_node(edge.from, whence)?;
            self.has_node(edge.to, whence)?;
            if edge.from == edge.to {
                return Err(TraceError::SelfEdge(edge.from));
            }
        }
        // By buffer, its length: what an access must know of it, in little space.
        let mut lengths = Vec::with_capacity(self.buffers.len());
        let mut any_freed = false;
        for (i, buffer) in self.buffers.iter().enumerate() {
            let whence = || format!("buffer {} (\"{}\")", BufferId::at(i), buffer.name);
            upright(buffer.range, whence)?;
            lengths.push(buffer.range.len());
            if let Some(stream) = buffer.stream() {
                self.has_stream(stream, whence)?;
            }
            if let BufferKind::Graph { alloc, free } = buffer.kind {
                any_freed |= free.is_some();
                for node in [Some(alloc), free].into_iter().flatten() {
                    self.has_node(node, whence)?;
                }
                self.is_allocated(buffer, alloc)?;
            }
            if let BufferKind::Scratch {
                alloc,
                freed_before,
                ..
            } = &buffer.kind
            {
                for &node in &alloc.frontier {
                    self.has_node(node, whence)?;
                }
                // These two are positions between nodes, so the count itself
                // is one of them.
                for &position in freed_before.iter().chain([&alloc.before]) {
                    if position.index() > self.nodes.len() {
                        self.has_node(position, whence)?;
                    }
                }
            }
        }
        if any_freed {
            self.frees_agree()?;
        }
        for (i, access) in self.accesses.iter().enumerate() {
            let whence = || format!("access {i}");
            self.has_bytes(access.node, access.buffer, access.bytes, &lengths, whence)?;
        }
        for (i, access) in self.possible.iter().enumerate() {
            let whence = || format!("possible access {i}");
            self.has_bytes(access.node, access.buffer, access.bytes, &lengths, whence)?;
        }
        for (i, reserved) in self.reserved.iter().enumerate() {
            upright(reserved.range, || format!("reserved range {i}"))?;
            if let Some(stream) = reserved.stream {
                self.has_stream(stream, || format!("reserved range {i}"))?;
            }
        }
        for (i, access) in self.unknown.iter().enumerate() {
            self.has_node(access.node, || format!("unknown access {i}"))?;
            upright(access.range, || format!("unknown access {i}"))?;
        }
        for (i, word) in self.stray.iter().enumerate() {
            self.has_node(word.node, || format!("stray word {i}"))?;
        }
        for (i, promise) in self.promises.iter().enumerate() {
            let whence = || format!("promise {i} (\"{}\")", promise.of);
            for &node in &promise.nodes {
                self.has_node(node, whence)?;
            }
            match &promise.what {
                Promised::LeftOver { buffers, .. } => {
                    for &buffer in buffers {
                        self.has_buffer(buffer, whence)?;
                    }
                }
                Promised::Keeps { range, .. } => upright(*range, whence)?,
                Promised::Touches | Promised::Unchecked | Promised::Waits | Promised::Narrowed => {}
            }
        }
        for (i, broken) in self.protocol.iter().enumerate() {
            let whence = || format!("protocol entry {i} (\"{}\")", broken.call);
            if let Some(stream) = broken.stream {
                self.has_stream(stream, whence)?;
            }
            if let Some(node) = broken.node {
                self.has_node(node, whence)?;
            }
        }
        Ok(())
    }

    /// Whether the node allocates the bytes of the buffer, as far as it says
    /// which.
    fn is_allocated(&self, buffer: &Buffer, alloc: NodeId) -> Result<(), TraceError> {
        let instead = match &self.node(alloc).kind {
            NodeKind::MemAlloc(made) if made.at == 0 => return Ok(()),
            // That it ends within the address space has been looked at.
            NodeKind::MemAlloc(made) => {
                let made = ByteRange::from_len(made.at, made.bytes).unwrap_or_default();
                if made.contains(&buffer.range) {
                    return Ok(());
                }
                format!("it allocates {made}")
            }
            other => format!("that is no allocation but a node of kind {}", other.word()),
        };
        Err(TraceError::NotAllocated {
            buffer: buffer.name.clone(),
            alloc,
            instead,
        })
    }

    /// Whether what a node itself says of memory can be: its bytes end within the
    /// address space, its declared pointers lie in their buffers.
    fn operands_exist(
        &self,
        kind: &NodeKind,
        whence: impl Fn() -> String,
    ) -> Result<(), TraceError> {
        let ends = |range: Option<ByteRange>, at, bytes, rows: u64, pitch: u64| match range {
            Some(_) => Ok(()),
            None => Err(TraceError::PastTheEnd {
                whence: whence(),
                at,
                bytes: ((rows - 1).checked_mul(pitch))
                    .and_then(|before| before.checked_add(bytes))
                    .unwrap_or(bytes),
            }),
        };
        match kind {
            NodeKind::Kernel(kernel) => {
                for (place, param) in kernel.params.iter().enumerate() {
                    for (at, to) in param.pointers() {
                        if let Some(buffer) = to.buffer {
                            self.has_buffer(buffer, &whence)?;
                        }
                        let whence = || {
                            let field = match param.fields.is_empty() {
                                true => String::new(),
                                false => format!("byte {at} of "),
                            };
                            let name = &param.name;
                            format!("{field}parameter {place} (\"{name}\") of {}", whence())
                        };
                        self.pointer_exists(param, at, to, whence)?;
                    }
                }
                Ok(())
            }
            NodeKind::MemAlloc(AllocNode { at, bytes }) => {
                ends(ByteRange::from_len(*at, *bytes), *at, *bytes, 1, 0)
            }
            NodeKind::Memcpy(copy) => {
                let (bytes, rows) = (copy.bytes, copy.rows);
                ends(copy.written(), copy.to, bytes, rows, copy.to_pitch)?;
                ends(copy.read(), copy.from, bytes, rows, copy.from_pitch)
            }
            NodeKind::Memset(fill) => {
                if ![1, 2, 4].contains(&fill.element) {
                    return Err(TraceError::Element {
                        whence: whence(),
                        element: fill.element,
                    });
                }
                ends(fill.written(), fill.to, fill.bytes, fill.rows, fill.pitch)
            }
            _ => Ok(()),
        }
    }

    fn pointer_exists(
        &self,
        param: &Param,
        at: u32,
        to: PointerParam,
        whence: impl Fn() -> String,
    ) -> Result<(), TraceError> {
        let word = param.word(at);
        if word.is_none() && (at > 0 || to.buffer.is_some()) {
            return Err(TraceError::FieldBeyond {
                whence: whence(),
                len: param.bytes.len(),
            });
        }
        let PointerParam {
            buffer: Some(id),
            offset,
        } = to
        else {
            return Ok(());
        };
        let buffer = self.buffer(id);
        upright(buffer.range, || {
            format!("buffer {id} (\"{}\")", buffer.name)
        })?;
        let at = buffer.range.start.checked_add(offset);
        // One past the end is where an empty slice of the buffer may lie.
        let Some(at) = at.filter(|&at| at <= buffer.range.end) else {
            return Err(TraceError::PointerBeyond {
                whence: whence(),
                buffer: buffer.name.clone(),
                offset,
                len: buffer.range.len(),
            });
        };
        match word {
            Some(holds) if holds != at => Err(TraceError::PointerElsewhere {
                whence: whence(),
                buffer: buffer.name.clone(),
                offset,
                at,
                holds,
            }),
            _ => Ok(()),
        }
    }

    /// Whether the buffers of the graph's own memory name one free node for each
    /// allocation, and one allocation for each free node, of the same address.
    fn frees_agree(&self) -> Result<(), TraceError> {
        let (mut free_of, mut alloc_of) = (HashMap::new(), HashMap::new());
        for buffer in &self.buffers {
            let BufferKind::Graph {
                alloc,
                free: Some(free),
            } = buffer.kind
            else {
                continue;
            };
            let contradicted = |instead| TraceError::FreeContradicted {
                buffer: buffer.name.clone(),
                alloc,
                free,
                instead,
            };
            let (other, by) = *free_of.entry(alloc).or_insert((free, &buffer.name));
            if other != free {
                let instead = format!("buffer \"{by}\" says that {other} does");
                return Err(contradicted(instead));
            }
            let (other, by) = *alloc_of.entry(free).or_insert((alloc, &buffer.name));
            if other != alloc {
                let instead = format!("buffer \"{by}\" has it free what {other} allocates");
                return Err(contradicted(instead));
            }
            let NodeKind::MemFree(freed) = &self.node(free).kind else {
                return Err(contradicted("that is no free node".to_owned()));
            };
            if let NodeKind::MemAlloc(made) = &self.node(alloc).kind
                && made.at != freed.at
                && made.at != 0
                && freed.at != 0
            {
                let instead = format!("one is at {:#x}, the other at {:#x}", made.at, freed.at);
                return Err(contradicted(instead));
            }
        }
        Ok(())
    }

    #[inline]
    fn has_bytes(
        &self,
        node: NodeId,
        buffer: BufferId,
        bytes: ByteRange,
        lengths: &[u64],
        whence: impl Fn() -> String,
    ) -> Result<(), TraceError> {
        self.has_node(node, &whence)?;
        self.has_buffer(buffer, &whence)?;
        upright(bytes, &whence)?;
        let len = lengths[buffer.index()];
        if bytes.end <= len {
            return Ok(());
        }
        Err(TraceError::OutsideBuffer {
            node,
            buffer: self.buffer(buffer).name.clone(),
            bytes,
            len,
        })
    }

    fn has_node(&self, id: NodeId, whence: impl FnOnce() -> String) -> Result<(), TraceError> {
        within(id, id.index(), self.nodes.len(), "nodes", whence)
    }

    fn has_stream(&self, id: StreamId, whence: impl FnOnce() -> String) -> Result<(), TraceError> {
        within(id, id.index(), self.streams.len(), "streams", whence)
    }

    fn has_buffer(&self, id: BufferId, whence: impl FnOnce() -> String) -> Result<(), TraceError> {
        within(id, id.index(), self.buffers.len(), "buffers", whence)
    }

    fn has_scope(&self, id: ScopeId, whence: impl FnOnce() -> String) -> Result<(), TraceError> {
        within(id, id.index(), self.scopes.len(), "scopes", whence)
    }
}

#[inline]
fn upright(range: ByteRange, whence: impl FnOnce() -> String) -> Result<(), TraceError> {
    if range.start <= range.end {
        return Ok(());
    }
    Err(TraceError::InvertedRange {
        whence: whence(),
        start: range.start,
        end: range.end,
    })
}

#[inline]
fn within(
    id: impl ToString,
    index: usize,
    count: usize,
    table: &'static str,
    whence: impl FnOnce() -> String,
) -> Result<(), TraceError> {
    if index < count {
        return Ok(());
    }
    Err(TraceError::NoSuchEntry {
        whence: whence(),
        id: id.to_string(),
        table,
        count,
    })
}
