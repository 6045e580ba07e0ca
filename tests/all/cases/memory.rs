//! Memory that no buffer is: the driver's, a call's, and what is gone.

use streamweir::Verify;
use streamweir::trace::ByteRange;

use super::*;

/// Fills `at` by a call that declares nothing of it.
fn fill(
    side: &Stream,
    driver: &Arc<SimDriver>,
    call: ForeignCall<'_>,
    at: u64,
) -> Result<(), Error> {
    // SAFETY: nothing is replayed.
    unsafe {
        side.foreign_with::<_, Error>(call, |raw, _| {
            driver.fill_async(raw, at, 1, 16).map_err(foreign)
        })
    }
}

/// Memory that the library allocated and nobody keeps: a possible R3, and no certificate.
#[test]
fn memory_that_only_the_driver_knows_is_a_possible_r3() {
    let rig = rig();
    let [z] = rig.buffers(["z"]);
    let own = rig.driver.mem_alloc(64).unwrap();
    let record = |verify: Verify| {
        let options = CaptureOptions::new("own").verify(verify);
        rig.beside(&z, options, |side| {
            fill(side, &rig.driver, ForeignCall::new("library", &[]), own)
        })
    };
    let (graph, ()) = record(Verify::Refuse).unwrap();
    let report = graph.report();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnknownMemory, "{report}");
    // Whoever asks for a proof is not given a graph without one.
    match record(Verify::Prove) {
        Err(error @ Error::Unproven { .. }) => {
            let report = error.report().unwrap();
            assert_eq!(report.hazards[0].rule, Rule::UnknownMemory, "{report}");
            assert!(
                error.to_string().contains("1 hazard stands in the way"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Kept alive by the call, it is an assumption; two that are not ordered are a race.
#[test]
fn kept_memory_is_an_assumption_and_its_races_are_seen() {
    let rig = rig();
    let [z] = rig.buffers(["z"]);
    let own = rig.driver.mem_alloc(64).unwrap();
    let range = ByteRange::new(own, own + 64);
    let call = || ForeignCall::new("library", &[]).keeps("state", range, Arc::new(()));
    let options = CaptureOptions::new("kept").verify(Verify::Prove);
    let kept = rig.beside(&z, options, |side| fill(side, &rig.driver, call(), own));
    let (graph, ()) = kept.unwrap();
    assert_eq!(
        assumed(&graph, "the graph keeps \"state\"").len(),
        1,
        "{}",
        graph.report()
    );

    let captured = rig.device.capture::<_, Error>("race", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        fill(&main, &rig.driver, call(), own)?;
        fill(&side, &rig.driver, call(), own)?;
        cap.join(&main, side).map(drop)
    });
    let error = captured.map(drop).unwrap_err();
    let report = error.report().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
}

/// A word that points into what the call keeps is explained; the byte behind it is not.
#[test]
fn a_kept_range_explains_its_words_and_no_others() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let own = rig.driver.mem_alloc(64).unwrap();
    let library = rig.library("plus");
    let record = |end: u64| {
        rig.beside(&z, "kept", |side| {
            let touches = [writes(&y)];
            let range = ByteRange::new(own, own + end);
            let call =
                ForeignCall::new("library", &touches).keeps("constants", range, Arc::new(()));
            // SAFETY: nothing is replayed.
            unsafe {
                side.foreign_with::<_, Error>(call, |raw, at| {
                    library.launch(raw, &[own + 32, at.touched[0]], &[1, N]);
                    Ok(())
                })
            }
        })
        .unwrap()
        .0
    };
    assert_eq!(record(64).report().verdict, Verdict::Safe);
    assert_eq!(record(32).report().verdict, Verdict::Possible);
}

/// A number does not tell that memory was freed; somebody has to say it.
#[test]
fn memory_that_was_said_to_be_freed_is_a_possible_r4() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let own = rig.driver.mem_alloc(64).unwrap();
    let range = ByteRange::new(own, own + 64);
    let library = rig.library("plus");
    let record = || {
        rig.beside(&z, "freed", |side| {
            let touches = [writes(&y)];
            let call = ForeignCall::new("library", &touches).keeps("slab", range, Arc::new(()));
            // SAFETY: nothing is replayed.
            unsafe {
                side.foreign_with::<_, Error>(call, |raw, at| {
                    library.launch(raw, &[own, at.touched[0]], &[1, N]);
                    Ok(())
                })
            }
        })
        .unwrap()
        .0
    };
    assert_eq!(record().report().verdict, Verdict::Safe);
    rig.device.freed(range);
    let graph = record();
    let report = graph.report();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::OwnerGone, "{report}");
}

/// Adopted memory that its owner has freed: whoever copies it, or launches a kernel on it
/// by a declared pointer, uses what is somebody else's.
#[test]
fn what_is_declared_is_freed_all_the_same() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let own = rig.driver.mem_alloc(64).unwrap();
    // SAFETY: the memory is live to the end of the test, whatever is said of it.
    let adopt = |name| unsafe {
        Persistent::<u32>::from_raw(&rig.device, own, LEN, name, Arc::new(())).unwrap()
    };
    let x = adopt("x");
    let verdict = |record: &dyn Fn(&Stream) -> Result<(), Error>| {
        let (graph, ()) = rig.beside(&z, "freed", record).unwrap();
        let report = graph.report().clone();
        let rules: Vec<Rule> = report.hazards.iter().map(|hazard| hazard.rule).collect();
        (report.verdict, rules)
    };
    assert_eq!(
        verdict(&|stream| stream.copy(&y, &x)),
        (Verdict::Safe, vec![])
    );
    rig.device.freed(x.range());
    let gone = (Verdict::Possible, vec![Rule::OwnerGone]);
    assert_eq!(verdict(&|stream| stream.copy(&y, &x)), gone);
    assert_eq!(
        verdict(&|stream| launch_plus(stream, &rig.kernels, &x, &y)),
        gone
    );
    // Registered there again, it is memory like any other.
    drop(x);
    rig.device.synchronize().unwrap();
    let again = adopt("again");
    let (graph, ()) = rig
        .beside(&z, "again", |side| side.copy(&y, &again))
        .unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
}

/// Buckets that are captured from the smallest to the largest reserve what the largest one
/// needs and one segment, for each finds all bytes of those before it.
#[test]
fn a_group_grows_by_what_its_largest_graph_needs_when_that_comes_last() {
    let rig = rig();
    let group = rig.device.replay_group("buckets", SMALL);
    let mut graphs = Vec::new();
    let mut most = 0;
    for bytes in (1..=24).map(|step| step * (8 << 10)) {
        let options = CaptureOptions::new(format!("{bytes} bytes")).group(&group);
        let (graph, ()) = rig
            .device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let side = cap.fork(&main, "side")?;
                let [a, b] = [&main, &side].map(|stream| stream.scratch::<u8>("s", bytes));
                main.fill(&a?, 1)?;
                side.fill(&b?, 2)?;
                cap.join(&main, side).map(drop)
            })
            .unwrap();
        graphs.push(graph);
        most = most.max(2 * bytes as u64);
        assert!(
            group.reserved() <= most + 2 * SMALL.span_bytes + SMALL.segment_bytes,
            "{} bytes for graphs of {most}",
            group.reserved()
        );
    }
}
