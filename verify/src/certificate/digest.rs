//! What identifies a trace: SHA-256 over a binary form in which no two traces
//! are alike.
//!
//! Every table and every text comes with its length in front, every choice with
//! its number, and every number in eight bytes or one, little end first. The
//! large tables are written field by field, since they are most of a trace; the
//! small ones as their JSON text. Each struct is taken apart in full, so that a
//! field that is added cannot be left out here.

use serde::Serialize;
use sha2::{Digest, Sha256};
use streamweir_trace::{
    Access, AllocPoint, Buffer, BufferKind, ByteRange, Edge, FieldPointer, KernelNode, Node,
    NodeId, NodeKind, Param, PointerParam, PossibleAccess, SourceLine, Trace,
};

/// SHA-256 of the trace, in hexadecimal.
pub fn digest(trace: &Trace) -> String {
    let Trace {
        name,
        streams,
        scopes,
        nodes,
        edges,
        buffers,
        accesses,
        possible,
        unknown,
        stray,
        reserved,
        unfreed,
        promises,
        protocol,
        assumptions,
    } = trace;
    let mut form = Form::new();
    form.json(&(
        name,
        streams,
        scopes,
        unknown,
        stray,
        reserved,
        unfreed,
        promises,
        protocol,
        assumptions,
    ));
    form.table(nodes, Form::node);
    form.table(edges, |form, &Edge { from, to, kind }| {
        form.words([from.0.into(), to.0.into()]);
        form.bytes(&[kind as u8]);
    });
    form.table(buffers, Form::buffer);
    form.table(accesses, |form, access| {
        let &Access {
            node,
            buffer,
            bytes,
            mode,
            phase,
        } = access;
        form.words([node.0.into(), buffer.0.into(), bytes.start, bytes.end]);
        form.bytes(&[mode as u8, phase as u8]);
    });
    form.table(possible, |form, access| {
        let &PossibleAccess {
            node,
            buffer,
            bytes,
            param,
            offset,
        } = access;
        form.words([node.0.into(), buffer.0.into(), bytes.start, bytes.end]);
        // No place is as large as a parameter that is not known.
        form.words([param.map_or(u64::MAX, u64::from), offset.into()]);
    });
    form.finish()
}

/// How much is gathered before it is hashed.
const CHUNK: usize = 1 << 16;

/// The binary form, as far as it has not been hashed yet.
struct Form {
    hash: Sha256,
    buffer: Vec<u8>,
}

impl Form {
    fn new() -> Self {
        Self {
            hash: Sha256::new(),
            buffer: Vec::with_capacity(2 * CHUNK),
        }
    }

    fn finish(mut self) -> String {
        self.hash.update(&self.buffer);
        let digest = self.hash.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn words<const N: usize>(&mut self, words: [u64; N]) {
        for word in words {
            self.bytes(&word.to_le_bytes());
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.words([text.len() as u64]);
        self.bytes(text);
    }

    fn optional<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Self, &T)) {
        self.bytes(&[u8::from(value.is_some())]);
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn table<T>(&mut self, rows: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.words([rows.len() as u64]);
        for row in rows {
            write(self, row);
            if self.buffer.len() >= CHUNK {
                self.hash.update(&self.buffer);
                self.buffer.clear();
            }
        }
    }

    fn json(&mut self, value: &impl Serialize) {
        // Every key of a trace is a string, and no Serialize of it fails.
        let text = serde_json::to_vec(value).expect("a trace always has a JSON form");
        self.text(&text);
    }

    fn id(&mut self, id: &NodeId) {
        self.words([id.0.into()]);
    }

    fn node(&mut self, node: &Node) {
        let Node {
            kind,
            name,
            stream,
            scope,
            launch,
            pdl,
            analysed,
        } = node;
        self.text(name.as_bytes());
        self.optional(stream, |form, stream| form.words([stream.0.into()]));
        self.optional(scope, |form, scope| form.words([scope.0.into()]));
        self.optional(launch, |form, SourceLine { file, line }| {
            form.text(file.as_bytes());
            form.words([u64::from(*line)]);
        });
        self.bytes(&[*pdl as u8, u8::from(*analysed)]);
        match kind {
            NodeKind::Kernel(kernel) => {
                self.bytes(&[1]);
                self.kernel(kernel);
            }
            other => {
                self.bytes(&[0]);
                self.json(other);
            }
        }
    }

    fn kernel(&mut self, kernel: &KernelNode) {
        let KernelNode {
            function,
            grid,
            block,
            shared_bytes,
            cluster,
            sync,
            params,
        } = kernel;
        self.text(function.as_bytes());
        self.words(grid.map(u64::from));
        self.words(block.map(u64::from));
        self.words([u64::from(*shared_bytes)]);
        // The highest bit says that a cluster follows.
        let clustered = *cluster != [0; 3];
        self.bytes(&[*sync as u8 | u8::from(clustered) << 7]);
        if clustered {
            self.words(cluster.map(u64::from));
        }
        self.table(params, |form, param| {
            let Param {
                name,
                offset,
                bytes,
                pointer,
                fields,
            } = param;
            form.text(name.as_bytes());
            form.words([u64::from(*offset)]);
            form.text(bytes);
            form.optional(pointer, |form, PointerParam { buffer, offset }| {
                form.optional(buffer, |form, buffer| form.words([buffer.0.into()]));
                form.words([*offset]);
            });
            form.table(fields, |form, FieldPointer { at, buffer, offset }| {
                form.words([u64::from(*at)]);
                form.optional(buffer, |form, buffer| form.words([buffer.0.into()]));
                form.words([*offset]);
            });
        });
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let Buffer {
            name,
            kind,
            range: ByteRange { start, end },
            carried,
        } = buffer;
        self.text(name.as_bytes());
        self.words([*start, *end]);
        self.bytes(&[u8::from(*carried)]);
        match kind {
            BufferKind::Persistent => self.bytes(&[0]),
            BufferKind::Foreign { keeper } => self.bytes(&[4, *keeper as u8]),
            BufferKind::Workspace { stream } => {
                self.bytes(&[1]);
                self.words([stream.0.into()]);
            }
            BufferKind::Graph { alloc, free } => {
                self.bytes(&[2]);
                self.id(alloc);
                self.optional(free, Self::id);
            }
            BufferKind::Scratch {
                stream,
                alloc: AllocPoint { frontier, before },
                freed_before,
            } => {
                self.bytes(&[3]);
                self.words([stream.0.into()]);
                self.table(frontier, Self::id);
                self.id(before);
                self.optional(freed_before, Self::id);
            }
        }
    }
}
