//! Writes found by running kernels: the trials in this process, and the child
//! with its watchdog.

use std::process::Command;
use std::time::Duration;

use streamweir_hal::testing::fault::FaultDriver;
use streamweir_sched::driver::{
    Driver, ErrorClass, FunctionHandle, ModuleCalls, ModuleImage, Start,
};
use streamweir_sched::infer::{
    InferOptions, Inference, Isolation, Outcome, Watchdog, infer_writes,
};
use streamweir_sched::kernel::{InOut, Kernel, twin};
use streamweir_sched::{Device, Error, kernel};
use streamweir_trace::{ByteRange, NodeId};
use streamweir_verify::{Rule, Verdict};

use super::audit::{BYTES, LEN, Rig, verdict};
use super::common::{begin, download, end};

fn here() -> InferOptions {
    InferOptions {
        isolation: Isolation::Here,
        ..InferOptions::default()
    }
}

fn written(inference: &Inference, node: u32) -> Vec<(String, u64)> {
    let outcome = inference.nodes.iter().find(|(id, _)| *id == NodeId(node));
    match outcome {
        Some((_, Outcome::Written(runs))) => runs
            .iter()
            .map(|(buffer, run)| (buffer.to_string(), run.len()))
            .collect(),
        other => panic!("n{node}: {other:?}"),
    }
}

#[test]
fn two_writers_of_one_block_are_a_proven_hazard_and_the_twin_is_not() {
    let rig = Rig::new();
    let mut shared = rig.audit(rig.beside(|r, s| r.add(s, 0, 1), |r, s| r.add(s, 2, 1)));
    assert_eq!(verdict(&shared).verdict, Verdict::Possible);
    let inference = unsafe { infer_writes(&rig.device, &shared, &here()) }.unwrap();
    shared.add_writes(&inference).unwrap();
    let report = verdict(&shared);
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    let proven: Vec<_> = report
        .hazards
        .iter()
        .filter(|hazard| hazard.proven)
        .collect();
    assert_eq!(proven.len(), 1, "{report}");
    assert_eq!(proven[0].rule, Rule::UnorderedConflict);
    assert_eq!(proven[0].buffers[0].name, "b");

    // Both read `a`, which no run can show: that stays possible.
    let mut twin = rig.audit(rig.beside(|r, s| r.add(s, 0, 1), |r, s| r.add(s, 0, 2)));
    let inference = unsafe { infer_writes(&rig.device, &twin, &here()) }.unwrap();
    twin.add_writes(&inference).unwrap();
    let report = verdict(&twin);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert!(
        report.hazards.iter().all(|hazard| !hazard.proven),
        "{report}"
    );
    assert!(
        !report.assumptions.is_empty() && !report.not_analysed.is_empty(),
        "{report}"
    );
}

#[test]
fn writes_are_exact_and_the_memory_is_as_before() {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let [a, b, c] = rig.memory;
    // b holds what the kernel will write into half of it.
    let sums: Vec<u32> = (0..LEN).map(|at| 0x3f80_0001 + at).collect();
    super::common::write(driver, b, &sums[..LEN as usize / 2]);
    let before = [a, b, c].map(|at| download(driver, at, LEN as usize));
    begin(driver, rig.main).unwrap();
    rig.code.add_to(driver, rig.main, (a, b), 1, LEN).unwrap();
    rig.code
        .add_to(driver, rig.main, (a, c), 1, LEN / 2)
        .unwrap();
    let graph = end(driver, rig.main).unwrap();
    let inference = unsafe { infer_writes(&rig.device, &rig.audit(graph), &here()) }.unwrap();
    let bytes = |node| {
        written(&inference, node)
            .iter()
            .map(|(_, len)| len)
            .sum::<u64>()
    };
    // The half that held the result already is seen, too, and of each number
    // all four bytes, though one byte differs.
    assert_eq!(bytes(0), BYTES, "{inference:?}");
    assert_eq!(bytes(1), BYTES / 2, "{inference:?}");
    assert!(
        written(&inference, 1)
            .iter()
            .all(|(buffer, _)| buffer == "b2")
    );
    assert_eq!(
        [a, b, c].map(|at| download(driver, at, LEN as usize)),
        before
    );
}

kernel! {
    /// Counts in `data[0]` and writes where the count says.
    fn append(data: InOut<u32>);
    /// Waits for another kernel.
    fn grid_barrier(data: InOut<u32>);
    /// Never ends.
    fn hang(data: InOut<u32>);
    /// Ends the process.
    fn crash(data: InOut<u32>);
}

fn special(driver: &dyn Driver) -> [FunctionHandle; 4] {
    let module = driver.module_load(&ModuleImage::Sim(vec![
        twin::<append>(|block, (data,)| {
            let count = block.read::<u32>(data.at(0), 1)?[0];
            // A count that was filled with a pattern would lead far astray.
            block.write(data.at(count as usize), &[0x4000_0000_u32])?;
            block.write(data.at(0), &[count + 1])
        }),
        twin::<grid_barrier>(|_, _| panic!("it was to be refused")),
        twin::<hang>(|_, _| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }),
        twin::<crash>(|_, _| std::process::abort()),
    ]));
    let module = module.unwrap();
    let symbols = [
        append::SYMBOL,
        grid_barrier::SYMBOL,
        hang::SYMBOL,
        crash::SYMBOL,
    ];
    symbols.map(|symbol| unsafe { driver.module_function(module, symbol) }.unwrap())
}

fn launch(rig: &Rig, function: FunctionHandle, mut data: u64) {
    let mut params = [(&raw mut data).cast()];
    let driver = &*rig.driver;
    unsafe {
        driver.launch(
            rig.main,
            function,
            (1, 1).into(),
            Start::InOrder,
            &mut params,
        )
    }
    .unwrap();
}

#[test]
fn indices_are_not_filled_and_kernels_that_wait_are_not_run() {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let [append, barrier, ..] = special(driver);
    super::common::write(driver, rig.memory[0], &[3]);
    begin(driver, rig.main).unwrap();
    launch(&rig, append, rig.memory[0]);
    launch(&rig, barrier, rig.memory[1]);
    let graph = end(driver, rig.main).unwrap();
    let mut audit = rig.audit(graph);
    let inference = unsafe { infer_writes(&rig.device, &audit, &here()) }.unwrap();
    let runs = written(&inference, 0);
    assert_eq!(runs[0], ("b0".to_owned(), 1), "{inference:?}");
    assert!(runs.len() > 1, "{inference:?}");
    let refused: Vec<_> = inference.not_inferred().collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].1.contains("barrier"), "{refused:?}");
    audit.add_writes(&inference).unwrap();
    let assumed = audit.trace().assumptions.join("\n");
    assert!(assumed.contains("n1 `grid_barrier`"), "{assumed}");
}

#[test]
fn too_much_memory_and_memory_in_use_are_refused() {
    let rig = Rig::new();
    let graph = rig.beside(|r, s| r.bump(s, 0), |r, s| r.bump(s, 1));
    let audit = rig.audit(graph);
    let options = InferOptions {
        most_bytes: 3 * BYTES - 1,
        ..here()
    };
    let refused = unsafe { infer_writes(&rig.device, &audit, &options) }.expect_err("too much");
    assert!(refused.to_string().contains("192 bytes"), "{refused}");
    let mut other = rig.audit(graph);
    let inference = Inference {
        nodes: vec![(NodeId(9), Outcome::Written(Vec::new()))],
    };
    assert!(matches!(
        other.add_writes(&inference),
        Err(Error::Infer { .. })
    ));
}

#[test]
fn a_driver_call_that_fails_leaves_the_memory_as_it_was() {
    let rig = Rig::new();
    let graph = rig.beside(|r, s| r.add(s, 0, 1), |r, s| r.add(s, 2, 1));
    let fault = FaultDriver::new(rig.driver.clone());
    let device = Device::with_driver(fault.clone());
    let audit = rig.audit(graph);
    let driver = &*rig.driver;
    let before = rig.memory.map(|at| download(driver, at, LEN as usize));
    fault.disarm();
    let clean = unsafe { infer_writes(&device, &audit, &here()) }.unwrap();
    let calls = fault.calls();
    let mut partial = 0;
    for at in 0..calls {
        fault.fail_call(at, ErrorClass::OutOfMemory);
        match unsafe { infer_writes(&device, &audit, &here()) } {
            Ok(found) => partial += usize::from(found != clean),
            Err(error) => assert!(error.to_string().contains("injected fault"), "{error}"),
        }
        fault.disarm();
        let after = rig.memory.map(|at| download(driver, at, LEN as usize));
        assert_eq!(after, before, "call {at} of {calls}");
    }
    assert!(partial > 0, "no trial failed by itself");
}

const ROLE: &str = "STREAMWEIR_TEST_INFER_ROLE";

/// Starts this binary again for one test, in a role.
fn play(test: &str, role: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn scene(role: &str) -> Result<Inference, Error> {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let [_, _, hang, crash] = special(driver);
    let options = InferOptions {
        watchdog: Watchdog {
            start: Duration::from_secs(60),
            node: Duration::from_secs(2),
            restarts: 3,
        },
        ..InferOptions::default()
    };
    let child = std::env::var_os(streamweir_sched::infer::CHILD).is_some();
    begin(driver, rig.main).unwrap();
    rig.bump(rig.main, 0);
    launch(&rig, hang, rig.memory[1]);
    launch(&rig, crash, rig.memory[1]);
    rig.bump(rig.main, 2);
    if role == "other graph" && child {
        rig.bump(rig.main, 2);
    }
    let graph = end(driver, rig.main).unwrap();
    if role == "gone" && child {
        std::process::exit(0);
    }
    let first = unsafe { infer_writes(&rig.device, &rig.audit(graph), &options) }?;
    // The child of the second call gets here, too, with the same result.
    let second = unsafe { infer_writes(&rig.device, &rig.audit(graph), &options) }?;
    assert_eq!(first, second);
    Ok(first)
}

#[test]
fn a_child_makes_the_trials_and_the_parent_lives_on() {
    let test = "infer::a_child_makes_the_trials_and_the_parent_lives_on";
    if let Ok(role) = std::env::var(ROLE) {
        match scene(&role) {
            Ok(inference) => println!("{inference:?}"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    let (well, text) = play(test, "all");
    assert!(well, "{text}");
    assert_eq!(text.matches("Written([(").count(), 2, "{text}");
    assert!(
        text.contains("NotInferred(\"timed out after 2 s\")"),
        "{text}"
    );
    assert!(
        text.contains("NotInferred(\"its process died (signal: 6"),
        "{text}"
    );
    let (_, text) = play(test, "other graph");
    assert!(text.contains("has another graph at this call"), "{text}");
    let (_, text) = play(test, "gone");
    assert!(text.contains("stopped before this call"), "{text}");
}

#[test]
fn known_ranges_are_those_of_the_audit() {
    let rig = Rig::new();
    let found = rig.audit(rig.beside(|r, s| r.bump(s, 0), |r, s| r.bump(s, 1)));
    let ranges: Vec<ByteRange> = found.trace().buffers.iter().map(|b| b.range).collect();
    assert_eq!(ranges, rig.memory.map(|at| ByteRange::new(at, at + BYTES)));
}
