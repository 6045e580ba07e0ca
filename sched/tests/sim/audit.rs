//! Audits of graphs that were captured with driver calls alone.

use std::sync::Arc;

use streamweir_sched::audit::{Audit, AuditOptions, CallLog, DeclaredAccess, audit};
use streamweir_sched::driver::sim::SimDriver;
use streamweir_sched::driver::{GraphCalls, GraphHandle, MemoryCalls, StreamCalls, StreamHandle};
use streamweir_sched::{Device, EngineError, Error};
use streamweir_trace::{AccessMode, ByteRange, NodeId, NodeKind};
use streamweir_verify::{Options, Report, Rule, Verdict};

use super::common::{Code, begin, end, load, order, upload};

pub(crate) const LEN: u32 = 16;
pub(crate) const BYTES: u64 = LEN as u64 * 4;

/// A device, its kernels, two streams and three pieces of memory.
pub(crate) struct Rig {
    pub(crate) driver: Arc<SimDriver>,
    pub(crate) device: Device,
    pub(crate) code: Code,
    pub(crate) main: StreamHandle,
    pub(crate) side: StreamHandle,
    pub(crate) memory: [u64; 3],
}

impl Rig {
    pub(crate) fn new() -> Self {
        let sim = SimDriver::new(7);
        let device = Device::with_driver(sim.clone());
        let driver = &*sim;
        let code = load(driver).unwrap();
        let values: Vec<u32> = (0..LEN).map(|at| 0x3f80_0000 + at).collect();
        let (main, side) = (
            driver.stream_create(0).unwrap(),
            driver.stream_create(0).unwrap(),
        );
        let memory = [(); 3].map(|()| upload(driver, &values));
        Self {
            code,
            main,
            side,
            memory,
            device,
            driver: sim,
        }
    }

    /// Captures `first` on one stream beside `second` on another.
    pub(crate) fn beside(
        &self,
        first: impl FnOnce(&Self, StreamHandle),
        second: impl FnOnce(&Self, StreamHandle),
    ) -> GraphHandle {
        let driver = &*self.driver;
        begin(driver, self.main).unwrap();
        order(driver, self.main, self.side).unwrap();
        first(self, self.main);
        second(self, self.side);
        order(driver, self.side, self.main).unwrap();
        end(driver, self.main).unwrap()
    }

    pub(crate) fn bump(&self, stream: StreamHandle, at: usize) {
        let driver = &*self.driver;
        self.code
            .bump(driver, stream, self.memory[at], LEN)
            .unwrap();
    }

    pub(crate) fn add(&self, stream: StreamHandle, from: usize, to: usize) {
        let places = (self.memory[from], self.memory[to]);
        let driver = &*self.driver;
        self.code.add_to(driver, stream, places, 1, LEN).unwrap();
    }

    pub(crate) fn options(&self) -> AuditOptions {
        let names = ["a", "b", "c"].into_iter().zip(self.memory);
        names.fold(AuditOptions::named("decode"), |options, (name, start)| {
            options.knowing(name, ByteRange::new(start, start + BYTES))
        })
    }

    pub(crate) fn audit(&self, graph: GraphHandle) -> Audit {
        // SAFETY: the graph is live, of this device, and nothing changes it.
        unsafe { audit(&self.device, graph, self.options()) }.unwrap()
    }
}

pub(crate) fn verdict(audit: &Audit) -> Report {
    audit.verify(&Options::default()).unwrap()
}

#[test]
fn pointers_alone_make_a_conflict_possible_and_nothing_proven() {
    let rig = Rig::new();
    let shared = rig.audit(rig.beside(|r, s| r.bump(s, 0), |r, s| r.bump(s, 0)));
    let report = verdict(&shared);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict);
    assert!(!report.hazards[0].proven);
    assert_eq!(report.hazards[0].buffers[0].name, "a");

    let apart = rig.audit(rig.beside(|r, s| r.bump(s, 0), |r, s| r.bump(s, 1)));
    let report = verdict(&apart);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(
        report
            .assumptions
            .iter()
            .any(|line| line.contains("2 kernels")),
        "{report}"
    );
    assert_eq!(report.not_analysed.len(), 1, "{report}");
}

#[test]
fn copies_and_fills_are_proof() {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let [a, b, _] = rig.memory;
    // SAFETY: both ranges are of the rig's memory, which outlives the graph; here
    // and below.
    let fill = |stream, to| unsafe { driver.fill_async(stream, to, 1, BYTES) }.unwrap();
    let graph = rig.beside(
        |_, s| fill(s, a),
        // SAFETY: as above.
        |_, s| unsafe { driver.copy_async(s, b, a, BYTES) }.unwrap(),
    );
    let report = verdict(&rig.audit(graph));
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    let graph = rig.beside(|_, s| fill(s, a), |_, s| fill(s, b));
    let report = verdict(&rig.audit(graph));
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(
        report.assumptions.is_empty() && report.not_analysed.is_empty(),
        "{report}"
    );
}

#[test]
fn noted_calls_declare_what_their_nodes_touch() {
    let rig = Rig::new();
    let capture = |shared: bool| {
        let mut calls = CallLog::default();
        let access = |at: usize, mode| DeclaredAccess {
            range: ByteRange::new(rig.memory[at], rig.memory[at] + BYTES),
            mode,
        };
        let to = if shared { 1 } else { 2 };
        let first = [access(0, AccessMode::Read), access(1, AccessMode::Write)];
        let second = [access(0, AccessMode::Read), access(to, AccessMode::Write)];
        let calls_ref = &mut calls;
        let graph = {
            let driver = &*rig.driver;
            begin(driver, rig.main).unwrap();
            order(driver, rig.main, rig.side).unwrap();
            let side = || rig.add(rig.side, 0, to);
            let main = || rig.add(rig.main, 0, 1);
            // SAFETY: both streams are the rig's and capture; the calls touch its
            // memory alone.
            unsafe {
                // The side's call is noted first, though its node is no earlier.
                calls_ref
                    .call(&rig.device, rig.side, "indexer", Some(&second), side)
                    .unwrap();
                calls_ref
                    .call(&rig.device, rig.main, "query", Some(&first), main)
                    .unwrap();
            }
            order(driver, rig.side, rig.main).unwrap();
            end(driver, rig.main).unwrap()
        };
        let options = AuditOptions {
            calls,
            ..rig.options()
        };
        // SAFETY: a live graph that nobody changes.
        unsafe { audit(&rig.device, graph, options) }.unwrap()
    };
    let safe = verdict(&capture(false));
    assert_eq!(safe.verdict, Verdict::Safe, "{safe}");
    assert!(
        safe.assumptions.is_empty() && safe.not_analysed.is_empty(),
        "{safe}"
    );
    let hazard = verdict(&capture(true));
    assert_eq!(hazard.verdict, Verdict::Hazard, "{hazard}");
    let text = hazard.to_string();
    assert!(
        text.contains("in indexer") && text.contains("in query"),
        "{text}"
    );
}

#[test]
fn what_stands_before_a_call_is_not_the_calls() {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let mut calls = CallLog::default();
    begin(driver, rig.main).unwrap();
    rig.bump(rig.main, 0);
    // SAFETY: the stream is the rig's and captures.
    let noted = unsafe {
        calls.call(&rig.device, rig.main, "gemm", Some(&[]), || {
            rig.bump(rig.main, 1)
        })
    };
    noted.unwrap();
    rig.bump(rig.main, 2);
    let graph = end(driver, rig.main).unwrap();
    let options = AuditOptions {
        calls,
        ..rig.options()
    };
    let found = unsafe { audit(&rig.device, graph, options) }.unwrap();
    let nodes = &found.trace().nodes;
    let analysed: Vec<bool> = nodes.iter().map(|node| node.analysed).collect();
    assert_eq!(analysed, [false, true, false]);
    assert_eq!(found.trace().scope_of(NodeId(1)), Some("gemm"));
    assert_eq!(found.trace().scope_of(NodeId(0)), None);
    let possible: Vec<u32> = found
        .trace()
        .possible
        .iter()
        .map(|word| word.node.0)
        .collect();
    // The call declares that it touches nothing, which explains no word of its kernel.
    assert_eq!(possible, [0, 1, 2]);
}

#[test]
fn a_call_outside_a_capture_is_refused() {
    let rig = Rig::new();
    let noted = unsafe { CallLog::default().call(&rig.device, rig.main, "gemm", None, || ()) };
    assert!(matches!(
        noted,
        Err(Error::Engine(EngineError::NotCapturing { .. }))
    ));
}

#[test]
fn memory_that_nobody_names_is_possible_r3_and_memory_that_is_gone_r4() {
    let rig = Rig::new();
    let graph = rig.beside(|r, s| r.bump(s, 0), |r, s| r.bump(s, 1));
    let [_, b, _] = rig.memory;
    let options = AuditOptions::named("decode").knowing("b", ByteRange::new(b, b + BYTES));
    let report = verdict(&unsafe { audit(&rig.device, graph, options) }.unwrap());
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnknownMemory, "{report}");

    let keys = rig.device.persistent::<u32>("keys", LEN as usize).unwrap();
    let driver = &*rig.driver;
    begin(driver, rig.main).unwrap();
    rig.code
        .bump(driver, rig.main, keys.range().start, LEN)
        .unwrap();
    let graph = end(driver, rig.main).unwrap();
    let held = verdict(&rig.audit(graph));
    assert_eq!(held.verdict, Verdict::Safe, "{held}");
    drop(keys);
    rig.device.synchronize().unwrap();
    let gone = verdict(&rig.audit(graph));
    assert_eq!(gone.verdict, Verdict::Possible, "{gone}");
    assert_eq!(gone.hazards[0].rule, Rule::OwnerGone, "{gone}");
    assert!(gone.to_string().contains("keys"), "{gone}");
}

#[test]
fn a_child_graph_is_expanded_in_its_place() {
    let rig = Rig::new();
    let driver = &*rig.driver;
    let fill = |stream, at: usize| {
        unsafe { driver.fill_async(stream, rig.memory[at], 1, BYTES) }.unwrap();
    };
    begin(driver, rig.main).unwrap();
    fill(rig.main, 0);
    fill(rig.main, 1);
    let inner = end(driver, rig.main).unwrap();
    begin(driver, rig.main).unwrap();
    fill(rig.main, 0);
    let outer = end(driver, rig.main).unwrap();
    unsafe { driver.graph_add_child(outer, &[], inner) }.unwrap();
    let found = rig.audit(outer);
    let report = verdict(&found);
    assert_eq!(report.verdict, Verdict::Hazard, "{report}");
    assert!(report.to_string().contains("in child n1"), "{report}");
    let kinds: Vec<_> = found
        .trace()
        .nodes
        .iter()
        .map(|node| node.kind.word())
        .collect();
    assert_eq!(kinds, ["memset", "empty", "memset", "memset", "empty"]);
    assert!(found.handle(NodeId(1)).is_none() && found.handle(NodeId(2)).is_some());
    let kind = &found.trace().nodes[2].kind;
    assert!(matches!(kind, NodeKind::Memset(fill) if fill.to == rig.memory[0]));
    // Behind the fill instead of beside it.
    begin(driver, rig.main).unwrap();
    fill(rig.main, 0);
    let outer = end(driver, rig.main).unwrap();
    let first = unsafe { driver.graph_nodes(outer) }.unwrap();
    unsafe { driver.graph_add_child(outer, &first, inner) }.unwrap();
    let report = verdict(&rig.audit(outer));
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(report.not_analysed.is_empty(), "{report}");
    // And a second child behind the first: what follows waits for all of it.
    let last = unsafe { driver.graph_nodes(outer) }.unwrap()[1];
    unsafe { driver.graph_add_child(outer, &[last], inner) }.unwrap();
    let report = verdict(&rig.audit(outer));
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert_eq!(report.stats.nodes, 9, "{report}");
}
