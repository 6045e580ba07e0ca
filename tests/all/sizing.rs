//! What captures will reserve is known before any is made.

use streamweir::driver::sim::{LiveObjects, SimDriver};
use streamweir::{ArenaConfig, Capture, CaptureOptions, Device, Error, Placement, Policy};

/// Takes what a step of so many rows takes, on two streams, and lets go of some of it.
fn step(cap: &Capture, rows: usize) -> Result<(), Error> {
    let main = cap.origin();
    let x = main.scratch::<f32>("x", rows * 300)?;
    main.fill(&x, 0)?;
    for layer in 0..4 {
        let side = cap.fork(&main, "side")?;
        let s = side.scratch::<u8>("s", rows * 70_000)?;
        side.fill(&s, 1)?;
        let m = main.scratch::<u8>("m", rows * (1000 + layer * 90_000))?;
        main.fill(&m, 2)?;
        let workspace = main.workspace("w", 3 << 20)?;
        main.fill(&workspace, 3)?;
        cap.join(&main, side)?;
    }
    main.fill(&x, 4)
}

fn options(rows: usize, placement: Placement, policy: Policy) -> CaptureOptions {
    CaptureOptions::new(format!("{rows} rows"))
        .placement(placement)
        .policy(policy)
}

#[test]
fn a_group_reserves_what_its_sizing_says() {
    let orders: [&[usize]; 3] = [&[32, 16, 4, 1], &[1, 4, 16, 32], &[4, 40, 1]];
    let small = ArenaConfig {
        segment_bytes: 1 << 20,
        span_bytes: 64 << 10,
    };
    for config in [ArenaConfig::default(), small] {
        for placement in [Placement::Live, Placement::Planned] {
            for policy in [Policy::ISOLATED, Policy::ORDERED] {
                for order in orders {
                    let device = Device::sim(1);
                    let mut sizing = device.sizing("buckets", config).unwrap();
                    let group = device.replay_group("buckets", config);
                    let mut graphs = Vec::new();
                    for &rows in order {
                        let options = options(rows, placement, policy);
                        let record = |cap: &_| step(cap, rows);
                        let (said, ()) = sizing.record(options.clone(), record).unwrap();
                        let options = options.group(&group);
                        let (graph, ()) = device.capture(options, record).unwrap();
                        let pools = graph.pools();
                        assert_eq!(said.reserved, pools.reserved);
                        assert_eq!(said.peak, pools.peak);
                        assert_eq!(said.streams, pools.streams);
                        graphs.push(graph);
                        assert_eq!(sizing.reserved(), group.reserved(), "{order:?} at {rows}");
                    }
                }
            }
        }
    }
}

/// Nothing reaches the driver, nothing is reserved, and the next capture works.
#[test]
fn sizing_leaves_the_device_as_it_was() {
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    // The streams that captures take are kept for the next one.
    device
        .capture::<_, Error>("first", |cap| step(cap, 1))
        .unwrap();
    device.collect();
    let before = driver.live();
    let mut sizing = device.sizing("buckets", ArenaConfig::default()).unwrap();
    sizing
        .record::<_, Error>("step", |cap| step(cap, 8))
        .unwrap();
    assert!(sizing.reserved() > 0);
    device.collect();
    assert_eq!(driver.live(), before);
    let refused = sizing.record::<(), Error>("fails", |cap| {
        step(cap, 2)?;
        Err(Error::OtherDevice {
            what: "mine".into(),
            used_on: "here".into(),
        })
    });
    assert!(
        matches!(refused, Err(Error::OtherDevice { .. })),
        "{refused:?}"
    );
    let unjoined = sizing.record::<_, Error>("unjoined", |cap| {
        let side = cap.fork(&cap.origin(), "side")?;
        side.scratch::<u8>("s", 16).map(drop)
    });
    assert!(
        matches!(unjoined, Err(Error::Unjoined { .. })),
        "{unjoined:?}"
    );
    device.collect();
    // Streams of what did not end well are not taken again.
    let streams = before.streams;
    assert_eq!(
        LiveObjects {
            streams,
            ..driver.live()
        },
        before
    );
    device
        .capture::<_, Error>("next", |cap| step(cap, 8))
        .unwrap();
}

/// A call that wants the addresses at once finds none.
#[test]
fn a_call_that_needs_an_address_is_refused() {
    let device = Device::sim(1);
    let mut sizing = device.sizing("buckets", ArenaConfig::default()).unwrap();
    let refused = sizing.record::<_, Error>("step", |cap| {
        let main = cap.origin();
        let x = main.scratch::<u8>("x", 16)?;
        main.address_of(&x)
    });
    assert!(
        matches!(refused, Err(Error::Unplannable { .. })),
        "{refused:?}"
    );
    // Inside a capture there is no sizing.
    let inside = device.capture::<_, Error>("capture", |_| {
        sizing
            .record::<_, Error>("step", |cap| step(cap, 1))
            .map(drop)
    });
    assert!(
        matches!(inside, Err(Error::InsideCapture { .. })),
        "{inside:?}"
    );
}
