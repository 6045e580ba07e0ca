//! The loop of an engine: inputs are sent, the graph is replayed and its results are
//! read, with two steps in flight. Runs on the first CUDA device, else on the simulated
//! one.
//!
//! `cargo run --example feeding`

use std::collections::VecDeque;
use std::process::ExitCode;

use streamweir::{Device, DeviceStream, Error};

/// Rows of the batch, and steps of the session.
const ROWS: usize = 8;
const STEPS: u32 = 6;

fn run(device: &Device) -> Result<(), Error> {
    // A stand-in for a decode step: what it is fed with is what it gives.
    let ids = device.persistent::<u32>("ids", ROWS)?;
    let positions = device.persistent::<u32>("positions", ROWS)?;
    let out = device.persistent::<u32>("out", ROWS)?;
    let (graph, ()) = device.capture::<_, Error>("decode", |cap| {
        let main = cap.origin();
        let sum = main.scratch::<u32>("sum", ROWS)?;
        main.copy(&sum, &ids)?;
        main.copy(&out, &sum)
    })?;
    let stream = device.stream("replay")?;

    // begin: docs/engines.md, feeding a step
    let mut feed = device.feed("decode", 2)?; // two steps in flight
    let mut next_ids = feed.staging::<u32>("next ids", ROWS)?;
    let mut next_positions = feed.staging::<u32>("next positions", ROWS)?;
    let mut tokens = feed.readback::<u32>("tokens", ROWS)?;
    let mut flying = VecDeque::new();
    for number in 0..STEPS {
        // Waits for the step before last, whose slots these are, unless it was read.
        let mut step = feed.step(&stream)?;
        next_ids.write(&step)?.fill(100 + number);
        next_ids.send(&mut step, &ids, 0..ROWS)?;
        next_positions.write(&step)?.fill(number);
        next_positions.send(&mut step, &positions, 0..ROWS)?;
        graph.replay(&stream)?;
        tokens.receive(&mut step, &out, 0..ROWS)?;
        flying.push_back(step.end()?); // one event for all of them
        if flying.len() == 2
            && let Some(done) = flying.pop_front()
        {
            let tokens = tokens.read(&mut feed, done)?; // waits for that event alone
            assert_eq!(tokens, [100 + number - 1; ROWS]);
        }
    }
    // end: docs/engines.md, feeding a step
    assert_eq!(out.download()?, [100 + STEPS - 1; ROWS]);
    assert_eq!(positions.download()?, [STEPS - 1; ROWS]);
    in_the_graph(device, &stream)?;
    println!("{}: {STEPS} steps of {ROWS} rows", device.info().name);
    Ok(())
}

/// The same with the copies in the graph: a replay is all that a step enqueues.
fn in_the_graph(device: &Device, stream: &DeviceStream) -> Result<(), Error> {
    // begin: docs/engines.md, copies in the graph
    let mut ids = device.pinned::<u32>("ids", ROWS)?;
    let mut tokens = device.pinned::<u32>("tokens", ROWS)?;
    let (graph, ()) = device.capture::<_, Error>("decode", |cap| {
        let main = cap.origin();
        let next = main.scratch::<u32>("next", ROWS)?;
        main.upload(&next, &ids)?; // reads `ids` at each replay
        main.download(&mut tokens, &next)
    })?;
    for number in 0..STEPS {
        ids.hold()?.fill(number); // waits for the replay before
        graph.replay(stream)?;
        assert_eq!(tokens.hold()?[..], [number; ROWS]);
    }
    // end: docs/engines.md, copies in the graph
    Ok(())
}

fn open() -> Result<Device, Error> {
    #[cfg(feature = "cuda")]
    match Device::cuda(0) {
        Err(why) if std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_none_or(|v| v != "1") => {
            println!("On the simulated device, for there is no other: {why}.");
        }
        opened => return opened,
    }
    Ok(Device::sim(1))
}

fn main() -> ExitCode {
    let done = open().and_then(|device| run(&device));
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
