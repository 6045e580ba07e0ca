//! R9: what a capture's scratch takes, beside what it needs.

use streamweir_trace::{ByteRange, Reserved, Trace};
use streamweir_verify::Growth;

use crate::build::*;

const MIB: u64 = 1 << 20;

/// main: for each of `count` buffers, W and R, then a free; each at its own
/// place, or all at one.
fn in_turn(count: u64, reuse: bool) -> Trace {
    let mut cap = Capture::new();
    for at in 0..count {
        let place = if reuse { 0 } else { at };
        let a = cap.scratch(MAIN, "a", MIB + place * MIB, MIB);
        let write = cap.node(MAIN, "write");
        let read = cap.node(MAIN, "read");
        cap.all(write, Write, a);
        cap.all(read, Read, a);
        cap.free(a);
    }
    cap.end()
}

fn only(trace: &Trace) -> Growth {
    let report = safe(trace);
    assert_eq!(report.growth.len(), 1, "{:?}", report.growth);
    report.growth[0].clone()
}

#[test]
fn r9_places_that_are_not_used_again() {
    let wasteful = in_turn(10, false);
    let growth = only(&wasteful);
    assert_eq!(growth.tag.as_deref(), Some("main"));
    assert_eq!(growth.streams, ["main"]);
    assert_eq!(growth.buffers, 10);
    assert_eq!(
        (growth.peak, growth.reserved, growth.floor),
        (MIB, 10 * MIB, MIB)
    );
    assert!(growth.floor_exact);
    let text = safe(&wasteful).to_string();
    assert!(
        text.contains(
            "note[R9]: the scratch of tag \"main\" reserves 10.0 MiB for 1.0 MiB live at once; \
             1.0 MiB would do"
        ),
        "{text}"
    );

    let frugal = in_turn(10, true);
    let growth = only(&frugal);
    assert_eq!(
        (growth.peak, growth.reserved, growth.floor),
        (MIB, MIB, MIB)
    );
    assert!(!safe(&frugal).to_string().contains("R9"));
}

#[test]
fn r9_sizes_are_in_units_that_read_well() {
    let mut growth = only(&in_turn(1, false));
    growth.tag = None;
    growth.peak = 1023;
    growth.reserved = (40 << 20) + (1 << 19);
    growth.floor = 90_112;
    assert_eq!(
        growth.to_string(),
        "the scratch of all tags reserves 40.5 MiB for 1023 bytes live at once; 88.0 KiB would do"
    );
}

/// What the pool holds counts, not only what its buffers lie in.
#[test]
fn r9_what_the_pool_reserves() {
    let mut trace = in_turn(2, true);
    trace.reserved.push(Reserved {
        stream: Some(MAIN),
        range: ByteRange::new(MIB, 21 * MIB),
    });
    // Held twice is held once.
    trace.reserved.push(Reserved {
        stream: Some(MAIN),
        range: ByteRange::new(20 * MIB, 22 * MIB),
    });
    let growth = only(&trace);
    assert_eq!(growth.reserved, 21 * MIB);
    assert!(growth.is_far_above_floor());
}

/// A reader on another stream, not joined: freed on the host or not, the buffer
/// and its successor need a place each. The floor sees what the peak does not.
#[test]
fn r9_the_floor_follows_the_graph_and_not_the_host() {
    for joined in [false, true] {
        let mut cap = Capture::new();
        let a = cap.scratch(MAIN, "a", 0, 64);
        let write = cap.node(MAIN, "write");
        cap.join(SIDE, MAIN);
        let read = cap.node(SIDE, "read");
        cap.free(a);
        if joined {
            cap.join(MAIN, SIDE);
        }
        let b = cap.scratch(MAIN, "b", 64, 32);
        let next = cap.node(MAIN, "write b");
        cap.join(MAIN, SIDE);
        cap.all(write, Write, a);
        cap.all(read, Read, a);
        cap.all(next, Write, b);
        let growth = only(&cap.end());
        assert_eq!(growth.peak, 64);
        assert_eq!(growth.floor, if joined { 64 } else { 96 });
    }
}

/// Pools of two tags have a line each and one together.
#[test]
fn r9_per_tag_and_together() {
    let mut cap = Capture::new();
    let a = cap.scratch(MAIN, "a", 0, 64);
    let write = cap.node(MAIN, "write");
    cap.free(a);
    cap.join(SIDE, MAIN);
    let b = cap.scratch(SIDE, "b", 64, 32);
    let next = cap.node(SIDE, "write b");
    cap.join(MAIN, SIDE);
    cap.all(write, Write, a);
    cap.all(next, Write, b);
    let report = safe(&cap.end());
    let rows: Vec<_> = report
        .growth
        .iter()
        .map(|g| (g.tag.as_deref(), g.peak, g.reserved, g.floor))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("main"), 64, 64, 64),
            (Some("side"), 32, 32, 32),
            (None, 64, 96, 64),
        ]
    );
}

/// Above the limit the floor is a lower bound, says so, and is no more than what
/// is in use somewhere.
#[test]
fn r9_a_bound_for_many_buffers() {
    let growth = only(&in_turn(65, false));
    assert!(!growth.floor_exact);
    assert_eq!(growth.floor, MIB);
    assert!(growth.to_string().ends_with("at least 1.0 MiB would do"));
    assert!(only(&in_turn(64, false)).floor_exact);
}

#[test]
fn r9_sizes_that_do_not_sum() {
    let mut cap = Capture::new();
    let nodes: Vec<_> = (0..3)
        .map(|_| {
            let a = cap.scratch(MAIN, "a", 0, u64::MAX);
            (cap.node(MAIN, "write"), a)
        })
        .collect();
    for (node, a) in nodes {
        cap.part(node, Write, a, 0, 1);
    }
    let report = streamweir_verify::verify(&cap.end()).unwrap();
    assert_eq!(report.growth[0].peak, u64::MAX);
}
