//! Captures that were judged wrongly, in their smallest form, with the right answer and
//! the reason beside it. The folder has others of each kind.

mod engine;
mod events;
mod left_over;
mod memory;
mod shown;

use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::{
    CaptureCalls, CaptureMode, EventScope, FunctionHandle, MemoryCalls, ModuleCalls, ModuleImage,
    Start, StreamCalls, StreamHandle,
};
use streamweir::kernel::{Scalar, twin};
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    Capture, CaptureOptions, Device, DeviceStream, Error, ForeignCall, Graph, Persistent, Stream,
    cast, kernel, reads, updates, writes,
};

use crate::common::{GRID, Kernels, LEN, N, SMALL, bump, foreign, image, plus};

/// A simulated device with the driver below it and the kernels.
struct Rig {
    driver: Arc<SimDriver>,
    device: Device,
    kernels: Kernels,
}

fn rig() -> Rig {
    let driver = SimDriver::new(1);
    let device = Device::with_driver(driver.clone());
    let kernels = Kernels::load(&device).unwrap();
    Rig {
        driver,
        device,
        kernels,
    }
}

/// What a library launches: `function`, with addresses and then `len` as parameters, no
/// matter what is declared of it.
#[derive(Clone)]
struct Library {
    driver: Arc<SimDriver>,
    function: FunctionHandle,
}

impl Rig {
    /// The buffers `names`.
    fn buffers<const K: usize>(&self, names: [&str; K]) -> [Persistent<u32>; K] {
        names.map(|name| self.device.persistent::<u32>(name, LEN).unwrap())
    }

    /// A library that launches the kernel `symbol`.
    fn library(&self, symbol: &str) -> Library {
        let driver = self.driver.clone();
        let module = driver.module_load(&image()).unwrap();
        // SAFETY: the module lives as long as the driver.
        let function = unsafe { driver.module_function(module, symbol) }.unwrap();
        Library { driver, function }
    }

    /// Records what `beside` does next to a launch that writes `z`, on another stream.
    fn beside(
        &self,
        z: &Persistent<u32>,
        options: impl Into<CaptureOptions>,
        beside: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<(Graph, ()), Error> {
        let [x] = self.buffers(["x"]);
        self.device.capture::<_, Error>(options, |cap: &Capture| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            launch_plus(&main, &self.kernels, &x, z)?;
            beside(&side)?;
            cap.join(&main, side).map(drop)
        })
    }
}

/// `output = input + 7`
fn launch_plus(
    stream: &Stream,
    kernels: &Kernels,
    input: &Persistent<u32>,
    output: &Persistent<u32>,
) -> Result<(), Error> {
    let more = 7;
    let len = N;
    stream.launch(
        &kernels.plus,
        plus {
            input,
            output,
            more,
            len,
        },
    )
}

impl Library {
    /// Launches the kernel: with the addresses, then with the numbers.
    ///
    /// # Safety
    /// As for [`Driver::launch`].
    unsafe fn launch(&self, stream: StreamHandle, addresses: &[u64], numbers: &[u32]) {
        let mut addresses = addresses.to_vec();
        let mut numbers = numbers.to_vec();
        let mut params: Vec<*mut std::ffi::c_void> = addresses
            .iter_mut()
            .map(|at| std::ptr::from_mut(at).cast())
            .collect();
        params.extend(numbers.iter_mut().map(|at| std::ptr::from_mut(at).cast()));
        let shape = GRID.into();
        // SAFETY: the caller's promise; the parameters are those of the kernel.
        unsafe {
            self.driver
                .launch(stream, self.function, shape, Start::InOrder, &mut params)
                .unwrap();
        }
    }
}

/// The assumptions of a report that contain `what`.
fn assumed(graph: &Graph, what: &str) -> Vec<String> {
    let lines = graph.report().assumptions.iter();
    lines.filter(|line| line.contains(what)).cloned().collect()
}

/// Refused, with `rule` first, over `buffer`.
fn is_refused(captured: Result<(Graph, ()), Error>, rule: Rule, buffer: &str) {
    let error = captured.map(drop).unwrap_err();
    let report = error.report().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(report.hazards[0].rule, rule, "{report}");
    let names: Vec<&str> = report.hazards[0].buffers.iter().map(|b| &*b.name).collect();
    assert_eq!(names, [buffer], "{report}");
}

/// A library's call fills "z", which it does not declare: the operands of its node are
/// there to be read.
#[test]
fn an_undeclared_fill_of_a_call_is_an_access() {
    let Rig {
        driver,
        device,
        kernels,
    } = rig();
    let [y, z, t] = ["y", "z", "t"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let at = z.range().start;
    let captured = device.capture::<_, Error>("at once", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let (input, output) = (&t, &z);
        main.launch(
            &kernels.plus,
            plus {
                input,
                output,
                more: 7,
                len: N,
            },
        )?;
        // SAFETY: not kept; the simulated device has the memory.
        unsafe {
            side.foreign::<_, Error>("library", &[writes(&y)], None, |raw, here| {
                driver.fill_async(raw, at, 1, 16).map_err(foreign)?;
                driver.fill_async(raw, here[0], 2, 16).map_err(foreign)
            })
        }?;
        cap.join(&main, side).map(drop)
    });
    is_refused(captured, Rule::UnorderedConflict, "z");

    for planned in [false, true] {
        let options = CaptureOptions::new("put aside");
        let options = if planned { options.planned() } else { options };
        let driver = driver.clone();
        let captured = device.capture::<_, Error>(options, |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            let touches = [reads(&y)];
            let call = ForeignCall::new("library", &touches);
            // SAFETY: as above.
            unsafe {
                side.foreign_call(call, move |raw, _| Ok(driver.fill_async(raw, at, 0, 16)?))
            }?;
            main.copy(&t, &z)?;
            cap.join(&main, side).map(drop)
        });
        is_refused(captured, Rule::UnorderedConflict, "z");
    }
}

/// State that survives replays is not in an arena that graphs share.
#[test]
fn state_in_a_workspace_of_a_group_is_not_carried() {
    let Rig {
        device, kernels, ..
    } = rig();
    let group = device.replay_group("buckets", SMALL);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let captured = device.capture::<_, Error>(CaptureOptions::new("A").group(&group), |cap| {
        let main = cap.origin();
        let counters = main.workspace("split-K counters", 16)?;
        let data = cast::<u32, _>(&counters)?;
        main.launch(&kernels.bump, bump { data, len: N })?;
        let input = cast::<u32, _>(&counters)?;
        main.launch(
            &kernels.plus,
            plus {
                input,
                output: &y,
                more: 0,
                len: N,
            },
        )
    });
    // It reads what this replay has not written.
    is_refused(captured, Rule::ReadBeforeWrite, "split-K counters");
}

/// A workspace that is taken after scratch of its stream was let go shares no bytes
/// with it at once.
#[test]
fn a_workspace_after_freed_scratch_is_no_hazard() {
    let Rig {
        driver,
        device,
        kernels,
    } = rig();
    let [x, y] = ["x", "y"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let (graph, ()) = device
        .capture::<_, Error>("C", |cap| {
            let main = cap.origin();
            let t = main.scratch::<u32>("t", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output: &t,
                    more: 1,
                    len: N,
                },
            )?;
            drop(t);
            let workspace = main.workspace("workspace", 16)?;
            let touches = [updates(&workspace), writes(&y)];
            // SAFETY: the call touches what it declares.
            unsafe {
                main.foreign::<_, Error>("gemm", &touches, None, |raw, at| {
                    driver.fill_async(raw, at[0], 0, 16).map_err(foreign)?;
                    driver.copy_async(raw, at[1], at[0], 16).map_err(foreign)
                })
            }
        })
        .unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
}

/// The engine's own side stream is open at `detach`, and the engine joins it later.
#[test]
fn an_open_branch_of_the_engine_is_no_hazard_at_detach() {
    let Rig {
        driver,
        device,
        kernels,
    } = rig();
    let [x, y] = ["x", "y"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let (raw, aux) = (
        driver.stream_create(0).unwrap(),
        driver.stream_create(0).unwrap(),
    );
    let own = driver.mem_alloc(64).unwrap();
    // SAFETY: the handles are live to the end of the test, as is the memory.
    unsafe {
        let stream = DeviceStream::from_raw(&device, "engine", raw, Arc::new(())).unwrap();
        let order = |from, to| {
            let event = driver.event_create(false).unwrap();
            driver
                .event_record(event, from, EventScope::Internal)
                .unwrap();
            driver.stream_wait(to, event, EventScope::Internal).unwrap();
        };
        driver.capture_begin(raw, CaptureMode::ThreadLocal).unwrap();
        order(raw, aux);
        driver.fill_async(aux, own, 9, 16).unwrap();
        let attached = device.attach(&stream, "part").unwrap();
        let (input, output) = (&x, &y);
        let launch = plus {
            input,
            output,
            more: 3,
            len: N,
        };
        attached.origin().launch(&kernels.plus, launch).unwrap();
        let detached = attached.detach();
        order(aux, raw);
        driver.capture_end(raw).unwrap();
        let detached = detached.unwrap();
        let assumed = detached.report().assumptions.join("\n");
        assert!(assumed.contains("joined"), "{assumed}");
    }
}

/// One event that two live graphs record says nothing of either.
#[test]
fn one_event_is_recorded_by_one_graph() {
    let Rig {
        device, kernels, ..
    } = rig();
    let [x, a, b] = ["x", "a", "b"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let done = device.event("done").unwrap();
    let record = |name: &str, output: &Persistent<u32>| {
        device.capture::<_, Error>(name, |cap| {
            let main = cap.origin();
            main.launch(
                &kernels.plus,
                plus {
                    input: &x,
                    output,
                    more: 7,
                    len: N,
                },
            )?;
            main.record_external(&done)
        })
    };
    let first = record("A", &a).unwrap();
    let second = record("B", &b).map(drop).unwrap_err().to_string();
    assert!(
        second.contains("\"done\"") && second.contains("\"A\""),
        "{second}"
    );
    drop(first);
}

/// A struct whose addresses are plain numbers.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Packed {
    input: u64,
    output: u64,
    len: u32,
    pad: u32,
}

impl Scalar for Packed {}

kernel! {
    /// Copies between the addresses. Nobody can vouch for a check of them.
    fn packed(p: Packed);
    /// Addresses as numbers.
    fn raw(p: u64, q: u64);
}

/// Safe code cannot launch these at all (`tests/ui/raw_address.rs`). Who vouches and
/// does not say what is touched is shown the words that nothing explains.
#[test]
fn addresses_among_numbers_are_possible_accesses() {
    let Rig {
        device, kernels, ..
    } = rig();
    let twins = vec![twin::<packed>(|_, _| Ok(())), twin::<raw>(|_, _| Ok(()))];
    let module = device.load(&ModuleImage::Sim(twins)).unwrap();
    // SAFETY: the twins touch nothing.
    let (packed_kernel, raw_kernel) = unsafe {
        (
            module.kernel::<packed>().unwrap(),
            module.kernel::<raw>().unwrap(),
        )
    };
    let [x, o] = ["x", "o"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let (input, output) = (x.range().start, o.range().start);
    let (graph, ()) = device
        .capture::<_, Error>("words", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            let plus = plus {
                input: &x,
                output: &o,
                more: 2,
                len: N,
            };
            side.launch(&kernels.plus, plus)?;
            let p = Packed {
                input,
                output,
                len: N,
                pad: 0,
            };
            // SAFETY: as above.
            unsafe {
                main.launch_unchecked(&packed_kernel, (1, 1), packed { p }, &[])?;
                let raw = raw {
                    p: output,
                    q: input,
                };
                main.launch_unchecked(&raw_kernel, (1, 1), raw, &[])?;
            }
            cap.join(&main, side).map(drop)
        })
        .unwrap();
    assert_eq!(
        graph.report().verdict,
        Verdict::Possible,
        "{}",
        graph.report()
    );
}

/// Each step sees what was uploaded for it, by way of page-locked slots taken in turn.
#[test]
fn each_step_sees_its_own_inputs() {
    let Rig {
        device, kernels, ..
    } = rig();
    let [x, y] = ["x", "y"].map(|name| device.persistent::<u32>(name, LEN).unwrap());
    let (graph, ()) = device
        .capture::<_, Error>("step", |cap| {
            let (input, output) = (&x, &y);
            let args = plus {
                input,
                output,
                more: 1,
                len: N,
            };
            cap.origin().launch(&kernels.plus, args)
        })
        .unwrap();
    let stream = device.stream("steps").unwrap();
    let mut ring = ["slot 0", "slot 1"].map(|name| device.pinned::<u32>(name, LEN).unwrap());
    for step in 0..6_u32 {
        let slot = &mut ring[step as usize % 2];
        if slot.as_mut_slice().is_none() {
            device.collect();
        }
        slot.as_mut_slice()
            .expect("its upload has ended")
            .fill(step);
        device
            .eager::<_, Error>("inputs", |run| run.origin().upload(&x, slot))
            .unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(y.download().unwrap(), [step + 1; LEN]);
    }
}
