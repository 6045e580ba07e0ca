//! Planned captures on the device: a step of the decode path, and what a library
//! enqueues when the plan is emitted.

use streamweir::kernels::dsv4::Image;
use streamweir::verify::Verdict;
use streamweir::{CaptureOptions, Device, Error, ForeignCall, Policy, writes};
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Exec, IndexKeys, Overlap, Packing, Pools, Repeat, RepeatedArm,
    Repetition, Setup,
};

use super::program::{LEN, Program};
use super::{Failed, Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("a_planned_step_needs_less_memory_and_no_more_lanes", layers),
    ("two_streams_are_proven_and_right", two_streams),
    ("a_library_gets_its_addresses_at_emission", library),
];

fn layers(device: &Device, _: &Image) -> Outcome {
    let config = Config {
        layers: 7,
        max_context: 65_536,
        ..Config::FLASH
    };
    let arm = Arm {
        overlap: Overlap::IndexerOnly,
        pools: Pools::Tagged,
        exec: Exec::Graph,
    };
    let repeat = Repeat {
        context: config.max_context,
        replays: 200,
    };
    let run = |packing| -> Result<RepeatedArm, Failed> {
        let setup = Setup {
            config,
            index_keys: IndexKeys::Bf16,
            buckets: vec![8],
            capacity: Capacity {
                sequences: 8,
                pages: 1 + 8 * config.table_stride(),
                rows: 8,
            },
            packing,
            programmatic: true,
            seed: 1,
        };
        let mut found = Repetition::run(device, setup, repeat, &[arm], |_| {})?;
        found.arms.pop().ok_or_else(|| "one arm".into())
    };
    let (live, planned) = (run(Packing::Isolated)?, run(Packing::Planned)?);
    println!(
        "live: {} bytes on {} lanes, {:?} us; planned: {} bytes on {} lanes, {:?} us",
        live.reserved,
        live.replay_streams,
        live.us_per_replay,
        planned.reserved,
        planned.replay_streams,
        planned.us_per_replay
    );
    ensure(planned.is_clean(), || format!("{planned:?}"))?;
    ensure(planned.report.verdict == Verdict::Safe, || {
        planned.report.to_string()
    })?;
    ensure(planned.reserved < live.reserved, || {
        format!("{} bytes against {}", planned.reserved, live.reserved)
    })?;
    ensure(planned.replay_streams <= live.replay_streams, || {
        format!(
            "{} lanes against {}",
            planned.replay_streams, live.replay_streams
        )
    })
}

fn two_streams(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let live = program.capture(device, "live")?;
    let stream = device.stream("replay")?;
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let options = CaptureOptions::new("planned").planned().policy(policy);
        let graph = program.capture(device, options)?;
        ensure(graph.certificate().is_some(), || graph.report().to_string())?;
        ensure(graph.trace().edges == live.trace().edges, || {
            format!("{:?} against {:?}", graph.trace().edges, live.trace().edges)
        })?;
        graph.upload(&stream)?;
        for replay in 0..100 {
            program.left.upload(&[0; LEN])?;
            graph.replay(&stream)?;
            ensure(program.check()?, || format!("replay {replay} is wrong"))?;
        }
    }
    Ok(())
}

fn library(device: &Device, image: &Image) -> Outcome {
    let program = Program::prepare(device, image)?;
    let bytes = (LEN * size_of::<u32>()) as u64;
    let driver = crate::driver()?;
    let options = CaptureOptions::new("library").planned();
    let (graph, ()) = device.capture::<_, Error>(options, |cap| {
        let main = cap.origin();
        let a = main.scratch::<u32>("a", LEN)?;
        let touches = [writes(&a)];
        let call = ForeignCall::new("fills", &touches).workspace(bytes as usize, 4096);
        // SAFETY: the call touches the buffer and its workspace alone.
        unsafe {
            main.foreign_call(call, move |raw, addresses| {
                let workspace = addresses.workspace.ok_or("no workspace")?;
                if !workspace.is_multiple_of(4096) {
                    return Err(format!("workspace at {workspace:#x}").into());
                }
                driver.fill_async(raw, workspace, 1, bytes)?;
                Ok(driver.copy_async(raw, addresses.touched[0], workspace, bytes)?)
            })?;
        }
        main.copy(&program.left, &a)
    })?;
    ensure(graph.report().verdict == Verdict::Safe, || {
        graph.report().to_string()
    })?;
    let stream = device.stream("replay")?;
    graph.replay(&stream)?;
    let filled = program.left.download()?;
    ensure(filled.iter().all(|&value| value == 0x0101_0101), || {
        "the fill did not arrive".into()
    })
}
