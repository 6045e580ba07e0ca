//! What traces showed and no verdict spoke of: words beside a declared pointer, a
//! capture without streams, the operands of a graph in a session.

use streamweir_trace::session::{Session, Step};
use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, CopyNode, Edge, FillNode,
    KernelNode, Node, NodeId, NodeKind, Param, PointerParam, Stream, StreamId, Trace,
};
use streamweir_verify::certificate::{check, claim};
use streamweir_verify::session::{add_graph, verify_session};
use streamweir_verify::{Report, Rule, Verdict, verify};

const AT: u64 = 0x1000;
const BYTES: u64 = 0x1000;

/// Two streams; `edges` order the nodes, all of which are where the capture ends.
fn trace(nodes: impl IntoIterator<Item = (NodeKind, u32)>, edges: &[(u32, u32)]) -> Trace {
    let mut trace = Trace::new("capture");
    let main = trace.add_stream(Stream::origin("main"));
    let mut side = Stream::forked("side", main);
    side.end.joined = true;
    trace.add_stream(side);
    for (kind, stream) in nodes {
        trace.add_node(Node::new(kind, "node").on(StreamId(stream)));
    }
    let order = edges.iter();
    trace.edges = order
        .map(|&(from, to)| Edge::full(NodeId(from), NodeId(to)))
        .collect();
    trace.streams[0].end.frontier = (0..trace.nodes.len()).map(NodeId::at).collect();
    trace
}

fn persistent(trace: &mut Trace, name: &str, start: u64) -> BufferId {
    trace.add_buffer(Buffer {
        name: name.to_owned(),
        kind: BufferKind::Persistent,
        range: ByteRange::new(start, start + BYTES),
        carried: true,
    })
}

fn kernel(params: Vec<Param>) -> NodeKind {
    NodeKind::Kernel(KernelNode {
        params,
        ..KernelNode::default()
    })
}

fn words(words: &[u64]) -> Param {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    Param::new("", 0, bytes.collect())
}

#[track_caller]
fn unsafe_by(trace: &Trace, rule: Rule) -> Report {
    let report = verify(trace).unwrap();
    assert_ne!(report.verdict, Verdict::Safe, "{report}");
    assert!(report.hazards.iter().any(|h| h.rule == rule), "{report}");
    let claimed = claim(trace).unwrap();
    assert!(check(trace, &claimed).is_err(), "certified");
    report
}

#[track_caller]
fn safe(trace: &Trace) -> Report {
    let report = verify(trace).unwrap();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let proof = report.certificate.as_ref().expect("a certificate");
    check(trace, proof).unwrap();
    report
}

/// A declared pointer speaks of its own eight bytes, not of the rest of its
/// parameter.
#[test]
fn a_word_beside_a_declared_pointer_is_a_word() {
    for second in [0x2000, 0x2ff8, 0x3000] {
        let mut param = words(&[AT, second]);
        param.pointer = Some(PointerParam {
            buffer: Some(BufferId(0)),
            offset: 0,
        });
        let mut trace = trace([(kernel(vec![param]), 0), (kernel(vec![]), 1)], &[]);
        let first = persistent(&mut trace, "first", AT);
        let other = persistent(&mut trace, "other", 0x2000);
        let some = ByteRange::new(0, 16);
        trace.add_access(Access::new(NodeId(0), first, some, AccessMode::Read));
        trace.add_access(Access::new(NodeId(1), other, some, AccessMode::Write));
        // One past the end is no address of the buffer.
        match second {
            0x3000 => drop(safe(&trace)),
            _ => drop(unsafe_by(&trace, Rule::UnorderedConflict)),
        }
    }
}

/// Nobody knows where a capture ended whose nodes are on no known stream.
#[test]
fn a_capture_without_streams_has_no_known_end() {
    let mut trace = trace([(kernel(vec![]), 0), (kernel(vec![]), 0)], &[]);
    trace.streams.clear();
    trace.nodes.iter_mut().for_each(|node| node.stream = None);
    let report = safe(&trace);
    assert_eq!(report.assumptions.len(), 1, "{report}");
}

/// A fill that the capture declares nothing of is a use of the graph all the same.
#[test]
fn a_session_knows_the_operands_of_its_graphs() {
    let fill = NodeKind::Memset(FillNode::linear(AT, 64, 0));
    let copy = NodeKind::Memcpy(CopyNode::linear(0x9000, AT, 64));
    let to = NodeKind::Memcpy(CopyNode::linear(AT, 0x9000, 64));
    for (kind, reads) in [(fill, false), (copy, true), (to, false)] {
        let mut graph = trace([(kind, 0)], &[]);
        persistent(&mut graph, "buffer", AT);
        let mut session = Session::new("session");
        let one = session.add_stream("one");
        let two = session.add_stream("two");
        let id = add_graph(&mut session, &graph).unwrap();
        let buffer = session.buffers.iter().position(|b| b.range.start == AT);
        let buffer = BufferId::at(buffer.expect("the bytes of the operand"));
        let mode = if reads {
            AccessMode::Write
        } else {
            AccessMode::Read
        };
        session.push(Step::launch("replay", one, id));
        let used = streamweir_trace::session::Use::new(buffer, ByteRange::new(0, 16), mode);
        session.push(Step::eager("beside it", two, vec![used]));
        let report = verify_session(&session).unwrap();
        assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    }
}
