//! What the pools of a capture hold is in its trace, and R9 speaks of that, not
//! of the bytes that buffers happen to lie in.

use streamweir::trace::{StreamId, Trace};
use streamweir::{ArenaConfig, CaptureOptions, Device, Error, Graph, Policy};

use crate::common::{Kernels, LEN, N, plus, sum};

const SPAN: u64 = 4096;
const ROOMY: ArenaConfig = ArenaConfig {
    segment_bytes: 16 * SPAN,
    span_bytes: SPAN,
};

/// A few bytes of scratch on each of two streams, and a workspace in between.
fn capture(policy: Policy, workspace: usize) -> Graph {
    let device = Device::sim(1);
    let kernels = Kernels::load(&device).unwrap();
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let options = CaptureOptions::new("growth").arena(ROOMY).policy(policy);
    let captured = device.capture::<_, Error>(options, |cap| {
        let main = cap.origin();
        let held = main.workspace("held", workspace)?;
        main.fill(&held, 0)?;
        let a = main.scratch::<u32>("a", LEN)?;
        let side = cap.fork(&main, "side")?;
        let b = side.scratch::<u32>("b", LEN)?;
        side.launch(
            &kernels.plus,
            plus {
                input: &x,
                output: &b,
                more: 1,
                len: N,
            },
        )?;
        main.launch(
            &kernels.plus,
            plus {
                input: &x,
                output: &a,
                more: 2,
                len: N,
            },
        )?;
        let seen = cap.join(&main, side)?;
        main.launch(
            &kernels.sum,
            sum {
                left: &a,
                right: seen.see(&b),
                output: &x,
                len: N,
            },
        )
    });
    captured.unwrap().0
}

fn bytes(trace: &Trace, stream: Option<StreamId>) -> u64 {
    let held = trace.reserved.iter().filter(|held| held.stream == stream);
    held.map(|held| held.range.len()).sum()
}

#[test]
fn each_stream_holds_its_own() {
    let graph = capture(Policy::ISOLATED, 256);
    let trace = graph.trace();
    assert_eq!(bytes(trace, Some(StreamId(0))), SPAN - 256);
    assert_eq!(bytes(trace, Some(StreamId(1))), SPAN);
    assert_eq!(bytes(trace, None), 0);
    assert_eq!(graph.pools().reserved, 2 * SPAN);
    for buffer in &trace.buffers {
        let held = trace
            .reserved
            .iter()
            .filter(|r| r.range.contains(&buffer.range));
        let owners: Vec<_> = held.map(|held| held.stream).collect();
        match buffer.name.as_str() {
            "a" | "b" => assert_eq!(owners, [buffer.stream()], "{}", buffer.name),
            _ => assert_eq!(owners, [], "{}", buffer.name),
        }
    }
}

#[test]
fn streams_that_share_a_pool_hold_it_together() {
    let graph = capture(Policy::ORDERED, 256);
    assert_eq!(bytes(graph.trace(), None), SPAN - 256);
    assert_eq!(
        graph
            .trace()
            .reserved
            .iter()
            .filter(|r| r.stream.is_some())
            .count(),
        0
    );
}

#[test]
fn growth_is_what_is_held() {
    let graph = capture(Policy::ISOLATED, 256);
    let growth = &graph.report().growth;
    let of = |tag: Option<&str>| {
        let found = growth.iter().find(|growth| growth.tag.as_deref() == tag);
        found
            .unwrap_or_else(|| panic!("{tag:?} in {growth:?}"))
            .reserved
    };
    assert_eq!(of(Some("side")), SPAN);
    assert_eq!(of(Some("main")), SPAN - 256);
    assert_eq!(of(None), 2 * SPAN - 256);
}

/// A library's workspace is no scratch, however big it is.
#[test]
fn a_workspace_is_no_growth() {
    let graph = capture(Policy::ISOLATED, 8 << 20);
    assert!(graph.pools().reserved >= 8 << 20);
    let all = graph.report().growth.iter();
    assert!(
        all.clone().all(|growth| growth.reserved <= 2 * SPAN),
        "{:?}",
        graph.report().growth
    );
    assert!(!all.clone().any(|growth| growth.is_far_above_floor()));
}
