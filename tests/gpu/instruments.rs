//! Poison, guards and taps.

use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::add_one;
use streamweir::{
    ArenaConfig, CaptureOptions, Device, Error, Placement, Poison, Side, Taps, writes,
};

use super::program::{LEN, Program};
use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("poison_is_there_for_the_first_kernel", poison),
    ("a_write_beside_memory_is_named", guards),
    ("taps_of_a_replay_are_those_of_an_eager_run", taps),
];

fn poison(device: &Device, image: &Image) -> Outcome {
    let module = image.load(device)?;
    let bump = module.kernel::<add_one>()?;
    let y = device.persistent_from::<u32>("y", &[7; 64])?;
    for placement in [Placement::Live, Placement::Planned] {
        let options = CaptureOptions::new("poison")
            .placement(placement)
            .poison(Poison::Every);
        let (graph, ()) = device.capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", 64)?;
            main.launch(&bump, add_one { data: &a, len: 64 })?;
            main.copy(&y, &a)
        })?;
        graph.replay(&device.stream("replay")?)?;
        // All bits, and one more.
        ensure(y.download()? == [0; 64], || format!("{placement:?}"))?;
        y.upload(&[7; 64])?;
    }
    Ok(())
}

fn guards(device: &Device, _: &Image) -> Outcome {
    let guarded = device.guarded();
    let x = guarded.persistent::<u32>("x", 100)?;
    let group = guarded.replay_group(
        "guarded",
        ArenaConfig {
            segment_bytes: 1 << 21,
            ..ArenaConfig::default()
        },
    );
    let driver = crate::driver()?;
    let capture = |bytes: usize, from: u64| {
        guarded.capture::<_, Error>(CaptureOptions::new("stray").group(&group), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u8>("a", bytes)?;
            main.fill(&a, 1)?;
            // SAFETY: the bytes belong to an allocation that lives; that they are
            // nobody's is what is to be found.
            unsafe {
                main.foreign("stray", &[writes(&x)], None, |raw, _| {
                    driver
                        .fill_async(raw, from, 0, 4)
                        .map_err(|source| Error::Driver {
                            during: "filling".into(),
                            source,
                        })
                })?;
            }
            a.range()
        })
    };
    let (inside, _) = capture(1 << 20, x.range().start)?;
    // The arena grows by a segment of its own inside the capture.
    let (beside, range) = capture(5 << 20, x.range().end)?;
    ensure(range.start.is_multiple_of(256), || range.to_string())?;
    let stream = device.stream("replay")?;
    inside.replay(&stream)?;
    let report = device.check_guards()?;
    ensure(report.is_clean() && report.checked >= 3, || {
        report.to_string()
    })?;
    beside.replay(&stream)?;
    let report = device.check_guards()?;
    let [damage] = &report.damaged[..] else {
        return Err(report.to_string().into());
    };
    ensure(
        damage.buffer == "x" && damage.side == Side::After && damage.first >= x.range().end,
        || report.to_string(),
    )
}

fn taps(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let [of_graph, of_run] = ["graph", "eager"].map(|name| Taps::new(device, name));
    let graph = program.capture(device, CaptureOptions::new("tapped").taps(&of_graph))?;
    let options = CaptureOptions::new("eager").taps(&of_run);
    device.eager::<_, Error>(options, |cap| program.record(cap))?;
    let expected = of_run.read()?;
    let stream = device.stream("replay")?;
    for replay in 0..20 {
        program.left.upload(&[0; LEN])?;
        graph.replay(&stream)?;
        let found = expected.compare(&of_graph.read()?)?;
        ensure(found.is_clean() && found.compared == 9, || {
            format!("replay {replay}: {found}")
        })?;
    }
    Ok(())
}
