//! Threads of an engine, each with a stream, tensors and a capture of its own.

use std::ffi::c_void;
use std::sync::{Arc, Barrier};
use std::thread;

use half::bf16;
use libtest_mimic::Failed;
use streamweir::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use streamweir::driver::Start;
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::query_projection;
use streamweir::{Device, DeviceStream, Error, Graph, Persistent};

use super::super::{Outcome, ensure};

/// Rows, columns and tokens of a projection.
const ROWS: u32 = 512;
const WIDTH: u32 = 256;
const TOKENS: u32 = 4;

/// An engine's thread: its stream, its tensors, and its own launch of a kernel.
struct Worker {
    device: Device,
    engine: Arc<CudaStream>,
    stream: DeviceStream,
    x: Arc<CudaSlice<bf16>>,
    weight: Arc<CudaSlice<bf16>>,
    out: Arc<CudaSlice<bf16>>,
}

impl Worker {
    fn new(context: &Arc<CudaContext>, device: &Device, number: u32) -> Result<Self, Failed> {
        let engine = context.new_stream()?;
        let values = |len: u32, step: u32| -> Vec<bf16> {
            (0..len)
                .map(|i| bf16::from_f32(((i * step + number) % 97) as f32 / 48.0 - 1.0))
                .collect()
        };
        Ok(Self {
            device: device.clone(),
            stream: DeviceStream::from_cudarc(device, &format!("engine {number}"), &engine)?,
            x: Arc::new(engine.clone_htod(&values(TOKENS * WIDTH, 31))?),
            weight: Arc::new(engine.clone_htod(&values(ROWS * WIDTH, 17))?),
            out: Arc::new(engine.alloc_zeros((TOKENS * ROWS) as usize)?),
            engine,
        })
    }

    /// The engine's way: a launch on its stream.
    fn eagerly(&self, image: &Image, addresses: [u64; 3]) -> Result<Vec<bf16>, Failed> {
        let driver = crate::driver()?;
        let module = driver.module_load(image)?;
        let ([mut x, mut weight, mut out], mut sizes) = (addresses, [TOKENS, WIDTH, ROWS]);
        let [tokens, width, rows] = &mut sizes;
        let mut params: [*mut c_void; 6] = [
            (&raw mut x).cast(),
            (&raw mut weight).cast(),
            (&raw mut out).cast(),
            std::ptr::from_mut(tokens).cast(),
            std::ptr::from_mut(width).cast(),
            std::ptr::from_mut(rows).cast(),
        ];
        // SAFETY: the parameters of the kernel, over live slices.
        unsafe {
            let function = driver.module_function(module, "query_projection")?;
            let shape = query_projection::shape(TOKENS, WIDTH, ROWS)?;
            driver.launch(
                self.stream.raw(),
                function,
                shape,
                Start::InOrder,
                &mut params,
            )?;
        }
        self.engine.synchronize()?;
        // SAFETY: nothing of it runs any more.
        unsafe { driver.module_unload(module) }?;
        Ok(self.engine.clone_dtoh(&*self.out)?)
    }

    /// Ours: half of the rows on a side stream, into scratch, captured.
    fn captured(&self, image: &Image, name: &str) -> Result<(Graph, [u64; 3]), Failed> {
        let device = &self.device;
        let kernel = image.load(device)?.kernel::<query_projection>()?;
        let x = Persistent::from_cudarc(device, &format!("{name}: x"), &self.x)?;
        let weight = Persistent::from_cudarc(device, &format!("{name}: weight"), &self.weight)?;
        let out = Persistent::from_cudarc(device, &format!("{name}: out"), &self.out)?;
        let addresses = [&x, &weight, &out].map(|buffer| buffer.range().start);
        let (graph, ()) = device.capture::<_, Error>(name, |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            let made = side.scratch::<bf16>("made", (TOKENS * ROWS) as usize)?;
            side.launch(
                &kernel,
                query_projection {
                    x: &x,
                    weight: &weight,
                    q: &made,
                    tokens: TOKENS,
                    width: WIDTH,
                    rows: ROWS,
                },
            )?;
            main.fill(&out, 0xff)?;
            let seen = cap.join(&main, side)?;
            main.copy(&out, seen.see(&made))
        })?;
        Ok((graph, addresses))
    }
}

fn engine_context() -> Result<(Arc<CudaContext>, Device), Failed> {
    let context = CudaContext::new(0)?;
    // SAFETY: each thread uses its slices on its one stream.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    Ok((context, device))
}

fn bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(super) fn threads(_: &Device, image: &Image) -> Outcome {
    for count in [1_u32, 2, 4] {
        let (context, device) = engine_context()?;
        let together = Barrier::new(count as usize);
        let work = |number: u32| -> Outcome {
            context.bind_to_thread()?;
            let worker = Worker::new(&context, &device, number)?;
            together.wait();
            let (graph, addresses) = worker.captured(image, &format!("thread {number}"))?;
            let expected = bits(&worker.eagerly(image, addresses)?);
            for round in 0..50 {
                graph.replay(&worker.stream)?;
                worker.engine.synchronize()?;
                let out = bits(&worker.engine.clone_dtoh(&*worker.out)?);
                ensure(out == expected, || {
                    format!("thread {number} of {count}, round {round}: the bits differ")
                })?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..count)
                .map(|number| {
                    let work = &work;
                    scope.spawn(move || work(number).map_err(|failed| format!("{failed:?}")))
                })
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| match worker.join() {
                    Ok(outcome) => outcome.map_err(Failed::from),
                    Err(_) => Err("a thread panicked".into()),
                })
        })?;
        device.synchronize()?;
    }
    Ok(())
}

/// The engine drops its tensors before, during and after replays. The graph
/// holds them, so nothing happens until it is gone.
pub(super) fn drops(_: &Device, image: &Image) -> Outcome {
    let (context, device) = engine_context()?;
    for when in ["before", "during", "after"] {
        let mut worker = Worker::new(&context, &device, 7)?;
        let (graph, addresses) = worker.captured(image, when)?;
        let expected = bits(&worker.eagerly(image, addresses)?);
        let watch = Arc::downgrade(&worker.weight);
        let empty = Arc::new(worker.engine.alloc_zeros::<bf16>(1)?);
        let mut drop_it = || worker.weight = empty.clone();
        if when == "before" {
            drop_it();
        }
        graph.replay(&worker.stream)?;
        if when == "during" {
            drop_it();
        }
        // What the engine allocates next would lie where the weight was.
        let other = worker
            .engine
            .alloc_zeros::<u8>((2 * ROWS * WIDTH) as usize)?;
        graph.replay(&worker.stream)?;
        worker.engine.synchronize()?;
        if when == "after" {
            worker.weight = empty;
        }
        let out = bits(&worker.engine.clone_dtoh(&*worker.out)?);
        ensure(out == expected, || format!("{when}: the bits differ"))?;
        drop(other);
        ensure(watch.strong_count() == 1, || {
            format!(
                "{when}: {} hold the weight, not the graph alone",
                watch.strong_count()
            )
        })?;
        drop(graph);
        device.synchronize()?;
        ensure(watch.strong_count() == 0, || {
            format!("{when}: the weight is still held")
        })?;
    }
    Ok(())
}
