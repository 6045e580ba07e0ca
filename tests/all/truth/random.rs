//! Random traces: what the verifier says, against what comes out.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{TestRng, TestRunner};
use streamweir::trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, ByteRange, Edge, Node, NodeId, NodeKind,
    Stream, StreamId, Trace,
};
use streamweir::verify::{Rule, Verdict, verify};

use super::fixes::mended;
use super::observable::observable;
use super::play::Play;

const BYTES: u64 = 10;

/// A capture's worth of cases, the same on every run.
pub(crate) fn runner(cases: u32) -> TestRunner {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let random = TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, random)
}

fn mode() -> impl Strategy<Value = AccessMode> {
    use AccessMode::*;
    prop_oneof![4 => Just(Read), 4 => Just(Write), 1 => Just(ReadWrite), 1 => Just(Atomic)]
}

fn buffer() -> impl Strategy<Value = Buffer> {
    (0..2 * BYTES, 1..=BYTES / 2, 0..6_u8).prop_map(|(start, len, kind)| {
        let range = ByteRange::new(start, start + len);
        let mut buffer = Buffer::scratch("s", range, StreamId(0), AllocPoint::default());
        match kind {
            0 => return Buffer::persistent("p", range),
            1 => buffer.carried = true,
            _ => {}
        }
        buffer
    })
}

prop_compose! {
    /// Up to 7 nodes on up to 3 streams, of which each is a chain, with a few
    /// joins between them.
    pub(crate) fn trace()(nodes in 2..=7_usize)(
        on in proptest::collection::vec(0..3_usize, nodes),
        joins in proptest::collection::vec((0..nodes, 0..nodes), 0..=nodes),
        buffers in proptest::collection::vec(buffer(), 1..=4),
        accesses in proptest::collection::vec(
            (0..nodes, any::<prop::sample::Index>(), any::<(u64, u64)>(), mode()),
            1..=10,
        ),
    ) -> Trace {
        let mut trace = Trace::new("random");
        trace.add_stream(Stream::origin("0"));
        for name in ["1", "2"] {
            let mut stream = Stream::forked(name, StreamId(0));
            stream.end.joined = true;
            trace.add_stream(stream);
        }
        for (at, &stream) in on.iter().enumerate() {
            let node = Node::new(NodeKind::kernel(), "k").on(StreamId::at(stream));
            let node = trace.add_node(node);
            if let Some(earlier) = on[..at].iter().rposition(|&other| other == stream) {
                trace.add_edge(Edge::full(NodeId::at(earlier), node));
            }
        }
        for (x, y) in joins {
            if x != y {
                trace.add_edge(Edge::full(NodeId::at(x.min(y)), NodeId::at(x.max(y))));
            }
        }
        for buffer in buffers {
            trace.add_buffer(buffer);
        }
        for (node, buffer, (x, y), mode) in accesses {
            let buffer = BufferId::at(buffer.index(trace.buffers.len()));
            let len = trace.buffer(buffer).range.len();
            let start = x % len;
            let bytes = ByteRange::new(start, start + 1 + y % (len - start));
            trace.add_access(Access::new(NodeId::at(node), buffer, bytes, mode));
        }
        trace
    }
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

/// Verdict against outcome, in both directions.
#[test]
fn the_verdict_and_what_comes_out() {
    let (safe, wrong, vacuous) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (must, too_big) = (Cell::new(0), Cell::new(0));
    let ran = runner(3000).run(&trace(), |trace| {
        let report = verify(&trace).unwrap();
        let Some(found) = Play::of(&trace).explore() else {
            count(&too_big);
            return Ok(());
        };
        let meant = Play::meaning(&trace);
        let differs = found.outcomes.iter().any(|outcome| outcome.bytes != meant);
        if let Some(why) = observable(&trace) {
            prop_assert!(differs, "{}, and nothing shows", why);
            count(&must);
        }
        if differs {
            prop_assert_eq!(report.verdict, Verdict::Hazard);
            count(&wrong);
        } else if report.verdict == Verdict::Safe {
            count(&safe);
        } else {
            count(&vacuous);
        }
        prop_assert!(
            report.hazards.iter().all(|hazard| matches!(
                hazard.rule,
                Rule::UnorderedConflict | Rule::SharedBytes | Rule::ReadBeforeWrite
            )),
            "the traces break no other rule: {}",
            report
        );
        Ok(())
    });
    ran.unwrap();
    let counts = [&safe, &wrong, &vacuous, &must, &too_big].map(Cell::get);
    let [safe, wrong, vacuous, must, too_big] = counts;
    println!(
        "{safe} safe, {wrong} wrong, {vacuous} hazards that never show, {must} that must, {too_big} too big"
    );
    assert!(safe > 300 && wrong > 1800, "{counts:?}");
    assert!(
        must * 10 > wrong * 9,
        "{counts:?}: `observable` sees too little"
    );
    assert!(
        vacuous * 8 < wrong,
        "{counts:?}: too many hazards never show"
    );
    assert!(
        too_big * 20 < wrong,
        "{counts:?}: too many traces are too big"
    );
}

/// Each hazard is mended by its fix, and when all are, all interleavings give
/// what is meant.
#[test]
fn mended_traces_are_clean() {
    let (clean, too_big) = (Cell::new(0), Cell::new(0));
    let ran = runner(1500).run(&trace(), |trace| {
        if verify(&trace).unwrap().verdict == Verdict::Safe {
            return Ok(());
        }
        let mended = mended(&trace);
        let meant = Play::meaning(&mended);
        match Play::of(&mended).explore() {
            Some(found) => {
                for outcome in &found.outcomes {
                    prop_assert!(outcome.bytes == meant, "{}", outcome.schedule);
                }
                count(&clean);
            }
            None => count(&too_big),
        }
        Ok(())
    });
    ran.unwrap();
    let (clean, too_big) = (clean.get(), too_big.get());
    println!("{clean} mended, {too_big} too big");
    assert!(clean > 1000, "{clean} mended, {too_big} too big");
}
