//! Feeding a step and reading it back: in turn with replays, one driver call a copy,
//! and no slot that is written or read while a copy may use it.

use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::testing::fault::FaultDriver;
use streamweir::driver::{
    CaptureCalls, CaptureMode, ErrorClass, GraphCalls, MemoryCalls, StreamCalls,
};
use streamweir::{
    Device, DeviceStream, Error, Feed, FeedError, Graph, Persistent, Readback, Staging, StepId,
};

use crate::common::{Kernels, LEN, N, NOTHING, plus, sim};

/// `output = input + 1`, through two scratch buffers on two streams, so that a replay
/// reads its input late.
struct Model {
    input: Persistent<u32>,
    output: Persistent<u32>,
    graph: Graph,
}

fn model(device: &Device) -> Model {
    let kernels = Kernels::load(device).unwrap();
    let input = device.persistent::<u32>("input", LEN).unwrap();
    let output = device.persistent::<u32>("output", LEN).unwrap();
    let graph = captured(device, &kernels, &input, &output);
    Model {
        input,
        output,
        graph,
    }
}

fn captured(
    device: &Device,
    kernels: &Kernels,
    input: &Persistent<u32>,
    output: &Persistent<u32>,
) -> Graph {
    let (graph, ()) = device
        .capture::<_, Error>("decode", |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.fill(&a, 0)?;
            let side = cap.fork(&main, "side")?;
            side.launch(
                &kernels.plus,
                plus {
                    input,
                    output: &a,
                    more: 1,
                    len: N,
                },
            )?;
            cap.join(&main, side)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &a,
                    output,
                    more: 0,
                    len: N,
                },
            )
        })
        .unwrap();
    graph
}

/// A session of a model, with its feed.
struct Session {
    feed: Feed,
    ids: Staging<u32>,
    tokens: Readback<u32>,
}

impl Session {
    fn new(device: &Device, depth: usize) -> Self {
        let feed = device.feed("decode", depth).unwrap();
        let ids = feed.staging("ids", LEN).unwrap();
        let tokens = feed.readback("tokens", LEN).unwrap();
        Self { feed, ids, tokens }
    }

    /// One step with `id` as its input: copies on `copies`, the replay on `replays`.
    fn step(
        &mut self,
        model: &Model,
        id: u32,
        copies: &DeviceStream,
        replays: &DeviceStream,
    ) -> Result<StepId, Error> {
        let mut step = self.feed.step(copies)?;
        self.ids.write(&step)?.fill(id);
        self.ids.send(&mut step, &model.input, 0..LEN)?;
        model.graph.replay(replays)?;
        self.tokens.receive(&mut step, &model.output, 0..LEN)?;
        step.end()
    }

    fn read(&mut self, done: StepId) -> Result<Vec<u32>, Error> {
        self.tokens.read(&mut self.feed, done).map(<[u32]>::to_vec)
    }
}

#[test]
fn a_step_on_the_stream_of_the_replay_is_a_call_each_and_one_event() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let model = model(&device);
    let stream = device.stream("replay").unwrap();
    let mut session = Session::new(&device, 2);
    // The first step makes buffer and graphs known to each other: no call either.
    for id in 0..4 {
        fault.disarm();
        let done = session.step(&model, id, &stream, &stream).unwrap();
        assert_eq!(
            fault.trace(),
            ["copy_async", "exec_launch", "copy_async", "event_record"]
        );
        fault.disarm();
        assert_eq!(session.read(done).unwrap(), [id + 1; LEN]);
        assert_eq!(fault.trace(), ["event_synchronize"]);
    }
}

#[test]
fn several_inputs_share_the_event_of_their_step_and_a_full_ring_waits_for_one() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let buffers =
        ["ids", "positions", "slots"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let stream = device.stream("replay").unwrap();
    let mut feed = device.feed("inputs", 2).unwrap();
    let mut slots = [0, 1, 2].map(|_| feed.staging::<u32>("slot", LEN).unwrap());
    for id in 0..5 {
        fault.disarm();
        let mut step = feed.step(&stream).unwrap();
        for (slot, buffer) in slots.iter_mut().zip(&buffers) {
            slot.write(&step).unwrap().fill(id);
            slot.send(&mut step, buffer, 0..LEN).unwrap();
        }
        step.end().unwrap();
        let calls = fault.trace();
        let sent = ["copy_async", "copy_async", "copy_async", "event_record"];
        match id {
            0 | 1 => assert_eq!(calls, sent),
            _ => {
                assert_eq!(calls[0], "event_synchronize");
                assert_eq!(calls[1..], sent);
            }
        }
    }
    for buffer in &buffers {
        assert_eq!(buffer.download().unwrap(), [4; LEN]);
    }
}

/// ```text
/// copies   send 1 ─┐      ┌─ receive 1 ── send 2 ─┐      ┌─ receive 2 ── ..
/// replays          └ step ┘                       └ step ┘
/// ```
#[test]
fn inputs_that_are_sent_while_a_replay_is_in_flight_never_reach_it() {
    for seed in 0..100 {
        let device = Device::sim(seed);
        let model = model(&device);
        let [copies, replays] = ["copies", "replays"].map(|name| device.stream(name).unwrap());
        let mut session = Session::new(&device, 3);
        let mut flying = Vec::new();
        for id in 0..8 {
            let done = session.step(&model, 10 * id, &copies, &replays).unwrap();
            flying.push((id, done));
            if flying.len() == 3 {
                let (id, done) = flying.remove(0);
                assert_eq!(session.read(done).unwrap(), [10 * id + 1; LEN], "{seed}");
            }
        }
        for (id, done) in flying {
            assert_eq!(session.read(done).unwrap(), [10 * id + 1; LEN], "{seed}");
        }
    }
}

/// What the test above would miss if turns were not what keeps them apart: the same
/// copies behind streamweir's back.
#[test]
fn without_the_turn_they_do() {
    let wrong = (0..100).filter(|&seed| {
        let (device, driver) = sim(seed);
        let model = model(&device);
        let [copies, replays] = ["copies", "replays"].map(|name| device.stream(name).unwrap());
        let host = driver.host_alloc((2 * LEN * 4) as u64).unwrap();
        let values: Vec<u32> = [[10; LEN], [20; LEN]].concat();
        // SAFETY: the memory is new and as long; it is freed when all work has ended.
        unsafe { host.cast::<u32>().copy_from(values.as_ptr(), values.len()) };
        let send = |at: usize| {
            let from = host as u64 + (at * LEN * 4) as u64;
            let bytes = (LEN * 4) as u64;
            // SAFETY: as above, and the buffer lives as long.
            unsafe { driver.copy_async(copies.raw(), model.input.range().start, from, bytes) }
                .unwrap();
        };
        send(0);
        copies.synchronize().unwrap();
        model.graph.replay(&replays).unwrap();
        send(1);
        let found = model.output.download().unwrap();
        // SAFETY: the download has waited for all streams.
        unsafe { driver.host_free(host) }.unwrap();
        found != [11; LEN]
    });
    assert!(wrong.count() > 0);
}

#[test]
fn a_graph_that_is_captured_while_a_copy_is_in_flight_comes_after_it() {
    for seed in 0..100 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let input = device.persistent::<u32>("input", LEN).unwrap();
        let output = device.persistent::<u32>("output", LEN).unwrap();
        let [copies, replays] = ["copies", "replays"].map(|name| device.stream(name).unwrap());
        let mut feed = device.feed("decode", 1).unwrap();
        let mut ids = feed.staging::<u32>("ids", LEN).unwrap();
        let mut step = feed.step(&copies).unwrap();
        ids.write(&step).unwrap().fill(6);
        ids.send(&mut step, &input, 0..LEN).unwrap();
        step.end().unwrap();
        // Gone before the capture, and in flight all the same.
        drop((feed, ids));
        let graph = captured(&device, &kernels, &input, &output);
        graph.replay(&replays).unwrap();
        assert_eq!(output.download().unwrap(), [7; LEN], "{seed}");
    }
}

#[test]
fn an_eager_run_comes_after_what_was_sent_before() {
    for seed in 0..50 {
        let device = Device::sim(seed);
        let kernels = Kernels::load(&device).unwrap();
        let model = model(&device);
        let copies = device.stream("copies").unwrap();
        let mut session = Session::new(&device, 2);
        let mut step = session.feed.step(&copies).unwrap();
        session.ids.write(&step).unwrap().fill(5);
        session.ids.send(&mut step, &model.input, 0..LEN).unwrap();
        device
            .eager::<_, Error>("prefill", |run| {
                run.origin().launch(
                    &kernels.plus,
                    plus {
                        input: &model.input,
                        output: &model.output,
                        more: 2,
                        len: N,
                    },
                )
            })
            .unwrap();
        session
            .tokens
            .receive(&mut step, &model.output, 0..LEN)
            .unwrap();
        let done = step.end().unwrap();
        assert_eq!(session.read(done).unwrap(), [7; LEN], "{seed}");
    }
}

#[test]
fn a_slot_is_not_to_be_had_while_a_copy_may_use_it() {
    let device = Device::sim(1);
    let model = model(&device);
    let stream = device.stream("replay").unwrap();
    let mut session = Session::new(&device, 1);
    let mut step = session.feed.step(&stream).unwrap();
    let unwritten = session.ids.send(&mut step, &model.input, 0..LEN);
    assert!(
        matches!(unwritten, Err(Error::Feed(FeedError::SlotUnused { buffer, .. })) if buffer == "ids")
    );
    session.ids.write(&step).unwrap().fill(1);
    session.ids.send(&mut step, &model.input, 0..LEN).unwrap();
    let error = session.ids.write(&step).unwrap_err();
    assert!(
        matches!(&error, Error::Feed(FeedError::SlotInFlight { buffer, feed, .. }) if buffer == "ids" && feed == "decode")
    );
    // Sent once more is the same values, which is no write.
    session.ids.send(&mut step, &model.input, 0..LEN).unwrap();

    let receive =
        |tokens: &mut Readback<u32>, step: &mut _| tokens.receive(step, &model.output, 0..LEN);
    receive(&mut session.tokens, &mut step).unwrap();
    let twice = receive(&mut session.tokens, &mut step);
    assert!(
        matches!(twice, Err(Error::Feed(FeedError::SlotInFlight { buffer, .. })) if buffer == "tokens")
    );
    let first = step.end().unwrap();

    let step = session.feed.step(&stream).unwrap();
    let second = step.end().unwrap();
    assert!(session.read(first).is_ok(), "nobody has taken the slot");
    let nothing = session.read(second);
    assert!(matches!(
        nothing,
        Err(Error::Feed(FeedError::SlotUnused { step: 1, .. }))
    ));
    let third = session.step(&model, 3, &stream, &stream).unwrap();
    let gone = session.read(first);
    assert!(matches!(
        gone,
        Err(Error::Feed(FeedError::SlotUnused { step: 0, .. }))
    ));
    assert_eq!(session.read(third).unwrap(), [4; LEN]);
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    let device = Device::sim(1);
    let other = Device::sim(2);
    let model = model(&device);
    let stream = device.stream("replay").unwrap();
    let mut session = Session::new(&device, 2);
    let mut stranger = device.feed("stranger", 1).unwrap();

    let elsewhere = other.stream("elsewhere").unwrap();
    let error = session.feed.step(&elsewhere).unwrap_err().to_string();
    assert!(
        error.contains("\"decode\"") && error.contains("\"elsewhere\""),
        "{error}"
    );

    let foreign = other.persistent::<u32>("foreign", LEN).unwrap();
    drop(other);
    let mut step = session.feed.step(&stream).unwrap();
    session.ids.write(&step).unwrap().fill(1);
    let sent = session.ids.send(&mut step, &foreign, 0..LEN);
    let error = sent.unwrap_err().to_string();
    assert!(
        error.contains("\"foreign\"") && error.contains("\"replay\""),
        "{error}"
    );

    for range in [0..LEN + 1, LEN + 1..LEN + 1, 3..usize::MAX] {
        let sent = session.ids.send(&mut step, &model.input, range);
        assert!(matches!(sent, Err(Error::Length { buffer, .. }) if buffer == "input"));
    }
    #[allow(clippy::reversed_empty_ranges, reason = "it is to be refused")]
    let backwards = session.ids.send(&mut step, &model.input, 3..2);
    assert!(matches!(backwards, Err(Error::Length { .. })));
    let wide = device.persistent::<u32>("wide", 2 * LEN).unwrap();
    let sent = session.ids.send(&mut step, &wide, 0..2 * LEN);
    assert!(matches!(sent, Err(Error::Length { buffer, .. }) if buffer == "ids"));
    // Refused before anything was enqueued, so the slot is still the host's.
    session.ids.write(&step).unwrap().fill(2);

    let inside = device.capture::<_, Error>("inside", |cap| {
        cap.origin().fill(&model.output, 0)?;
        session.ids.send(&mut step, &model.input, 0..LEN)
    });
    assert!(matches!(
        inside,
        Err(Error::InsideCapture {
            call: "Staging::send",
            ..
        })
    ));
    drop(step);

    let step = stranger.step(&stream).unwrap();
    let mixed = session.ids.write(&step).unwrap_err();
    assert!(
        matches!(mixed, Error::Feed(FeedError::OtherFeed { buffer, feed }) if buffer == "ids" && feed == "decode")
    );
}

#[test]
fn a_stream_that_an_engine_captures_takes_no_step() {
    let (device, driver) = sim(1);
    let raw = driver.stream_create(0).unwrap();
    // SAFETY: the stream is destroyed by nobody before the device goes.
    let engine = unsafe { DeviceStream::from_raw(&device, "engine", raw, Arc::new(())) }.unwrap();
    let mut feed = device.feed("decode", 1).unwrap();
    // SAFETY: the handle is live.
    unsafe { driver.capture_begin(raw, CaptureMode::ThreadLocal) }.unwrap();
    let error = feed.step(&engine).unwrap_err();
    assert!(
        matches!(&error, Error::Feed(FeedError::StreamCaptures { stream, .. }) if stream == "engine")
    );
    // SAFETY: the handles are live, and the graph is not used afterwards.
    unsafe {
        let graph = driver.capture_end(raw).unwrap();
        driver.graph_destroy(graph).unwrap();
    }
    feed.step(&engine).unwrap().end().unwrap();
}

#[test]
fn everything_may_be_dropped_while_copies_are_in_flight() {
    for seed in 0..50 {
        let (device, driver) = sim(seed);
        {
            let model = model(&device);
            let stream = device.stream("replay").unwrap();
            let mut session = Session::new(&device, 3);
            for id in 0..2 {
                session.step(&model, id, &stream, &stream).unwrap();
            }
            let mut step = session.feed.step(&stream).unwrap();
            session.ids.write(&step).unwrap().fill(9);
            session.ids.send(&mut step, &model.input, 0..LEN).unwrap();
            // A step that nobody ends or drops is not lost, either.
            std::mem::forget(step);
        }
        drop(device);
        assert_eq!(driver.live(), NOTHING, "{seed}");
    }
}

#[test]
fn a_call_that_fails_is_told_and_the_next_step_is_right() {
    let fault = FaultDriver::new(SimDriver::new(1));
    let device = Device::with_driver(fault.clone());
    let model = model(&device);
    let [copies, replays] = ["copies", "replays"].map(|name| device.stream(name).unwrap());
    let mut session = Session::new(&device, 1);
    for index in 0.. {
        // Left in flight, so that the next step waits for it, too.
        session.step(&model, 1, &copies, &replays).unwrap();
        fault.fail_call(index, ErrorClass::OutOfMemory);
        let failed = session.step(&model, 2, &copies, &replays);
        let call = fault.failed();
        fault.disarm();
        if call.is_none() {
            failed.unwrap();
            assert!(index >= 9, "a step makes only {index} calls");
            return;
        }
        assert!(failed.is_err(), "{call:?} failed and nobody was told");
        let done = session.step(&model, 30, &copies, &replays).unwrap();
        assert_eq!(session.read(done).unwrap(), [31; LEN], "after {call:?}");
    }
}
