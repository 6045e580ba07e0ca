//! Captures on two devices from one thread at once, and what does not cross over.

use streamweir::driver::ErrorClass;
use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::{Capture, CaptureOptions, Device, Error, Persistent, Placement, Verify, reads};

use crate::common::{Kernels, LEN, N, NOTHING, SMALL, live, plus, sum};

/// A device with its share of the model.
struct Rank {
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

impl Rank {
    fn new(device: Device, value: u32) -> Self {
        Self {
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent_from("x", &[value; LEN]).unwrap(),
            y: device.persistent::<u32>("y", LEN).unwrap(),
            device,
        }
    }

    /// The first half of a layer: two branches.
    fn branches(&self, cap: &Capture) -> Result<[streamweir::Scratch<u32>; 2], Error> {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let (a, b) = (main.scratch("a", LEN)?, side.scratch("b", LEN)?);
        for (stream, output, more) in [(&main, &a, 1), (&side, &b, 2)] {
            let args = plus {
                input: &self.x,
                output,
                more,
                len: N,
            };
            stream.launch(&self.kernels.plus, args)?;
        }
        cap.join(&main, side)?;
        Ok([a, b])
    }

    /// The second half: their sum.
    fn meet(&self, cap: &Capture, [a, b]: [streamweir::Scratch<u32>; 2]) -> Result<(), Error> {
        let args = sum {
            left: &a,
            right: &b,
            output: &self.y,
            len: N,
        };
        cap.origin().launch(&self.kernels.sum, args)
    }
}

#[test]
fn one_thread_captures_on_two_devices_at_once() {
    for seed in 0..30 {
        for placement in [Placement::Live, Placement::Planned] {
            let ranks =
                [10, 20].map(|value| Rank::new(Device::sim(seed + u64::from(value)), value));
            let begin = |rank: &Rank| {
                let options = CaptureOptions::new("layer").placement(placement);
                rank.device.begin(options.verify(Verify::Prove)).unwrap()
            };
            let captures = [begin(&ranks[0]), begin(&ranks[1])];
            // One layer of both before the next of either.
            for _ in 0..3 {
                let mut halves = Vec::new();
                for (rank, capture) in ranks.iter().zip(&captures) {
                    halves.push(rank.branches(capture).unwrap());
                }
                for ((rank, capture), half) in ranks.iter().zip(&captures).zip(halves) {
                    rank.meet(capture, half).unwrap();
                }
            }
            // The one that began first ends first, and then the other way round.
            let [first, second] = captures;
            let graphs = match seed % 2 {
                0 => {
                    let first = first.end().unwrap();
                    [first, second.end().unwrap()]
                }
                _ => {
                    let second = second.end().unwrap();
                    [first.end().unwrap(), second]
                }
            };
            for (rank, graph) in ranks.iter().zip(&graphs) {
                graph
                    .replay(&rank.device.stream("replay").unwrap())
                    .unwrap();
            }
            assert_eq!(ranks[0].y.download().unwrap(), [10 + 1 + 10 + 2; LEN]);
            assert_eq!(ranks[1].y.download().unwrap(), [20 + 1 + 20 + 2; LEN]);
        }
    }
}

#[test]
fn a_second_capture_of_one_device_is_refused_by_the_name_of_the_first() {
    let ranks = [1, 2].map(|value| Rank::new(Device::sim(1), value));
    let first = ranks[0].device.begin("first").unwrap();
    let second = ranks[1].device.begin("second").unwrap();
    for (rank, name) in ranks.iter().zip(["first", "second"]) {
        let error = rank.device.begin("again").map(drop).unwrap_err();
        assert!(
            matches!(&error, Error::InsideCapture { call: "Device::begin", capture } if capture == name),
            "{error}"
        );
    }
    // Whatever else does not belong inside does not on another device either.
    let error = ranks[1]
        .device
        .persistent::<u32>("z", 1)
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, Error::InsideCapture { .. }));
    drop(first);
    let error = ranks[0]
        .device
        .persistent::<u32>("z", 1)
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, Error::InsideCapture { capture, .. } if capture == "second"));
    second.end().unwrap();
    ranks[0].device.persistent::<u32>("z", 1).unwrap();
}

#[test]
fn nothing_of_one_device_is_taken_by_a_capture_of_the_other() {
    let [here, there] = [1, 2].map(|value| Rank::new(Device::sim(1), value));
    let group = there.device.replay_group("theirs", SMALL);
    let (graph, ()) = here
        .device
        .capture::<_, Error>("graph", |cap| cap.origin().fill(&here.y, 1))
        .unwrap();
    let elsewhere = there.device.stream("elsewhere").unwrap();
    let mut pinned = there.device.pinned::<u32>("pinned", LEN).unwrap();
    let event = there.device.event("event").unwrap();
    let ours = here.device.begin("ours").unwrap();
    let theirs = there.device.begin("theirs").unwrap();
    let (main, other) = (ours.origin(), theirs.origin());
    let scratch = other.scratch::<u32>("scratch", LEN).unwrap();
    let args = |input| plus {
        input,
        output: &here.y,
        more: 1,
        len: N,
    };
    let device = |what: &str, refused: Result<(), Error>| {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::OtherDevice { .. }),
            "{what}: {error}"
        );
        assert!(error.to_string().contains(what), "{what}: {error}");
    };
    device("\"x\"", main.launch(&here.kernels.plus, args(&there.x)));
    device("`plus`", main.launch(&there.kernels.plus, args(&here.x)));
    device("\"x\"", main.copy(&here.y, &there.x));
    device("\"pinned\"", main.upload(&here.y, &pinned));
    device("\"pinned\"", main.download(&mut pinned, &here.y));
    device("\"event\"", main.wait_external(&event));
    device("\"graph\"", graph.replay(&elsewhere));
    // SAFETY: refused.
    let called =
        unsafe { main.foreign::<_, Error>("call", &[reads(&there.x)], None, |_, _| Ok(())) };
    device("\"x\"", called);
    for refused in [
        main.copy(&here.y, &scratch),
        ours.fork(&other, "side").map(drop),
        ours.join(&main, other).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::OtherCapture { made_in, used_in, .. } if made_in == "theirs" && used_in == "ours"),
            "{error}"
        );
    }
    // None of them broke anything.
    main.launch(&here.kernels.plus, args(&here.x)).unwrap();
    drop(scratch);
    ours.end().unwrap();
    theirs.end().unwrap();
    let options = CaptureOptions::new("step").group(&group);
    let error = here.device.begin(options).map(drop).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what, .. } if what.contains("\"theirs\"")));
    // A group whose device is gone is one of another device, too.
    drop((there, elsewhere, pinned, event));
    let options = CaptureOptions::new("step").group(&group);
    let error = here.device.begin(options).map(drop).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }));
    group.synchronize().unwrap();
}

/// Handles keep what they need: a device that is let go of inside a capture, or before
/// its graph, is there until they are gone.
#[test]
fn a_device_may_be_let_go_of_inside_a_capture() {
    let driver = SimDriver::new(1);
    let Rank {
        device,
        kernels,
        x,
        y,
    } = Rank::new(Device::with_driver(driver.clone()), 5);
    let stream = device.stream("replay").unwrap();
    let capture = device.begin("layer").unwrap();
    drop(device);
    let args = plus {
        input: &x,
        output: &y,
        more: 1,
        len: N,
    };
    capture.origin().launch(&kernels.plus, args).unwrap();
    let graph = capture.end().unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(y.download().unwrap(), [6; LEN]);
    drop((graph, x, y, kernels, stream));
    assert_eq!(live(&driver), NOTHING);
    assert_eq!(driver.live(), NOTHING);
}

/// A capture that fails on one device leaves the other's as it was.
#[test]
fn a_failure_on_one_device_is_none_on_the_other() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let broken = Rank::new(Device::with_driver(fault.clone()), 1);
    let whole = Rank::new(Device::sim(2), 2);
    let (one, two) = (
        broken.device.begin("broken").unwrap(),
        whole.device.begin("whole").unwrap(),
    );
    let half = whole.branches(&two).unwrap();
    fault.disarm();
    fault.fail_call(0, ErrorClass::CaptureInvalidated);
    assert!(broken.branches(&one).is_err());
    whole.meet(&two, half).unwrap();
    drop(one);
    let graph = two.end().unwrap();
    graph
        .replay(&whole.device.stream("replay").unwrap())
        .unwrap();
    assert_eq!(whole.y.download().unwrap(), [2 + 1 + 2 + 2; LEN]);
    fault.disarm();
    broken
        .device
        .capture::<_, Error>("again", |cap| broken.branches(cap).map(drop))
        .unwrap();
}
