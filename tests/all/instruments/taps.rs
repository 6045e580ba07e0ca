use std::collections::BTreeSet;

use streamweir::verify::{Rule, Verdict};
use streamweir::{
    Capture, CaptureOptions, Device, Differential, Error, Graph, InstrumentError, Policy, Readings,
    Taps,
};

use super::{Story, host_order};
use crate::common::{Kernels, LEN, N, plus};

impl Story {
    /// What one stream without graphs reads and writes.
    fn reference(&self) -> Readings {
        let taps = Taps::new(&self.device, "reference");
        let options = CaptureOptions::new("reference").taps(&taps);
        let record = |cap: &Capture| self.record(cap, false);
        let (run, ()) = self.device.eager::<_, Error>(options, record).unwrap();
        assert_eq!(run.report().verdict, Verdict::Safe, "{}", run.report());
        taps.read().unwrap()
    }

    fn tapped(&self, options: CaptureOptions) -> (Graph, Taps) {
        let taps = Taps::new(&self.device, "graph");
        (self.capture(options.taps(&taps)), taps)
    }

    fn differential(&self, graph: &Graph, taps: &Taps, seed: u64) -> (bool, Differential) {
        let expected = self.reference();
        let wrong = self.goes_wrong(graph, seed);
        let seen = taps.read().unwrap();
        (wrong, expected.compare(&seen).unwrap())
    }
}

fn buffers_with_hazards(graph: &Graph) -> BTreeSet<&str> {
    let hazards = graph.report().hazards.iter();
    hazards
        .flat_map(|hazard| hazard.buffers.iter().map(|buffer| buffer.name.as_str()))
        .collect()
}

#[test]
fn a_sound_graph_has_the_bits_of_the_reference_at_every_command() {
    let story = Story::new(100);
    for options in [
        CaptureOptions::new("isolated"),
        CaptureOptions::new("ordered").policy(Policy::ORDERED),
        CaptureOptions::new("planned")
            .policy(Policy::ORDERED)
            .planned(),
    ] {
        let (graph, taps) = story.tapped(options);
        assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
        for seed in 0..20 {
            let (wrong, found) = story.differential(&graph, &taps, seed);
            assert!(!wrong && found.is_clean(), "{seed}: {found}");
            // a; a, c; b; c, y; b, z.
            assert_eq!((found.compared, found.bytes), (8, 8 * 16));
            assert_eq!(found.not_compared, [""; 0]);
        }
    }
}

/// Whatever the interleaving: what differs first is a buffer whose bytes are
/// shared, and the verifier has named it. Taps do not make the race go away.
#[test]
fn the_first_buffer_that_differs_is_one_that_the_verifier_named() {
    let story = Story::new(100);
    let plain = story.capture(host_order());
    let untapped = (0..100).filter(|&seed| story.goes_wrong(&plain, seed));
    assert!(untapped.count() > 0);

    let (graph, taps) = story.tapped(host_order());
    let report = graph.report();
    let named = buffers_with_hazards(&graph);
    assert_eq!(named, buffers_with_hazards(&plain), "{report}");
    let (mut wrong, mut first) = (0, BTreeSet::new());
    for seed in 0..100 {
        let (is_wrong, found) = story.differential(&graph, &taps, seed);
        wrong += usize::from(is_wrong);
        assert!(!is_wrong || !found.is_clean(), "{seed}: not seen by a tap");
        let Some(difference) = found.first() else {
            continue;
        };
        assert!(
            named.contains(difference.buffer.as_str()),
            "{seed}: {found}\n{report}"
        );
        first.insert((
            difference.buffer.clone(),
            difference.stream.clone(),
            difference.kernel.clone(),
            difference.scope.clone().unwrap_or_default(),
        ));
        assert!(
            difference.is_named_by(graph.trace(), report),
            "{seed}: {found}\n{report}"
        );
        let text = found.to_string();
        assert!(text.contains(" instead of "), "{text}");
        let mut other = difference.clone();
        other.scratch = Some(usize::MAX / 2);
        assert!(!other.is_named_by(graph.trace(), report), "{other:?}");
    }
    assert!(wrong > 0, "no interleaving showed the hazard");
    // `a`, read by the side stream, was hit by `b`.
    let of_a = ("a", "side", "plus", "layer 0/side");
    let of_a = (of_a.0.into(), of_a.1.into(), of_a.2.into(), of_a.3.into());
    assert!(first.contains(&of_a), "{first:?}");
    assert!(
        report
            .hazards
            .iter()
            .any(|h| h.rule == Rule::SharedBytes && h.buffers.iter().any(|b| b.name == "a"))
    );
}

#[test]
fn a_difference_is_told_to_the_element() {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let run = |name: &str| {
        let taps = Taps::new(&device, name.to_owned());
        let options = CaptureOptions::new(name).taps(&taps);
        let record = |cap: &Capture| {
            let main = cap.origin().scope("layer 4");
            let a = main.scratch::<u32>("a", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: &a,
                    more: 1,
                    len: N,
                },
            )?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: &y,
                    more: 1,
                    len: N,
                },
            )
        };
        device.eager::<_, Error>(options, record).unwrap();
        taps.read().unwrap()
    };
    let expected = run("expected");
    x.upload(&[1, 2, 7, 8]).unwrap();
    let found = expected.compare(&run("seen")).unwrap();
    assert_eq!((found.compared, found.differing), (3, 3));
    let [a, read_a, y] = &found.differences[..] else {
        panic!("{found}");
    };
    assert_eq!((&*a.buffer, a.written, a.command), ("a", true, 0));
    assert_eq!((&*read_a.buffer, read_a.written), ("a", false));
    // Of a persistent buffer only the bytes are known.
    assert_eq!((&*y.buffer, y.elements, y.element), ("y", (16, 2), 8));
    assert_eq!((a.element, a.elements), (2, (4, 2)));
    assert_eq!((&*a.expected, &*a.found), ("4", "8"));
    assert_eq!(a.scope.as_deref(), Some("layer 4"));
    assert!(a.launch.contains("taps.rs"), "{}", a.launch);
}

#[test]
fn what_is_not_compared_is_said() {
    let device = Device::sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let big = device.persistent::<u32>("big", LEN + 1).unwrap();
    let taps = Taps::new(&device, "taps").persistent_up_to(16);
    let options = CaptureOptions::new("decode").taps(&taps);
    device
        .eager::<_, Error>(options, |cap| {
            let main = cap.origin();
            let held = main.workspace("held", 64)?;
            main.fill(&held, 0)?;
            main.fill(&y, 1)?;
            main.fill(&big, 1)
        })
        .unwrap();
    let readings = taps.read().unwrap();
    assert_eq!(readings.len(), 1);
    assert_eq!(readings.left_out(), ["big", "held"]);
    let found = readings.compare(&taps.read().unwrap()).unwrap();
    assert!(found.to_string().contains("not compared: big, held"));
}

#[test]
fn other_recordings_are_not_compared() {
    let story = Story::new(10);
    let expected = story.reference();
    let taps = Taps::new(&story.device, "other");
    let options = CaptureOptions::new("other").taps(&taps);
    let (_, ()) = story
        .device
        .eager::<_, Error>(options.clone(), |cap| {
            let main = cap.origin();
            let a = main.scope("layer 0").scratch::<u32>("a", LEN)?;
            main.launch(
                &story.kernels.plus,
                plus {
                    input: &story.x,
                    output: &a,
                    more: 10,
                    len: N,
                },
            )
        })
        .unwrap();
    let error = expected.compare(&taps.read().unwrap()).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            Error::Instrument(InstrumentError::OtherRecording { at: 1, .. })
        ),
        "{text}"
    );
    assert!(text.contains("nothing more"), "{text}");

    // One recording at a time, on its own device.
    let error = story
        .device
        .eager::<_, Error>(options.clone(), |_| taps.read().map(drop))
        .unwrap_err();
    assert!(
        matches!(error, Error::Instrument(InstrumentError::TapsInUse { .. })),
        "{error}"
    );
    let cap = story.device.begin(options.clone()).unwrap();
    std::thread::scope(|scope| {
        let begun = scope.spawn(|| story.device.eager::<_, Error>(options.clone(), |_| Ok(())));
        let error = begun.join().unwrap().unwrap_err();
        assert!(
            matches!(&error, Error::Instrument(InstrumentError::TapsInUse { capture, .. }) if capture == "other"),
            "{error}"
        );
    });
    drop(cap);
    assert!(taps.read().unwrap().is_empty());
    let error = Device::sim(1).begin(options).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }), "{error}");
}

/// More than one part of memory, some of it taken inside the capture.
#[test]
fn taps_grow() {
    let device = Device::sim(1);
    let taps = Taps::new(&device, "taps");
    let record = |cap: &Capture| {
        let main = cap.origin();
        for at in 0..5_u8 {
            let a = main.scratch::<u8>(format!("a{at}"), 3 << 20)?;
            main.fill(&a, at)?;
        }
        Ok(())
    };
    let options = CaptureOptions::new("decode").taps(&taps);
    let (graph, ()) = device.capture::<_, Error>(options, record).unwrap();
    graph.replay(&device.stream("replay").unwrap()).unwrap();
    let seen = taps.read().unwrap();
    let other = Taps::new(&device, "eager");
    let options = CaptureOptions::new("eager").taps(&other);
    device.eager::<_, Error>(options, record).unwrap();
    let found = other.read().unwrap().compare(&seen).unwrap();
    assert_eq!((found.compared, found.bytes), (5, 5 * (3 << 20)));
    assert!(found.is_clean(), "{found}");
}
