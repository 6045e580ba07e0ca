//! A twin of the two-stream shape of pegainfer's GLM-5.2 layer, audited as
//! docs/adopting.md tells its authors to do.
//!
//! What is taken over is the shape: which calls there are, on which stream, which buffers
//! each is given, where one stream waits for the other, and that the keys of the indexer
//! and the latents of attention are parts of one slab of pages, whose base a kernel is
//! given with an offset. The engine is one that knows nothing of streamweir: it captures with calls of
//! the driver, here those of the simulated device.

use std::cell::RefCell;
use std::ffi::c_void;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use streamweir::Device;
use streamweir::audit::{Audit, AuditOptions, CallLog, DeclaredAccess, audit};
use streamweir::driver::sim::{SimBlock, SimDriver, SimFault, SimKernel};
use streamweir::driver::{
    CaptureCalls, CaptureMode, EventScope, FunctionHandle, GraphHandle, LaunchShape, MemoryCalls,
    ModuleCalls, ModuleImage, ParamSlot, Start, StreamCalls, StreamHandle,
};
use streamweir::trace::{AccessMode, ByteRange};
use streamweir::verify::{Hazard, Options, Report, Rule, Verdict};

/// Words of a buffer, and of each part of the slab. A page of the slab has the latents of
/// so many words and then their keys.
const LEN: u32 = 64;
const BYTES: u64 = LEN as u64 * 4;
const PAGE: u32 = 16;
const PAGE_BYTES: u64 = PAGE as u64 * 4;

/// What a kernel is given: a buffer, or a layer's part of the slab of pages.
#[derive(Clone, Copy, PartialEq)]
enum Operand {
    Buffer(&'static str),
    Latents,
    Keys,
}

use Operand::{Buffer, Keys, Latents};

/// How the engine is made.
#[derive(Clone, Copy)]
struct Shape {
    /// Kernels are given the address of their own part of the slab, instead of the slab's
    /// and an offset.
    own_parts: bool,
    /// Main waits for the indexer before attention reads the slots.
    joins: bool,
    /// Both streams keep the partial sums of their products in one buffer.
    shares_partial: bool,
}

impl Shape {
    /// As pegainfer has it.
    const THEIRS: Self = Self {
        own_parts: false,
        joins: true,
        shares_partial: false,
    };
    /// With the one change that a proof wants.
    const PROVABLE: Self = Self {
        own_parts: true,
        ..Self::THEIRS
    };
}

/// An engine with a stream, a second one for its indexer, and buffers made once.
struct Engine {
    driver: Arc<SimDriver>,
    device: Device,
    kernels: Vec<(&'static str, FunctionHandle)>,
    main: StreamHandle,
    aux: StreamHandle,
    buffers: Vec<(&'static str, ByteRange)>,
    shape: Shape,
    /// What its calls touch, where somebody asks for it.
    log: RefCell<Option<CallLog>>,
}

const KERNELS: [&str; 6] = [
    "q_phase",
    "index_keys",
    "index_logits",
    "top_k",
    "front_rest",
    "attend",
];

/// `out[i] = 3 * a[i] + b[i]`. Each of `a` and `out` begins some words into its memory, and
/// lies in pages where there is a distance between those.
fn run(block: &mut SimBlock<'_>) -> Result<(), SimFault> {
    let i = block.index()[0];
    let place = |address: u64, begin: u32, distance: u32| {
        let word = match distance {
            0 => i,
            _ => i / PAGE * distance + i % PAGE,
        };
        address + 4 * u64::from(begin + word)
    };
    let [a, b, out]: [u64; 3] = [block.param(0)?, block.param(8)?, block.param(16)?];
    let a = place(a, block.param(24)?, block.param(28)?);
    let out = place(out, block.param(32)?, block.param(36)?);
    let a = block.read::<u32>(a, 1)?[0];
    let b = block.read::<u32>(b + 4 * u64::from(i), 1)?[0];
    block.write(out, &[a.wrapping_mul(3).wrapping_add(b)])
}

impl Engine {
    fn new(shape: Shape) -> Self {
        let driver = SimDriver::new(3);
        let device = Device::with_driver(driver.clone());
        let slot = |at: u32| match at {
            0..3 => ParamSlot {
                offset: 8 * at,
                size: 8,
            },
            _ => ParamSlot {
                offset: 12 + 4 * at,
                size: 4,
            },
        };
        let kernel = |symbol| SimKernel {
            symbol,
            params: (0..7).map(slot).collect(),
            run: Arc::new(run),
        };
        let image = ModuleImage::Sim(KERNELS.map(kernel).to_vec());
        let module = driver.module_load(&image).unwrap();
        let function = |name| {
            // SAFETY: the module is live, to the end of the driver.
            let function = unsafe { driver.module_function(module, name) };
            (name, function.unwrap())
        };
        let kernels = KERNELS.map(function).to_vec();
        let names = [
            ("normed", BYTES),
            ("q_resid", BYTES),
            ("kv slab", 2 * BYTES),
            ("logits", BYTES),
            ("global slots", BYTES),
            ("attn out", BYTES),
            ("partial", BYTES),
            ("index partial", BYTES),
        ];
        let buffer = |(name, bytes)| {
            let start = driver.mem_alloc(bytes).unwrap();
            (name, ByteRange::new(start, start + bytes))
        };
        Self {
            buffers: names.map(buffer).to_vec(),
            main: driver.stream_create(0).unwrap(),
            aux: driver.stream_create(0).unwrap(),
            kernels,
            device,
            driver,
            shape,
            log: RefCell::new(None),
        }
    }

    fn range(&self, name: &str) -> ByteRange {
        let found = self.buffers.iter().find(|(other, _)| *other == name);
        found.expect("a buffer of the engine").1
    }

    /// What a kernel is given for an operand: an address, where it begins from there, and
    /// the distance of pages, in words.
    fn given(&self, operand: Operand) -> (u64, [u32; 2]) {
        let slab = self.range("kv slab").start;
        match (operand, self.shape.own_parts) {
            (Buffer(name), _) => (self.range(name).start, [0, 0]),
            (Latents, _) => (slab, [0, 2 * PAGE]),
            (Keys, false) => (slab, [PAGE, 2 * PAGE]),
            (Keys, true) => (slab + PAGE_BYTES, [0, 2 * PAGE]),
        }
    }

    /// The bytes of an operand: one range, or one in each page.
    fn bytes(&self, operand: Operand) -> Vec<ByteRange> {
        let slab = self.range("kv slab").start;
        let begin = match operand {
            Buffer(name) => return vec![self.range(name)],
            Latents => slab,
            Keys => slab + PAGE_BYTES,
        };
        let page = |page: u32| begin + 2 * PAGE_BYTES * u64::from(page);
        let pages = (0..LEN / PAGE).map(page);
        pages
            .map(|start| ByteRange::new(start, start + PAGE_BYTES))
            .collect()
    }

    // begin: docs/adopting.md, declaring a call
    /// The engine's wrapper around a launch knows the operands, so it declares them.
    fn launch(&self, stream: StreamHandle, kernel: &str, [a, b]: [Operand; 2], out: Operand) {
        let enqueue = || self.enqueue(stream, kernel, [a, b, out]);
        let mut log = self.log.borrow_mut();
        let Some(log) = log.as_mut() else {
            return enqueue();
        };
        let touches = |operand, mode| {
            let ranges = self.bytes(operand).into_iter();
            ranges.map(move |range| DeclaredAccess { range, mode })
        };
        let reads = [a, b]
            .into_iter()
            .flat_map(|operand| touches(operand, AccessMode::Read));
        let touched: Vec<_> = reads.chain(touches(out, AccessMode::Write)).collect();
        // SAFETY: a live stream of the device.
        unsafe { log.call(&self.device, stream, kernel, Some(&touched), enqueue) }
            .expect("the stream is capturing");
    }
    // end: docs/adopting.md, declaring a call

    fn enqueue(&self, stream: StreamHandle, kernel: &str, operands: [Operand; 3]) {
        let found = self.kernels.iter().find(|(name, _)| *name == kernel);
        let (_, function) = found.expect("a kernel of the engine");
        let [(mut a, mut a_at), (mut b, _), (mut out, mut out_at)] =
            operands.map(|operand| self.given(operand));
        let ([a_begin, a_distance], [out_begin, out_distance]) = (&mut a_at, &mut out_at);
        let mut params: [*mut c_void; 7] = [
            (&raw mut a).cast(),
            (&raw mut b).cast(),
            (&raw mut out).cast(),
            (&raw mut *a_begin).cast(),
            (&raw mut *a_distance).cast(),
            (&raw mut *out_begin).cast(),
            (&raw mut *out_distance).cast(),
        ];
        let shape = LaunchShape::from(([LEN, 1, 1], [1, 1, 1]));
        // SAFETY: the kernel's parameters, and buffers that live as long as the engine.
        unsafe {
            self.driver
                .launch(stream, *function, shape, Start::InOrder, &mut params)
        }
        .unwrap();
    }

    /// Makes `to` wait for what `from` has enqueued.
    fn order(&self, from: StreamHandle, to: StreamHandle) {
        let event = self.driver.event_create(false).unwrap();
        // SAFETY: live handles; a captured event may go once it has been waited for.
        unsafe {
            self.driver
                .event_record(event, from, EventScope::Internal)
                .unwrap();
            self.driver
                .stream_wait(to, event, EventScope::Internal)
                .unwrap();
            self.driver.event_destroy(event).unwrap();
        }
    }

    // begin: docs/adopting.md, a layer
    /// A layer: the indexer on the second stream, beside the rest of the front.
    fn layer(&self) {
        let (main, aux) = (self.main, self.aux);
        let [normed, q_resid, partial] = ["normed", "q_resid", "partial"].map(Buffer);
        let [logits, slots] = ["logits", "global slots"].map(Buffer);
        let index_partial = match self.shape.shares_partial {
            true => partial,
            false => Buffer("index partial"),
        };
        self.launch(main, "q_phase", [normed, normed], q_resid);
        self.order(main, aux);

        self.launch(aux, "index_keys", [normed, q_resid], Keys);
        self.launch(aux, "index_logits", [Keys, q_resid], index_partial);
        self.launch(aux, "index_logits", [index_partial, q_resid], logits);
        self.launch(aux, "top_k", [logits, logits], slots);

        self.launch(main, "front_rest", [normed, q_resid], partial);
        self.launch(main, "front_rest", [partial, q_resid], Latents);
        if self.shape.joins {
            self.order(aux, main);
        }
        self.launch(main, "attend", [Latents, slots], Buffer("attn out"));
        if !self.shape.joins {
            self.order(aux, main); // too late, and the driver is content
        }
    }
    // end: docs/adopting.md, a layer

    /// What pegainfer's `capture_and_instantiate` does, up to where the audit goes.
    fn capture(&self) -> GraphHandle {
        // SAFETY: a live stream, whose capture ends below.
        unsafe {
            self.driver
                .capture_begin(self.main, CaptureMode::ThreadLocal)
        }
        .unwrap();
        self.layer();
        // SAFETY: as above.
        unsafe { self.driver.capture_end(self.main) }.unwrap()
    }

    // begin: docs/adopting.md, the audit
    /// Between the end of the capture and `cuGraphInstantiate`.
    fn audit(&self, graph: GraphHandle) -> streamweir::Result<Audit> {
        let mut options = AuditOptions::named("decode");
        options.calls = self.log.take().unwrap_or_default();
        for (name, range) in &self.buffers {
            options = options.knowing(*name, *range);
        }
        // SAFETY: the graph is live, of this context, and nobody changes it.
        unsafe { audit(&self.device, graph, options) }
    }
    // end: docs/adopting.md, the audit

    fn report(&self, declared: bool) -> Report {
        self.log.replace(declared.then(CallLog::default));
        let audit = self.audit(self.capture()).unwrap();
        audit.verify(&Options::default()).unwrap()
    }
}

#[test]
fn without_declarations_all_that_both_streams_are_given_is_a_possible_conflict() {
    let report = Engine::new(Shape::THEIRS).report(false);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert!(report.hazards.iter().all(|hazard| !hazard.proven));
    let names = |hazard: &Hazard| hazard.buffers.iter().any(|buffer| buffer.name == "kv slab");
    assert!(report.hazards.iter().any(names), "{report}");
    shown("undeclared", &report);
}

#[test]
fn with_declarations_the_base_of_the_slab_is_left() {
    let report = Engine::new(Shape::THEIRS).report(true);
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    for hazard in &report.hazards {
        assert_eq!(hazard.buffers.len(), 1, "{hazard}");
        assert_eq!(hazard.buffers[0].name, "kv slab", "{hazard}");
    }
    shown("base", &report);
}

#[test]
fn with_addresses_of_their_own_parts_it_is_safe_and_rests_on_nothing_else() {
    let report = Engine::new(Shape::PROVABLE).report(true);
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    assert!(report.assumptions.is_empty(), "{report}");
    assert!(report.not_analysed.is_empty(), "{report}");
    assert!(report.certificate.is_some());
    shown("safe", &report);
}

#[test]
fn a_dropped_join_is_proven_and_named() {
    let shape = Shape {
        joins: false,
        ..Shape::PROVABLE
    };
    let report = Engine::new(shape).report(true);
    assert_eq!(report.verdict, Verdict::Hazard);
    let join = &report.hazards[0];
    assert_eq!(join.rule, Rule::UnorderedConflict);
    assert!(
        join.proven && join.buffers[0].name == "global slots",
        "{join}"
    );
    assert_eq!(join.first.name, "top_k");
    assert!(join.help.contains("before n7 `attend`"), "{join}");
    shown("join", &report);
}

#[test]
fn a_shared_buffer_of_partial_sums_is_proven() {
    let shape = Shape {
        shares_partial: true,
        ..Shape::PROVABLE
    };
    let report = Engine::new(shape).report(true);
    assert_eq!(report.verdict, Verdict::Hazard);
    for hazard in &report.hazards {
        assert_eq!(hazard.rule, Rule::UnorderedConflict, "{hazard}");
        assert_eq!(hazard.buffers[0].name, "partial", "{hazard}");
    }
}

/// The page shows what is printed: the block after `<!-- printed: NAME -->`, in which
/// `...` stands for any number of lines.
fn shown(name: &str, report: &Report) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adopting.md");
    let page = fs::read_to_string(page).unwrap();
    let mark = format!("<!-- printed: {name} -->\n```text\n");
    let block = page
        .split(&mark)
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let block = block.unwrap_or_else(|| panic!("docs/adopting.md shows no {name}:\n{report}"));
    let pattern: Vec<&str> = block.lines().collect();
    let printed = report.to_string();
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    assert!(
        fits(&pattern, &lines),
        "docs/adopting.md shows something else than\n{printed}"
    );
}

fn fits(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        Some((line, rest)) => lines.first() == Some(line) && fits(rest, &lines[1..]),
    }
}
