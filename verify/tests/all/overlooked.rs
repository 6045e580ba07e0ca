//! Mistakes in the verifier that would be unsound and that no other test notices,
//! a test for each. The checker is held to the same.

use streamweir_trace::session::{Session, Step, Use};
use streamweir_trace::{
    AccessMode, AllocPoint, Buffer, BufferKind, ByteRange, NodeId, NodeKind, StreamId, Trace,
    UnknownAccess,
};
use streamweir_verify::certificate::{check, claim, digest};
use streamweir_verify::session::add_graph;
use streamweir_verify::{Rule, Verdict, verify_session};

use crate::build::*;

/// Panics unless the trace breaks this rule alone, and the checker refuses what it
/// claims for itself for the same.
#[track_caller]
fn only(trace: &Trace, rule: Rule) {
    assert_eq!(rules(trace), [rule]);
    let refused = check(trace, &claim(trace).unwrap())
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with(&format!("{rule} ")), "{refused}");
}

/// An update of one buffer does not stand for one of another: a third update, of
/// the second buffer, may be in order with the one and not with the other.
#[test]
fn an_update_stands_for_updates_of_its_own_buffer() {
    let mut cap = Capture::new();
    let [a, b] = ["a", "b"].map(|name| cap.scratch(MAIN, name, 0x1000, 64));
    let fill = cap.node(MAIN, "fill");
    cap.join(SIDE, MAIN);
    let one = cap.node(MAIN, "one");
    let two = cap.node(MAIN, "two");
    let beside = cap.node(SIDE, "beside");
    cap.join(MAIN, SIDE);
    cap.node(MAIN, "end");
    cap.all(fill, Write, a);
    cap.all(one, Atomic, a);
    cap.all(two, Atomic, b);
    cap.all(beside, Atomic, b);
    let trace = cap.end();
    let found = broken(&trace);
    assert!(
        found.contains(&(Rule::SharedBytes, Some(one), Some(beside))),
        "{found:?}"
    );
    assert!(check(&trace, &claim(&trace).unwrap()).is_err());
}

/// Of buffers that begin alike the longer one reaches further.
#[test]
fn kept_bytes_under_buffers_that_begin_alike() {
    let mut cap = Capture::new();
    cap.persistent("near", 0x1000, 0x100);
    cap.persistent("far", 0x2000, 0x100);
    let short = cap.scratch(MAIN, "short", 0xff0, 0x80);
    let long = cap.scratch(MAIN, "long", 0xff0, 0x1100);
    let one = cap.node(MAIN, "one");
    let two = cap.node(MAIN, "two");
    cap.part(one, Write, short, 0, 0x10);
    cap.part(two, Write, long, 0x1010, 0x1020);
    let trace = cap.end();
    assert_eq!(broken(&trace), [(Rule::SharedBytes, Some(two), None)]);
    assert!(check(&trace, &claim(&trace).unwrap()).is_err());
}

/// A buffer that is taken behind two nodes is there behind both.
#[test]
fn every_node_of_an_alloc_point_counts() {
    for order in [[0, 1], [1, 0]] {
        let mut cap = Capture::new();
        let nodes = [cap.node(MAIN, "a"), cap.node(SIDE, "b")];
        let user = cap.node(MAIN, "user");
        cap.join(MAIN, SIDE);
        cap.node(MAIN, "end");
        let kind = BufferKind::Scratch {
            stream: MAIN,
            alloc: AllocPoint {
                frontier: order.map(|at| nodes[at]).to_vec(),
                before: user,
            },
            freed_before: None,
        };
        let taken = cap.trace.add_buffer(Buffer {
            name: "taken".into(),
            kind,
            range: ByteRange::new(0x1000, 0x1040),
            carried: false,
        });
        cap.all(user, Write, taken);
        only(&cap.end(), Rule::OwnerGone);
    }
}

/// Taken behind nothing, and used by a node that was recorded before that.
#[test]
fn a_node_recorded_before_the_alloc_point() {
    let mut cap = Capture::new();
    let early = cap.node(MAIN, "early");
    let kind = BufferKind::Scratch {
        stream: SIDE,
        alloc: AllocPoint {
            frontier: Vec::new(),
            before: NodeId(1),
        },
        freed_before: None,
    };
    let taken = cap.trace.add_buffer(Buffer {
        name: "taken".into(),
        kind,
        range: ByteRange::new(0x1000, 0x1040),
        carried: false,
    });
    cap.all(early, Write, taken);
    only(&cap.end(), Rule::OwnerGone);
}

/// A workspace belongs to its stream, whichever of the two comes first.
#[test]
fn workspaces_of_streams_above_and_below() {
    for (owner, user) in [(MAIN, SIDE), (SIDE, MAIN), (THIRD, SIDE), (SIDE, THIRD)] {
        let mut cap = Capture::new();
        let node = cap.node(user, "gemm");
        cap.join(MAIN, user);
        cap.node(MAIN, "end");
        let workspace = cap.persistent("workspace", 0x1000, 64);
        cap.trace.buffers[workspace.index()].kind = BufferKind::Workspace { stream: owner };
        cap.all(node, Write, workspace);
        only(&cap.end(), Rule::LibraryState);
    }
}

/// Work on no known stream has to be joined like any other.
#[test]
fn work_on_no_stream_is_joined() {
    let mut cap = Capture::new();
    cap.node(MAIN, "a");
    let mut trace = cap.end();
    let lost = trace.add_node(streamweir_trace::Node::new(NodeKind::kernel(), "lost"));
    assert_eq!(broken(&trace), [(Rule::Protocol, Some(lost), None)]);
    only(&trace, Rule::Protocol);
    trace.add_edge(streamweir_trace::Edge::full(lost, NodeId(0)));
    safe(&trace);
}

/// A conditional, a child graph and a node of an unknown kind may hold a kernel.
#[test]
fn what_may_hold_a_kernel_beside_one_that_spins() {
    for kind in [
        NodeKind::Conditional,
        NodeKind::ChildGraph,
        NodeKind::Unknown(77),
    ] {
        for spins_first in [true, false] {
            let mut cap = Capture::new();
            let nodes = [cap.node(MAIN, "a"), cap.node(SIDE, "b")];
            cap.join(MAIN, SIDE);
            cap.node(MAIN, "end");
            let [spin, other] = match spins_first {
                true => nodes,
                false => [nodes[1], nodes[0]],
            };
            if let NodeKind::Kernel(kernel) = &mut cap.trace.nodes[spin.index()].kind {
                kernel.sync = streamweir_trace::BlockSync::Spin;
            }
            cap.trace.nodes[other.index()].kind = kind.clone();
            let trace = cap.end();
            let report = streamweir_verify::verify(&trace).unwrap();
            assert_eq!(report.verdict, Verdict::Possible, "{report}");
            only(&trace, Rule::CoResidency);
        }
    }
}

/// A step that reads from two others: either may have been overwritten.
#[test]
fn every_step_that_is_read_from_counts() {
    for lost in [0, 1] {
        let mut session = Session::new("two outputs");
        let main = session.add_stream("main");
        let outputs = [0x1000, 0x2000]
            .map(|at| session.add_buffer(format!("out {at:#x}"), ByteRange::new(at, at + 64)));
        let write = |at: usize| vec![Use::all(outputs[at], 64, AccessMode::Write)];
        for at in 0..2 {
            session.push(Step::eager(format!("make {at}"), main, write(at)));
        }
        session.push(Step::eager("spoil", main, write(lost)));
        let reads = outputs.map(|out| Use::all(out, 64, AccessMode::Read));
        let mut read = Step::eager("read", main, reads.to_vec());
        read.reads_from = vec![streamweir_trace::StepId(0), streamweir_trace::StepId(1)];
        session.push(read);
        let report = verify_session(&session).unwrap();
        assert_eq!(report.hazards_total, 1, "{report}");
        assert_eq!(report.hazards[0].first.name, "spoil");
    }
}

/// What a graph touches outside of its buffers, it touches in a session.
#[test]
fn unknown_accesses_enter_a_session() {
    let mut trace = Trace::new("decode");
    let node = trace.add_node(streamweir_trace::Node::new(NodeKind::kernel(), "k"));
    trace.unknown.push(UnknownAccess {
        node,
        range: ByteRange::new(0x1000, 0x1040),
        mode: AccessMode::Write,
    });
    let mut session = Session::new("beside");
    let streams = ["one", "two"].map(|name| session.add_stream(name));
    let graph = add_graph(&mut session, &trace).unwrap();
    let tokens = session.add_buffer("tokens", ByteRange::new(0x1000, 0x1040));
    session.push(Step::launch("decode", streams[0], graph));
    let read = vec![Use::all(tokens, 64, AccessMode::Read)];
    session.push(Step::eager("read", streams[1], read));
    let report = verify_session(&session).unwrap();
    assert_eq!(report.hazards_total, 1, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::InFlight);
}

/// A certificate about a buffer that is held is none about one that was freed.
#[test]
fn the_digest_covers_the_life_of_a_buffer() {
    let mut cap = Capture::new();
    cap.scratch(MAIN, "a", 0x1000, 64);
    cap.node(MAIN, "k");
    let trace = cap.end();
    let mut seen = vec![digest(&trace)];
    type Change = fn(&mut StreamId, &mut AllocPoint, &mut Option<NodeId>);
    let changes: [Change; 5] = [
        |_, _, freed| *freed = Some(NodeId(0)),
        |_, _, freed| *freed = Some(NodeId(1)),
        |_, alloc, _| alloc.before = NodeId(1),
        |_, alloc, _| alloc.frontier.push(NodeId(0)),
        |stream, _, _| *stream = SIDE,
    ];
    for change in changes {
        let mut other = trace.clone();
        if let BufferKind::Scratch {
            stream,
            alloc,
            freed_before,
        } = &mut other.buffers[0].kind
        {
            change(stream, alloc, freed_before);
        }
        seen.push(digest(&other));
    }
    let kinds = [
        BufferKind::Persistent,
        BufferKind::Workspace { stream: MAIN },
        BufferKind::Workspace { stream: SIDE },
        BufferKind::Foreign {
            keeper: streamweir_trace::Keeper::Nobody,
        },
        BufferKind::Foreign {
            keeper: streamweir_trace::Keeper::Engine,
        },
    ];
    for kind in kinds {
        let mut other = trace.clone();
        other.buffers[0].kind = kind;
        seen.push(digest(&other));
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
}
