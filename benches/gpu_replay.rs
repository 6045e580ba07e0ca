//! Our graph against the same graph made by hand with raw driver calls, on a
//! GPU: nodes, edges, host time of a submission, time on the device.
//!
//! The two are submitted in turn, in one run; the table has medians.

mod common;

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use common::Outcome;
use streamweir::driver::cuda::CudaDriver;
use streamweir::driver::{
    CaptureCalls, CaptureMode, EventScope, ExecHandle, GraphCalls, LaunchShape, MemoryCalls,
    ModuleCalls, ModuleHandle, Start, StreamCalls,
};
use streamweir::kernels::dsv4::{self, testing::add_one};
use streamweir::{Device, DeviceStream, Graph};

/// Layers; each has work on two streams, a fork and a join.
const LAYERS: usize = 64;
/// Launches on each stream of a layer.
const PER_STREAM: usize = 4;
/// Elements of each buffer.
const LEN: usize = 1 << 12;
/// Submissions of each graph.
const ROUNDS: usize = 2001;

fn main() -> Outcome {
    common::on_a_gpu(measure)
}

fn measure(device: Device) -> Outcome {
    let (ours, our_times) = captured(&device)?;
    let (hand, hand_times) = ByHand::new(&device)?;

    let stream = device.stream("bench")?;
    let [begin, end] = [device.event("begin")?, device.event("end")?];
    ours.upload(&stream)?;
    let mut host = [Vec::new(), Vec::new()];
    let mut gpu = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS * 2 {
        // Which goes first changes with every pair.
        let which = (round + round / 2) % 2;
        stream.record(&begin)?;
        let start = Instant::now();
        if which == 0 {
            ours.replay(&stream)?
        } else {
            hand.launch(&stream)?
        }
        let spent = start.elapsed();
        stream.record(&end)?;
        stream.synchronize()?;
        host[which].push(spent.as_secs_f64() * 1e6);
        gpu[which].push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
    }
    let [ours_host, hand_host] = host.map(median);
    let [ours_gpu, hand_gpu] = gpu.map(median);
    let trace = ours.trace();
    println!(
        "{} on {}, {ROUNDS} submissions of each",
        device.info().name,
        device.info().backend
    );
    println!("| graph | nodes | edges | submit, us | on the device, us |");
    println!("| --- | --- | --- | --- | --- |");
    println!(
        "| streamweir | {} | {} | {ours_host:.2} | {ours_gpu:.1} |",
        trace.nodes.len(),
        trace.edges.len()
    );
    println!(
        "| by hand | {} | {} | {hand_host:.2} | {hand_gpu:.1} |",
        hand.nodes, hand.edges
    );
    println!(
        "| ratio | | | {:.3} | {:.3} |",
        ours_host / hand_host,
        ours_gpu / hand_gpu
    );
    println!("| made once | record, ms | end, ms |");
    println!("| --- | --- | --- |");
    for (graph, [record, end]) in [("streamweir", our_times), ("by hand", hand_times)] {
        println!("| {graph} | {record:.2} | {end:.2} |");
    }
    if (trace.nodes.len(), trace.edges.len()) != (hand.nodes, hand.edges) {
        return Err("the two graphs are not the same".into());
    }
    hand.release()
}

/// Milliseconds to record the work, and from there to a graph that can be
/// launched: for ours that is read-back, proof and instantiation.
type Times = [f64; 2];

fn captured(device: &Device) -> Outcome<(Graph, Times)> {
    let module = dsv4::load(device)?;
    let bump = module.kernel::<add_one>()?;
    let [left, right] = [
        device.persistent::<u32>("left", LEN)?,
        device.persistent("right", LEN)?,
    ];
    let start = Instant::now();
    let cap = device.begin("bench")?;
    let main = cap.origin();
    for _ in 0..LAYERS {
        let side = cap.fork(&main, "side")?;
        for _ in 0..PER_STREAM {
            side.launch(
                &bump,
                add_one {
                    data: &right,
                    len: LEN as u32,
                },
            )?;
        }
        for _ in 0..PER_STREAM {
            main.launch(
                &bump,
                add_one {
                    data: &left,
                    len: LEN as u32,
                },
            )?;
        }
        cap.join(&main, side)?;
    }
    drop(main);
    let record = milliseconds(start);
    let start = Instant::now();
    let graph = cap.end()?;
    Ok((graph, [record, milliseconds(start)]))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The same graph, as somebody makes it who writes driver calls.
struct ByHand<'a> {
    driver: Arc<CudaDriver>,
    device: &'a Device,
    exec: ExecHandle,
    module: ModuleHandle,
    buffers: [u64; 2],
    nodes: usize,
    edges: usize,
}

impl<'a> ByHand<'a> {
    fn new(device: &'a Device) -> Outcome<(Self, Times)> {
        // In the primary context, as the device is.
        let driver = CudaDriver::open(0)?;
        let module = driver.module_load(&*dsv4::image(device.info())?)?;
        let buffers = [
            driver.mem_alloc(LEN as u64 * 4)?,
            driver.mem_alloc(LEN as u64 * 4)?,
        ];
        let [main, side] = [driver.stream_create(0)?, driver.stream_create(0)?];
        let event = driver.event_create(false)?;
        let shape = add_one::shape(LEN as u32)?;
        // SAFETY: all handles were made above; those that the graph needs live
        // until `release`.
        unsafe {
            let function = driver.module_function(module, "add_one")?;
            let launch = |stream, mut buffer: u64, shape: LaunchShape| {
                let mut len = LEN as u32;
                let mut params: [*mut c_void; 2] =
                    [(&raw mut buffer).cast(), (&raw mut len).cast()];
                driver.launch(stream, function, shape, Start::InOrder, &mut params)
            };
            let start = Instant::now();
            driver.capture_begin(main, CaptureMode::ThreadLocal)?;
            for _ in 0..LAYERS {
                driver.event_record(event, main, EventScope::Internal)?;
                driver.stream_wait(side, event, EventScope::Internal)?;
                for _ in 0..PER_STREAM {
                    launch(side, buffers[1], shape)?;
                }
                for _ in 0..PER_STREAM {
                    launch(main, buffers[0], shape)?;
                }
                driver.event_record(event, side, EventScope::Internal)?;
                driver.stream_wait(main, event, EventScope::Internal)?;
            }
            let record = milliseconds(start);
            let start = Instant::now();
            let graph = driver.capture_end(main)?;
            let exec = driver.graph_instantiate(graph)?;
            let times = [record, milliseconds(start)];
            let (nodes, edges) = (
                driver.graph_nodes(graph)?.len(),
                driver.graph_edges(graph)?.len(),
            );
            driver.graph_destroy(graph)?;
            driver.event_destroy(event)?;
            driver.stream_destroy(main)?;
            driver.stream_destroy(side)?;
            let hand = Self {
                driver,
                device,
                exec,
                module,
                buffers,
                nodes,
                edges,
            };
            Ok((hand, times))
        }
    }

    fn launch(&self, stream: &DeviceStream) -> Outcome<()> {
        // SAFETY: the exec, its module and its memory live until `release`.
        Ok(unsafe { self.driver.exec_launch(self.exec, stream.raw()) }?)
    }

    fn release(self) -> Outcome<()> {
        self.device.synchronize()?;
        let driver = self.driver;
        // SAFETY: the work has ended and this is the last use.
        unsafe {
            driver.exec_destroy(self.exec)?;
            driver.module_unload(self.module)?;
            driver.mem_free(self.buffers[0])?;
            driver.mem_free(self.buffers[1])?;
        }
        Ok(())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
