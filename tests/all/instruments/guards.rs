use std::sync::Arc;

use streamweir::alloc::ALIGNMENT;
use streamweir::driver::MemoryCalls;
use streamweir::driver::sim::SimDriver;
use streamweir::{CaptureOptions, Device, Error, Persistent, Side, writes};

use crate::common::{Kernels, LEN, N, SMALL, foreign, live, plus, sim};

/// Fills `bytes` bytes from `from` on, in a graph that declares something else.
fn stray(
    (device, driver): (&Device, &Arc<SimDriver>),
    declared: &Persistent<u32>,
    from: u64,
    bytes: u64,
) {
    let driver = driver.clone();
    let (graph, ()) = device
        .capture::<_, Error>("stray", |cap| {
            // SAFETY: the bytes are of an allocation that lives; that they are
            // nobody's is what is to be found.
            unsafe {
                cap.origin()
                    .foreign::<_, Error>("stray", &[writes(declared)], None, |raw, _| {
                        driver.fill_async(raw, from, 0, bytes).map_err(foreign)
                    })
            }
        })
        .unwrap();
    graph.replay(&device.stream("replay").unwrap()).unwrap();
}

#[test]
fn a_write_beside_a_buffer_is_named() {
    let device = Device::sim(1).guarded();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    assert!(x.range().start.is_multiple_of(ALIGNMENT));
    let report = device.check_guards().unwrap();
    assert_eq!((report.checked, report.new), (2, 0));
    assert!(report.is_clean(), "{report}");

    // One element more than there is.
    let kernels = Kernels::load(&device).unwrap();
    let (graph, ()) = device
        .capture::<_, Error>("long", |cap| {
            let args = plus {
                input: &x,
                output: &y,
                more: 1,
                len: N + 1,
            };
            // SAFETY: not kept, on a simulated device that has room for it.
            unsafe {
                cap.origin()
                    .launch_unchecked(&kernels.plus, (N + 1, 1), args, &[])
            }
        })
        .unwrap();
    assert!(device.check_guards().unwrap().is_clean(), "not replayed");
    graph.replay(&device.stream("replay").unwrap()).unwrap();
    let report = device.check_guards().unwrap();
    let [damage] = &report.damaged[..] else {
        panic!("{report}");
    };
    assert_eq!((&*damage.buffer, damage.side), ("y", Side::After));
    assert_eq!(damage.first, y.range().end);
    assert!((1..=4).contains(&damage.bytes), "{damage}");
    let text = report.to_string();
    for word in ["\"y\"", "after", "0 bytes past its end"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    assert_eq!(
        y.download().unwrap(),
        [2, 3, 4, 5],
        "its own bytes are right"
    );
    // It is reported once, and found again when it happens again.
    assert!(device.check_guards().unwrap().is_clean());
    graph.replay(&device.stream("replay").unwrap()).unwrap();
    assert_eq!(device.check_guards().unwrap().damaged.len(), 1);
}

#[test]
fn the_bytes_before_a_buffer_are_watched_to_the_last() {
    let (device, driver) = sim(1);
    let device = device.guarded();
    let x = device.persistent::<u32>("x", 1).unwrap();
    let y = device.persistent::<u32>("y", 100).unwrap();
    let (x_range, y_range) = (x.range(), y.range());
    for (first, bytes, buffer, side) in [
        (x_range.start - 4096, 1, "x", Side::Before),
        (x_range.start - 1, 1, "x", Side::Before),
        (y_range.end, 1, "y", Side::After),
        (y_range.end + 4095, 1, "y", Side::After),
    ] {
        stray((&device, &driver), &x, first, bytes);
        let report = device.check_guards().unwrap();
        let [damage] = &report.damaged[..] else {
            panic!("{first:#x}: {report}");
        };
        assert_eq!((&*damage.buffer, damage.side), (buffer, side));
        assert_eq!((damage.first, damage.bytes), (first, 1));
    }
    // A guard goes with its buffer.
    drop(y);
    device.synchronize().unwrap();
    assert_eq!(device.check_guards().unwrap().checked, 1);
}

#[test]
fn arenas_have_guards_that_grow_under_capture() {
    let (plain, driver) = sim(1);
    let device = plain.guarded();
    let kernels = Kernels::load(&device).unwrap();
    let y = plain.persistent::<u32>("y", LEN).unwrap();
    let group = device.replay_group("decode", SMALL);
    let capture = |len: usize| {
        device.capture::<_, Error>(CaptureOptions::new("decode").group(&group), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", len)?;
            main.fill(&a, 1)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output: &y,
                    more: 0,
                    len: N,
                },
            )?;
            a.range()
        })
    };
    let (small, first) = capture(LEN).unwrap();
    let (large, second) = capture(100_000).unwrap();
    let stream = device.stream("replay").unwrap();
    small.replay(&stream).unwrap();
    large.replay(&stream).unwrap();
    let report = device.check_guards().unwrap();
    assert_eq!((report.checked, report.new), (2, 0), "one for each segment");
    assert!(report.is_clean(), "{report}");
    assert!(first.start.is_multiple_of(ALIGNMENT));
    // The segment's first bytes are the first buffer's.
    stray((&device, &driver), &y, second.start - 3, 2);
    let report = device.check_guards().unwrap();
    let [damage] = &report.damaged[..] else {
        panic!("{report}");
    };
    assert_eq!(damage.buffer, "a segment of arena decode");
    assert_eq!((damage.side, damage.bytes), (Side::Before, 2));

    // They go with the arena, and what is behind them with them.
    drop((small, large, group));
    device.synchronize().unwrap();
    assert_eq!(device.check_guards().unwrap().checked, 0);
    drop((y, kernels, stream));
    device.synchronize().unwrap();
    assert_eq!(live(&driver).allocations, 0);
    assert_eq!(live(&driver).reservations, 0);
}

#[test]
fn without_guards_nothing_is_watched_and_inside_a_capture_nobody_looks() {
    let device = Device::sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    assert_eq!(device.check_guards().unwrap().checked, 0);
    let error = device
        .capture::<_, Error>("decode", |cap| {
            cap.origin().fill(&y, 0)?;
            device.check_guards().map(drop)
        })
        .unwrap_err();
    assert!(matches!(error, Error::InsideCapture { .. }), "{error}");
}
