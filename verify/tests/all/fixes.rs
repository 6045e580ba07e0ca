//! A fix mends: applied one after the other they end in a safe verdict.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};
use streamweir_trace::{ByteRange, Trace, UnknownAccess};
use streamweir_verify::verify;

use crate::build::*;
use crate::minimal::is_minimal;

#[track_caller]
fn mends(mut trace: Trace) {
    for _ in 0..64 {
        let report = verify(&trace).unwrap();
        let Some(hazard) = report.hazards.first() else {
            safe(&trace);
            return;
        };
        is_minimal(&trace, hazard);
        trace = hazard.fix.apply(&trace);
        trace.check().unwrap();
        // A pair of nodes may share several pairs of buffers, each with a fix
        // of its own; but what was fixed must be gone.
        let left = verify(&trace).unwrap();
        let gone = !left.hazards.contains(hazard);
        assert!(gone, "not mended:\n{hazard}");
    }
    panic!("fixes do not end: {}", verify(&trace).unwrap());
}

/// Four streams' worth of unordered work on a few buffers that collide.
fn tangle(seed: u64) -> Trace {
    let mut random = StdRng::seed_from_u64(seed);
    let mut next = move |below: u64| random.random_range(0..below);
    let mut cap = Capture::new();
    let buffers: Vec<_> = (0..4)
        .map(|at| cap.scratch(MAIN, &format!("b{at}"), 0x1000 + next(6) * 16, 64))
        .collect();
    for buffer in &buffers {
        cap.trace.buffers[buffer.index()].carried = next(5) == 0;
    }
    let streams = [MAIN, SIDE, THIRD];
    for _ in 0..9 {
        let stream = streams[next(3) as usize];
        if next(4) == 0 {
            cap.join(stream, streams[next(3) as usize]);
        }
        let node = cap.node(stream, "k");
        for _ in 0..2 {
            let mode = [Read, Write, ReadWrite][next(3) as usize];
            cap.all(node, mode, buffers[next(4) as usize]);
        }
    }
    for stream in [SIDE, THIRD] {
        if next(2) == 0 {
            cap.join(MAIN, stream);
        } else {
            cap.trace.streams[stream.index()].end.joined = false;
        }
    }
    cap.end()
}

#[test]
fn tangles() {
    let mut hazards = 0;
    for seed in 1..200 {
        let trace = tangle(seed);
        hazards += verify(&trace).unwrap().hazards_total;
        mends(trace);
    }
    assert!(
        hazards > 1000,
        "the tangles are too tame: {hazards} hazards"
    );
}

#[test]
fn lives_that_are_too_short() {
    let mut cap = Capture::new();
    cap.node(MAIN, "before");
    let a = cap.scratch(MAIN, "a", 0, 64);
    let early = cap.node(SIDE, "unordered");
    cap.join(MAIN, SIDE);
    cap.free(a);
    let late = cap.node(MAIN, "late");
    cap.all(early, Write, a);
    cap.all(late, Read, a);
    mends(cap.end());
}

#[test]
fn a_use_before_the_buffer_was_taken() {
    let mut cap = Capture::new();
    let before = cap.node(MAIN, "before");
    let a = cap.scratch(MAIN, "a", 0, 64);
    cap.all(before, Write, a);
    mends(cap.end());
}

#[test]
fn unknown_memory() {
    let mut cap = Capture::new();
    let node = cap.node(MAIN, "k");
    let mut trace = cap.end();
    for end in [0x9100, 0x9200] {
        trace.unknown.push(UnknownAccess {
            node,
            range: ByteRange::new(0x9000, end),
            mode: Read,
        });
    }
    trace.unknown.push(UnknownAccess {
        node,
        range: ByteRange::new(0xa000, 0xa001),
        mode: Write,
    });
    mends(trace);
}

#[test]
fn reads_of_nothing() {
    let mut cap = Capture::new();
    cap.node(MAIN, "before");
    let a = cap.scratch(MAIN, "a", 0, 64);
    let low = cap.node(MAIN, "low");
    let read = cap.node(MAIN, "read");
    cap.free(a);
    cap.part(low, Write, a, 0, 16);
    cap.all(read, Read, a);
    mends(cap.end());
}

/// The fill that a fix records is inside the life of the buffer it fills.
#[test]
fn a_fill_in_front_of_the_first_node() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0, 64);
    let read = cap.node(MAIN, "read");
    cap.all(read, Read, a);
    let trace = cap.end();
    let report = verify(&trace).unwrap();
    assert_eq!(report.hazards_total, 1);
    let mended = report.hazards[0].fix.apply(&trace);
    assert_eq!(mended.nodes[0].name, "fill a");
    safe(&mended);
}
