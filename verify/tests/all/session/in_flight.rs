//! R5: graphs and eager work in flight together, outputs that are overwritten.

use streamweir_verify::{Fix, Rule};

use super::*;
use crate::build::{Read, ReadWrite, Write};

/// one: A: W x ; two: B: R x.
#[test]
fn r5_two_graphs() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let x = rig.buffer("x");
        let a = rig.graph("A", &[(Write, x)]);
        let b = rig.graph("B", &[(Read, x)]);
        rig.launch(ONE, a);
        if ordered {
            rig.order(ONE, TWO);
        }
        rig.launch(TWO, b);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(steps(&hazard), (0, 1));
        assert_eq!(hazard.bytes, ByteRange::new(0x1000, 0x1040));
        assert_eq!(hazard.buffers[0].name, "x");
        assert_eq!(hazard.first.stream.as_deref(), Some("one"));
        assert!(hazard.what.contains("two graphs"), "{hazard}");
        assert!(
            hazard.help.contains(
                "record an event on stream \"one\" behind n0 `A`, and let stream \"two\" wait"
            ),
            "{}",
            hazard.help
        );
    }
}

/// A wait on a third stream is no wait on the one that matters, and an event
/// recorded too early is none for what comes behind it.
#[test]
fn r5_a_wait_in_the_wrong_place() {
    for (into, early) in [(THREE, false), (TWO, true)] {
        let mut rig = Rig::new();
        let x = rig.buffer("x");
        let a = rig.graph("A", &[(Write, x)]);
        let b = rig.graph("B", &[(Read, x)]);
        if early {
            rig.order(ONE, into);
        }
        rig.launch(ONE, a);
        if !early {
            rig.order(ONE, into);
        }
        rig.launch(TWO, b);
        assert_eq!(only(&rig.session).rule, Rule::InFlight);
    }
}

/// Two instantiations of one capture share their arena; launches of one of them
/// never overlap.
#[test]
fn r5_one_replay_group() {
    for one_exec in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let a = rig.graph("batch 1", &[(ReadWrite, arena)]);
        let b = rig.graph("batch 2", &[(ReadWrite, arena)]);
        rig.launch(ONE, a);
        rig.launch(TWO, if one_exec { a } else { b });
        if one_exec {
            safe(&rig.session);
        } else {
            assert_eq!(only(&rig.session).rule, Rule::InFlight);
        }
    }
}

/// An arena is no reason to keep two graphs apart: bytes are.
#[test]
fn r5_disjoint_bytes_of_one_arena() {
    for meet in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let middle = if meet { 33 } else { 32 };
        let low = Use::new(arena, ByteRange::new(0, middle), ReadWrite);
        let high = Use::new(arena, ByteRange::new(32, 64), ReadWrite);
        let a = rig.session.add_graph("A", vec![low]);
        let b = rig.session.add_graph("B", vec![high]);
        rig.launch(ONE, a);
        rig.launch(TWO, b);
        if meet {
            assert_eq!(only(&rig.session).bytes, ByteRange::new(0x1020, 0x1021));
        } else {
            safe(&rig.session);
        }
    }
}

/// Eager scratch that an allocator took from inside a graph's arena, under
/// another name.
#[test]
fn r5_eager_scratch_inside_an_arena() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        let arena = rig.buffer("arena");
        let start = rig.session.buffer(arena).range.start;
        let inside = ByteRange::new(start + 16, start + 24);
        let scratch = rig.session.add_buffer("eager scratch", inside);
        let a = rig.graph("A", &[(ReadWrite, arena)]);
        rig.launch(ONE, a);
        if waits {
            rig.session.push(Step::sync_stream(ONE));
        }
        let uses = vec![Use::all(scratch, 8, Write)];
        rig.session.push(Step::eager("sample", TWO, uses));
        // Turns are fine, in both directions and as often as one likes.
        rig.order(TWO, ONE);
        rig.launch(ONE, a);
        if waits {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(hazard.bytes, inside);
        let names: Vec<&str> = hazard.buffers.iter().map(|b| &*b.name).collect();
        assert_eq!(names, ["arena", "eager scratch"]);
    }
}

#[test]
fn r5_eager_work_on_two_streams() {
    let mut rig = Rig::new();
    let x = rig.buffer("x");
    rig.eager(ONE, "write", &[(Write, x)]);
    rig.eager(TWO, "read", &[(Read, x)]);
    let hazard = only(&rig.session);
    assert_eq!(hazard.rule, Rule::InFlight);
    assert!(hazard.what.contains("eager work"), "{hazard}");
}

/// one: A: W out, A: W out, K: R out, which is to find the first A's.
#[test]
fn r5_a_replay_overwrites_a_live_output() {
    for (in_time, said) in [(false, true), (true, true), (false, false)] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let a = rig.graph("A", &[(Write, out)]);
        let first = rig.launch(ONE, a);
        let reader = |rig: &mut Rig| {
            let reader = rig.eager(ONE, "sample", &[(Read, out)]);
            if said {
                rig.reads_from(reader, first);
            }
        };
        if in_time {
            reader(&mut rig);
        }
        rig.launch(ONE, a);
        if !in_time {
            reader(&mut rig);
        }
        if in_time || !said {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::InFlight);
        assert_eq!(steps(&hazard), (1, 2));
        assert_eq!(hazard.first.access, Some(Write));
        assert_eq!(hazard.second.as_ref().unwrap().access, Some(Read));
        assert_eq!(hazard.bytes, ByteRange::new(0x1000, 0x1040));
        let fix = Fix::ReadEarlier {
            reader: streamweir_trace::NodeId(2),
            before: streamweir_trace::NodeId(1),
        };
        assert_eq!(hazard.fix, fix);
        assert_eq!(mended(&rig.session).steps[1].name, "sample");
    }
}

/// A reader of two outputs in one place cannot have both, wherever it stands.
#[test]
fn r5_two_outputs_in_one_place() {
    let mut rig = Rig::new();
    let out = rig.buffer("out");
    let a = rig.graph("A", &[(Write, out)]);
    let first = rig.launch(ONE, a);
    rig.eager(ONE, "spoil", &[(Write, out)]);
    let second = rig.launch(ONE, a);
    let reader = rig.eager(ONE, "both", &[(Read, out)]);
    rig.reads_from(reader, first);
    rig.reads_from(reader, second);
    let report = verify_session(&rig.session).unwrap();
    assert_eq!(report.hazards_total, 1, "{report}");
    assert_eq!(report.hazards[0].fix, Fix::Separate { buffer: out });
    assert!(mend(&rig.session, &report.hazards[0].fix).is_none());
}
