//! What the independent checker accepts and refuses.

mod bytes;
mod capture;
mod form;
mod words;

use streamweir_trace::{NodeId, Trace};
use streamweir_verify::certificate::{Certificate, CertificateError, check, claim};

use crate::build::*;

fn capture() -> Trace {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0x1000, 64);
    let write = cap.node(MAIN, "write");
    cap.join(SIDE, MAIN);
    let read = cap.node(SIDE, "read");
    let other = cap.node(MAIN, "other");
    cap.join(MAIN, SIDE);
    let b = cap.scratch(MAIN, "b", 0x1000, 64);
    let reuse = cap.node(MAIN, "reuse");
    cap.all(write, Write, a);
    cap.all(read, Read, a);
    cap.all(other, Read, a);
    cap.all(reuse, Write, b);
    cap.end()
}

fn certified(trace: &Trace) -> Certificate {
    safe(trace).certificate.unwrap()
}

fn unheld(rule: &'static str, node: u32) -> CertificateError {
    let node = Some(NodeId(node));
    CertificateError::NotEstablished { rule, node }
}

/// What the checker has against what the trace claims for itself once it is
/// spoilt.
fn forged(trace: &Trace, spoil: impl FnOnce(&mut Trace)) -> Option<(&'static str, Option<NodeId>)> {
    let mut spoilt = trace.clone();
    spoil(&mut spoilt);
    match check(&spoilt, &claim(&spoilt).unwrap()) {
        Ok(()) => None,
        Err(CertificateError::NotEstablished { rule, node }) => Some((rule, node)),
        Err(other) => panic!("{other}"),
    }
}

/// Two buffers of the graph's own memory in the same bytes, of which nothing is
/// carried. Node 0 allocates them.
fn two_buffers() -> (Capture, [streamweir_trace::BufferId; 2]) {
    use streamweir_trace::{AllocNode, Buffer, BufferKind, ByteRange, NodeKind, Unfreed};
    let mut cap = Capture::new();
    let alloc = cap.node(MAIN, "alloc");
    cap.trace.nodes[alloc.index()].kind = NodeKind::MemAlloc(AllocNode::default());
    cap.trace.unfreed = Unfreed::FreedByLauncher;
    let buffers = ["p", "q"].map(|name| {
        cap.trace.add_buffer(Buffer {
            name: name.into(),
            kind: BufferKind::Graph { alloc, free: None },
            range: ByteRange::new(0x1000, 0x1002),
            carried: false,
        })
    });
    (cap, buffers)
}
