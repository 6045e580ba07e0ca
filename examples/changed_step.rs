//! A step that changes while it is served: it is captured again and proved in full, and
//! the instantiated graph is updated in place, under the replays that are in flight. Runs
//! on the first CUDA device, else on the simulated one.
//!
//! `cargo run --example changed_step`

use std::process::ExitCode;

use streamweir::{Capture, Device, Error, Persistent};

const ROWS: usize = 8;

/// A stand-in for a decode step that reads an adapter's weights.
fn step(cap: &Capture, adapter: &Persistent<u32>, out: &Persistent<u32>) -> Result<(), Error> {
    let main = cap.origin();
    let x = main.scratch::<u32>("x", ROWS)?;
    main.copy(&x, adapter)?;
    main.copy(out, &x)
}

/// The example, on any device.
pub(crate) fn run(device: &Device) -> Result<(), Error> {
    let out = device.persistent::<u32>("out", ROWS)?;
    let stream = device.stream("replay")?;
    // begin: docs/engines.md, a changed step
    let adapter = device.persistent_from("adapter 0", &[0; ROWS])?;
    let (mut graph, ()) = device.capture("decode", |cap| step(cap, &adapter, &out))?;
    graph.replay(&stream)?;

    let next = device.persistent_from("adapter 1", &[1; ROWS])?;
    // Proved like any capture. The replay above goes on with the old adapter, which the
    // graph holds until that has ended.
    device.recapture(&mut graph, "decode", |cap| step(cap, &next, &out))?;
    drop(adapter);
    graph.replay(&stream)?;
    // end: docs/engines.md, a changed step
    assert_eq!(out.download()?, [1; ROWS]);

    // What an update cannot change is refused, and the graph is as it was.
    let more = |cap: &Capture| {
        step(cap, &next, &out)?;
        cap.origin().fill(&out, 0)
    };
    let refused = device.recapture::<_, Error>(&mut graph, "decode", more);
    assert!(matches!(refused, Err(Error::NotUpdated { .. })));
    graph.replay(&stream)?;
    assert_eq!(out.download()?, [1; ROWS]);
    println!("{}: updated in place", device.info().name);
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

#[allow(dead_code, reason = "a test runs the example by itself")]
fn main() -> ExitCode {
    let done = open().and_then(|device| run(&device));
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
