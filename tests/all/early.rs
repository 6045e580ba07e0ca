//! Kernels that declare to wait for what they follow are launched programmatically,
//! and proofs know what that orders.

use streamweir::driver::sim::SimDriver;
use streamweir::driver::{CaptureCalls, CaptureMode, GraphCalls, ModuleCalls, Start, StreamCalls};
use streamweir::kernel::{InOut, Kernel, PdlWait};
use streamweir::trace::{EdgeKind, Node, Trace};
use streamweir::verify::Verdict;
use streamweir::{
    Capture, CaptureOptions, Device, DeviceStream, Error, LoadedKernel, Persistent, kernel,
};

use crate::common::{GRID, Kernels, LEN, N, bump};

/// Kernels of the symbol and the parameters of `bump` that wait.
mod waiting {
    use super::{InOut, kernel};

    kernel! {
        /// Waits, and adds.
        ///
        /// # Safety
        /// A block touches its own element, and none from `len` on.
        #[waits]
        pub(super) unsafe fn bump(data: InOut<u32>, len: u32) {
            data.holds([len])?;
            Ok((len, 1).into())
        }
    }
}

mod spinning {
    use super::{InOut, kernel};

    kernel! {
        /// # Safety
        /// A block touches its own element, and none from `len` on.
        #[blocks(Spin)]
        #[allow(dead_code)]
        #[waits]
        pub(super) unsafe fn bump(data: InOut<u32>, len: u32) {
            data.holds([len])?;
            Ok((len, 1).into())
        }
    }
}

/// A device whose `x` and `y` begin at zero.
struct Rig {
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

impl Rig {
    fn new() -> Self {
        let device = Device::sim(1);
        Self {
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent("x", LEN).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            device,
        }
    }

    fn load<K: Kernel>(&self) -> LoadedKernel<K> {
        // SAFETY: each declaration is that of the twin of its symbol.
        unsafe { self.kernels.module.kernel() }.unwrap()
    }

    /// Behind a kernel that does not wait, behind a fill, behind itself, and behind
    /// a join.
    fn record(&self, cap: &Capture, waiting: &LoadedKernel<waiting::bump>) -> Result<(), Error> {
        let main = cap.origin();
        main.fill(&self.x, 0)?;
        main.launch(
            waiting,
            waiting::bump {
                data: &self.x,
                len: N,
            },
        )?;
        main.launch(
            &self.kernels.bump,
            bump {
                data: &self.x,
                len: N,
            },
        )?;
        let side = cap.fork(&main, "side")?;
        side.launch(
            waiting,
            waiting::bump {
                data: &self.y,
                len: N,
            },
        )?;
        main.launch(
            waiting,
            waiting::bump {
                data: &self.x,
                len: N,
            },
        )?;
        cap.join(&main, side)?;
        main.launch(
            waiting,
            waiting::bump {
                data: &self.y,
                len: N,
            },
        )?;
        main.launch(
            &self.kernels.bump,
            bump {
                data: &self.x,
                len: N,
            },
        )
    }
}

/// What [`Rig::record`] orders, where kernels start early.
const EARLY: [(u32, u32, EdgeKind); 7] = [
    (0, 1, EdgeKind::Full),
    (1, 2, EdgeKind::Full),
    (2, 3, EdgeKind::Programmatic),
    (2, 4, EdgeKind::Programmatic),
    (3, 5, EdgeKind::Programmatic),
    (4, 5, EdgeKind::Programmatic),
    (5, 6, EdgeKind::Full),
];

fn edges(trace: &Trace) -> Vec<(u32, u32, EdgeKind)> {
    let edges = trace.edges.iter();
    let mut edges: Vec<_> = edges
        .map(|edge| (edge.from.0, edge.to.0, edge.kind))
        .collect();
    edges.sort_unstable_by_key(|&(from, to, _)| (from, to));
    edges
}

fn waits(node: &Node) -> bool {
    node.pdl == PdlWait::OnAllPaths
}

#[test]
fn edges_from_kernels_are_programmatic_and_proven() {
    for options in [
        CaptureOptions::new("decode"),
        CaptureOptions::new("decode").planned(),
    ] {
        let rig = Rig::new();
        let waiting = rig.load::<waiting::bump>();
        let (graph, ()) = (rig.device)
            .capture::<_, Error>(options, |cap| rig.record(cap, &waiting))
            .unwrap();
        let (trace, report) = (graph.trace(), graph.report());
        assert_eq!(edges(trace), EARLY);
        assert_eq!(
            trace.nodes.iter().map(waits).collect::<Vec<_>>(),
            [false, true, false, true, true, true, false]
        );
        assert_eq!(report.verdict, Verdict::Safe, "{report}");
        let assumed: Vec<_> = (report.assumptions.iter())
            .filter(|line| line.contains("start before what they follow has ended"))
            .collect();
        assert_eq!(assumed.len(), 1, "{report}");
        assert!(assumed[0].ends_with(": `bump`"), "{}", assumed[0]);

        let stream = rig.device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(rig.x.download().unwrap(), [4; LEN]);
        assert_eq!(rig.y.download().unwrap(), [2; LEN]);
    }
}

/// The same proof without a join: an early start along one chain orders nothing
/// across streams.
#[test]
fn a_join_that_is_missing_is_missed() {
    let rig = Rig::new();
    let waiting = rig.load::<waiting::bump>();
    let refused = rig.device.capture::<_, Error>("decode", |cap| {
        let main = cap.origin();
        main.launch(
            &waiting,
            waiting::bump {
                data: &rig.x,
                len: N,
            },
        )?;
        let side = cap.fork(&main, "side")?;
        side.launch(
            &waiting,
            waiting::bump {
                data: &rig.y,
                len: N,
            },
        )?;
        main.launch(
            &waiting,
            waiting::bump {
                data: &rig.y,
                len: N,
            },
        )?;
        cap.join(&main, side).map(drop)
    });
    let error = refused.map(drop).unwrap_err();
    assert!(error.report().is_some(), "{error}");
}

#[test]
fn a_capture_may_do_without() {
    let rig = Rig::new();
    let waiting = rig.load::<waiting::bump>();
    let options = CaptureOptions::new("decode").programmatic(false);
    let (graph, ()) = (rig.device)
        .capture::<_, Error>(options, |cap| rig.record(cap, &waiting))
        .unwrap();
    let trace = graph.trace();
    assert!(edges(trace).iter().all(|edge| edge.2 == EdgeKind::Full));
    assert_eq!(edges(trace).len(), EARLY.len());
    assert!(!trace.nodes.iter().any(waits));
    assert!(graph.report().assumptions.is_empty(), "{}", graph.report());
}

/// Of an eager run nothing is read back, so nothing in it starts early.
#[test]
fn an_eager_run_starts_in_order() {
    let rig = Rig::new();
    let waiting = rig.load::<waiting::bump>();
    let (run, ()) = (rig.device)
        .eager::<_, Error>("decode", |cap| rig.record(cap, &waiting))
        .unwrap();
    rig.device.synchronize().unwrap();
    let trace = run.trace();
    assert!(edges(trace).iter().all(|edge| edge.2 == EdgeKind::Full));
    assert!(!trace.nodes.iter().any(waits));
    assert_eq!(run.report().verdict, Verdict::Safe, "{}", run.report());
    assert_eq!(rig.x.download().unwrap(), [4; LEN]);
}

/// Nobody is beside it, neither what it follows nor what follows it, be there a call
/// in between that enqueues nothing.
#[test]
fn a_kernel_whose_blocks_spin_has_nobody_beside_it() {
    let rig = Rig::new();
    let spinning = rig.load::<spinning::bump>();
    let waiting = rig.load::<waiting::bump>();
    let options = CaptureOptions::new("decode").planned();
    let (graph, ()) = (rig.device)
        .capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            main.launch(
                &rig.kernels.bump,
                bump {
                    data: &rig.x,
                    len: N,
                },
            )?;
            main.launch(
                &spinning,
                spinning::bump {
                    data: &rig.x,
                    len: N,
                },
            )?;
            let touches = [streamweir::reads(&rig.x)];
            let idle = streamweir::ForeignCall::new("idle", &touches);
            // SAFETY: the call does nothing.
            unsafe { main.foreign_call(idle, |_, _| Ok(()))? };
            let side = cap.fork(&main, "side")?;
            side.launch(
                &waiting,
                waiting::bump {
                    data: &rig.y,
                    len: N,
                },
            )?;
            main.launch(
                &waiting,
                waiting::bump {
                    data: &rig.x,
                    len: N,
                },
            )?;
            cap.join(&main, side).map(drop)
        })
        .unwrap();
    let full = [(0, 1), (1, 2), (1, 3)].map(|(from, to)| (from, to, EdgeKind::Full));
    assert_eq!(edges(graph.trace()), full);
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
}

/// Who reads an engine's graph back cannot see that a kernel of ours waits.
#[test]
fn a_part_of_an_engines_capture_starts_in_order() {
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let kernels = Kernels::load(&device).unwrap();
    let waiting: LoadedKernel<waiting::bump> =
        // SAFETY: the twin adds within `len`, and waits as all twins do.
        unsafe { kernels.module.kernel() }.unwrap();
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let raw = driver.stream_create(0).unwrap();
    // SAFETY: the stream outlives its handle.
    let stream =
        unsafe { DeviceStream::from_raw(&device, "engine", raw, std::sync::Arc::new(())) }.unwrap();
    let module = driver.module_load(&crate::common::image()).unwrap();
    let (mut address, mut len) = (y.range().start, N);
    let mut params = [(&raw mut address).cast(), (&raw mut len).cast()];
    // SAFETY: live handles, as many parameters as `bump` has, and live memory.
    unsafe {
        driver.capture_begin(raw, CaptureMode::ThreadLocal).unwrap();
        let function = driver.module_function(module, "bump").unwrap();
        driver
            .launch(raw, function, GRID.into(), Start::InOrder, &mut params)
            .unwrap();
    }
    for part in ["first", "second"] {
        let attached = device.attach(&stream, part).unwrap();
        attached
            .origin()
            .launch(&waiting, waiting::bump { data: &y, len: N })
            .unwrap();
        attached
            .origin()
            .launch(&waiting, waiting::bump { data: &y, len: N })
            .unwrap();
        let detached = attached.detach().unwrap();
        let report = detached.report();
        assert_eq!(report.verdict, Verdict::Safe, "{part}: {report}");
        let kinds = edges(detached.trace()).into_iter().map(|edge| edge.2);
        assert!(
            kinds.into_iter().all(|kind| kind == EdgeKind::Full),
            "{part}"
        );
    }
    // SAFETY: each handle is live, and used for the last time.
    unsafe {
        let graph = driver.capture_end(raw).unwrap();
        let exec = driver.graph_instantiate(graph).unwrap();
        driver.exec_launch(exec, raw).unwrap();
        driver.stream_synchronize(raw).unwrap();
        driver.exec_destroy(exec).unwrap();
        driver.graph_destroy(graph).unwrap();
    }
    assert_eq!(y.download().unwrap(), [5; LEN]);
}
