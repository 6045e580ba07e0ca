//! R12: loads, staging, outputs and the host.

use streamweir_verify::Rule;

use super::*;
use crate::build::{Atomic, Read, ReadWrite, Write};

/// loader: W keys ; one: G: R keys.
#[test]
fn r12_a_load_that_is_not_waited_for() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let keys = rig.buffer("keys");
        let loader = rig.session.add_external_stream("loader");
        let g = rig.graph("G", &[(Read, keys)]);
        rig.eager(loader, "load layer 3", &[(Write, keys)]);
        // On the wrong stream it is no wait.
        rig.order(loader, if ordered { ONE } else { TWO });
        rig.launch(ONE, g);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        assert_eq!(
            hazard.what,
            "`G` reads \"keys\" without waiting for `load layer 3`, which fills it"
        );
    }
}

/// The next batch is staged into the input while the graph may still read it.
#[test]
fn r12_an_input_overwritten_too_early() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let staged = rig.host_buffer("staged");
        let tokens = rig.buffer("tokens");
        let g = rig.graph("G", &[(Read, tokens)]);
        rig.copy(TWO, "stage 1", staged, tokens);
        rig.order(TWO, ONE);
        rig.launch(ONE, g);
        if ordered {
            rig.order(ONE, TWO);
        }
        rig.copy(TWO, "stage 2", staged, tokens);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        assert_eq!(
            hazard.what,
            "`stage 2` fills \"tokens\" again while `G` may still read it"
        );
    }
}

/// The output is copied away on a stream of its own: copied too early, and
/// overwritten by the next replay while it is copied.
#[test]
fn r12_an_output_that_is_copied_away() {
    for (before, after) in [(true, true), (false, true), (true, false)] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let host = rig.host_buffer("host");
        let g = rig.graph("G", &[(Write, out)]);
        rig.launch(ONE, g);
        if before {
            rig.order(ONE, TWO);
        }
        rig.copy(TWO, "fetch", out, host);
        if after {
            rig.order(TWO, ONE);
        }
        rig.launch(ONE, g);
        if before && after {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        let what = if before {
            "`G` overwrites \"out\" while `fetch` may still read it"
        } else {
            "`fetch` takes \"out\" away without waiting for `G`, which writes it"
        };
        assert_eq!(hazard.what, what);
    }
}

/// The host reads what a copy brings it, with and without waiting.
#[test]
fn r12_the_host_waits() {
    enum By {
        Nothing,
        Event,
        EventOfAnother,
        Stream,
        Device,
    }
    for (by, ok) in [
        (By::Nothing, false),
        (By::Event, true),
        (By::EventOfAnother, false),
        (By::Stream, true),
        (By::Device, true),
    ] {
        let mut rig = Rig::new();
        let out = rig.buffer("out");
        let host = rig.host_buffer("host");
        let g = rig.graph("G", &[(Write, out)]);
        rig.launch(ONE, g);
        let early = rig.record(ONE);
        rig.copy(ONE, "fetch", out, host);
        let event = rig.record(ONE);
        let sync = match by {
            By::Nothing => None,
            By::Event => Some(Step::sync_event(event)),
            By::EventOfAnother => Some(Step::sync_event(early)),
            By::Stream => Some(Step::sync_stream(ONE)),
            By::Device => Some(Step::new(
                "synchronise",
                streamweir_trace::session::StepKind::SyncDevice,
            )),
        };
        rig.session.steps.extend(sync);
        rig.host("read", Read, host);
        // And what comes behind on another stream is behind the host.
        rig.eager(TWO, "reuse", &[(Write, out)]);
        if ok {
            safe(&rig.session);
            continue;
        }
        let report = verify_session(&rig.session).unwrap();
        let external = report.hazards.iter().filter(|h| h.rule == Rule::External);
        let external: Vec<&Hazard> = external.collect();
        assert_eq!(external.len(), 2, "{report}");
        let host = external[0];
        assert_eq!(host.second.as_ref().unwrap().name, "read");
        assert!(host.help.contains("let the host wait for it"), "{host}");
        mended(&rig.session);
    }
}

/// A ring of pinned staging buffers: the host waits for the copy that read the
/// one it takes, two batches later, or does not.
#[test]
fn r12_a_ring_of_staging_buffers() {
    for (waits, slots) in [(true, 2), (false, 2), (true, 3), (false, 3)] {
        let mut rig = Rig::new();
        let ring: Vec<_> = (0..slots).map(|_| rig.host_buffer("slot")).collect();
        let tokens = rig.buffer("tokens");
        let g = rig.graph("G", &[(Read, tokens)]);
        let mut copied: Vec<Option<EventId>> = vec![None; slots];
        for batch in 0..6 {
            let slot = batch % slots;
            if waits && let Some(event) = copied[slot] {
                rig.session.push(Step::sync_event(event));
            }
            let filled = rig.host("fill", Write, ring[slot]);
            let copy = rig.copy(ONE, "stage", ring[slot], tokens);
            rig.reads_from(copy, filled);
            copied[slot] = Some(rig.record(ONE));
            rig.launch(ONE, g);
        }
        if waits {
            safe(&rig.session);
            continue;
        }
        let report = verify_session(&rig.session).unwrap();
        assert_eq!(report.hazards_total as usize, pairs_of_one_slot(6, slots));
        assert!(report.hazards.iter().all(|h| h.rule == Rule::External));
        let first = &report.hazards[0];
        assert_eq!(
            (&*first.first.name, &*first.second.as_ref().unwrap().name),
            ("stage", "fill")
        );
        mended(&rig.session);
    }
}

/// Each copy and each later fill of its slot.
fn pairs_of_one_slot(batches: usize, slots: usize) -> usize {
    (0..batches)
        .map(|copy| {
            (copy + 1..batches)
                .filter(|fill| fill % slots == copy % slots)
                .count()
        })
        .sum()
}

/// The fill is ordered between an earlier fill and the copy that is to read it:
/// nothing races, and the batch is lost.
#[test]
fn r12_a_batch_filled_over() {
    let mut rig = Rig::new();
    let staged = rig.host_buffer("staged");
    let tokens = rig.buffer("tokens");
    let first = rig.host("fill 1", Write, staged);
    rig.host("fill 2", Write, staged);
    let copy = rig.copy(ONE, "stage 1", staged, tokens);
    rig.reads_from(copy, first);
    let hazard = only(&rig.session);
    assert_eq!(hazard.rule, Rule::External);
    assert_eq!(
        hazard.what,
        "n1 `fill 2` overwrites \"staged\" before n2 `stage 1` has read there what n0 `fill 1` wrote"
    );
}

/// Atomics race with nothing, and yet the one that is to read what the other has
/// added must come after it, and alone.
#[test]
fn r12_an_atomic_that_does_not_wait_for_its_source() {
    for ordered in [false, true] {
        let mut rig = Rig::new();
        let sum = rig.buffer("sum");
        let add = rig.eager(ONE, "add", &[(Atomic, sum)]);
        if ordered {
            rig.order(ONE, TWO);
        }
        let take = rig.eager(TWO, "take", &[(Atomic, sum)]);
        rig.session.steps[take.index()].reads_from.push(add);
        if ordered {
            safe(&rig.session);
            continue;
        }
        let hazard = only(&rig.session);
        assert_eq!(hazard.rule, Rule::External);
        assert_eq!(
            hazard.what,
            "n1 `take` may run before n0 `add`, from which it is to read \"sum\""
        );
    }
}

/// A third atomic that nothing keeps out: behind the source, and beside the
/// reader, the source or both.
#[test]
fn an_atomic_that_may_come_in_between() {
    for (from, wait) in [(TWO, false), (TWO, true), (THREE, false)] {
        let mut rig = Rig::new();
        let sum = rig.buffer("sum");
        let add = rig.eager(ONE, "add", &[(Atomic, sum)]);
        if wait {
            rig.order(ONE, from);
        }
        let other = rig.eager(from, "other", &[(Atomic, sum)]);
        let take = rig.eager(ONE, "take", &[(Atomic, sum)]);
        rig.session.steps[take.index()].reads_from.push(add);
        // No order of these three would do: the reader adds as well.
        let report = verify_session(&rig.session).unwrap();
        assert_eq!(report.hazards_total, 1, "{report}");
        let hazard = &report.hazards[0];
        assert_eq!(hazard.rule, Rule::InFlight);
        let says = format!("{other} `other` may overwrite \"sum\" before {take} `take` has read");
        assert!(hazard.what.starts_with(&says), "{}", hazard.what);
        // It is meant to be in there.
        rig.session.steps[take.index()].reads_from.push(other);
        let hazard = only(&rig.session);
        assert_eq!(hazard.first.node.map(|node| node.0), Some(other.0));
        assert!(hazard.what.contains("may run before"), "{}", hazard.what);
        let last = rig.session.steps.pop().expect("the reader");
        rig.order(from, ONE);
        rig.session.push(last);
        safe(&rig.session);
    }
}

/// Each of the steps that a reader names is held to, not only the first.
#[test]
fn every_source_of_a_reader_counts() {
    for spoilt in [None, Some(0), Some(1), Some(2)] {
        let mut rig = Rig::new();
        let parts = ["q", "k", "v"].map(|name| rig.buffer(name));
        let sources = parts.map(|part| rig.eager(ONE, "make", &[(Write, part)]));
        if let Some(spoilt) = spoilt {
            rig.eager(ONE, "spoil", &[(Write, parts[spoilt])]);
        }
        let take = rig.eager(ONE, "take", &parts.map(|part| (Read, part)));
        rig.session.steps[take.index()].reads_from.extend(sources);
        match spoilt {
            None => drop(safe(&rig.session)),
            Some(spoilt) => {
                let what = only(&rig.session).what;
                let name = ["q", "k", "v"][spoilt];
                assert!(what.contains(&format!("overwrites \"{name}\"")), "{what}");
            }
        }
    }
}

/// Sessions that are long, and entangled in ways that take the square or the cube
/// of their length to list, are judged all the same.
#[test]
fn long_sessions_are_judged_in_time() {
    // Each step reads what the first one wrote, and writes there.
    let mut rig = Rig::new();
    let state = rig.buffer("state");
    let first = rig.eager(ONE, "first", &[(Write, state)]);
    for _ in 0..4000 {
        let step = rig.eager(ONE, "step", &[(ReadWrite, state)]);
        rig.reads_from(step, first);
    }
    let report = verify_session(&rig.session).unwrap();
    assert_eq!(report.verdict, Verdict::Hazard);
    assert_eq!(report.hazards.len(), 1000);
    assert!(report.hazards_total >= 1 << 20, "{}", report.hazards_total);
    assert!(report.not_analysed[0].contains("such hazards were counted, and the rest was not"));
    // Each step reads what all before it wrote.
    let mut rig = Rig::new();
    let state = rig.buffer("state");
    for at in 0..800 {
        let step = rig.eager(ONE, "step", &[(ReadWrite, state)]);
        for source in 0..at {
            rig.reads_from(step, StepId(source));
        }
    }
    safe(&rig.session);
    // Launches of a graph with many parts, each after the last.
    let mut rig = Rig::new();
    let table = rig
        .session
        .add_buffer("table", ByteRange::new(0x10_0000, 0x20_0000));
    let parts =
        (0..1000).map(|at| Use::new(table, ByteRange::new(at * 64, at * 64 + 32), ReadWrite));
    let graph = rig.session.add_graph("decode", parts.collect());
    let mut last = rig.launch(ONE, graph);
    for _ in 0..300 {
        let next = rig.launch(ONE, graph);
        rig.reads_from(next, last);
        last = next;
    }
    safe(&rig.session);
}
