//! Eager runs against the same kernels launched by hand, on a GPU.
//!
//! A layer of DeepSeek-V4 Flash, recorded twice: by [`Device::eager`], over and over,
//! and once into a capture that is begun and ended by raw calls, of whose graph every
//! node is then launched with the driver's own parameters for it: function, shape,
//! arguments, clusters. So both arms launch the same kernels, those of libraries
//! included, one after the other on one stream. The arms run in turn; the table has
//! medians of the host's time to enqueue, and of the time until the device has ended.

mod common;

use std::mem::MaybeUninit;
use std::time::Instant;

use common::Outcome;
use streamweir::cudarc::driver::sys;
use streamweir::driver::cuda::CudaDriver;
use streamweir::driver::{CaptureCalls, CaptureMode, GraphCalls, NodeHandle};
use streamweir::{CaptureOptions, Device, DeviceStream};
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Engine, Exec, IndexKeys, Overlap, PAGE_TOKENS, Packing, Pools, Row,
    Setup,
};

const CONTEXT: u32 = 16_384;
const ROUNDS: usize = 301;

fn main() -> Outcome {
    common::on_a_gpu(measure)
}

fn measure(device: Device) -> Outcome {
    println!("{} on {}", device.info().name, device.info().backend);
    println!("| layers | rows | nodes | arm | enqueue, us | until it has ended, us |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for layers in [1, 4] {
        for rows in [1, 16, 64] {
            step(&device, layers, rows)?;
        }
    }
    Ok(())
}

fn setup(layers: u32, rows: u32) -> Setup {
    Setup {
        config: Config {
            layers,
            max_context: CONTEXT,
            ..Config::FLASH
        },
        index_keys: IndexKeys::Bf16,
        buckets: vec![rows],
        capacity: Capacity {
            sequences: rows,
            pages: 1 + rows * CONTEXT.div_ceil(PAGE_TOKENS),
            rows,
        },
        packing: Packing::Planned,
        programmatic: false,
        seed: 1,
    }
}

fn step(device: &Device, layers: u32, rows: u32) -> Outcome {
    // The largest batch has room for short sequences.
    let context = if rows > 16 { 1024 } else { CONTEXT };
    let mut setup = setup(layers, rows);
    setup.config.max_context = context;
    setup.capacity.pages = 1 + rows * context.div_ceil(PAGE_TOKENS);
    let mut engine = Engine::new(device, setup)?;
    let mut pages = engine.reset()?;
    let mut sequences = Vec::new();
    for _ in 0..rows {
        let mut sequence = pages.begin()?;
        pages.grow(&mut sequence, context)?;
        sequences.push(sequence);
    }
    let batch: Vec<_> = (sequences.iter())
        .map(|sequence| Row { sequence, token: 1 })
        .collect();
    let arm = Arm {
        overlap: Overlap::Off,
        pools: Pools::Tagged,
        exec: Exec::Eager,
    };
    // The inputs are written once and stay where they are.
    engine.prepare(arm)?.step(&batch)?;
    device.synchronize()?;

    let stream = device.stream("by hand")?;
    let hand = ByHand::new(device, &engine, rows, &stream)?;
    let mut times = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let mut like = 0;
    for round in 0..ROUNDS * 2 {
        // Which goes first changes with every pair.
        let which = (round + round / 2) % 2;
        let start = Instant::now();
        if which == 0 {
            let record = |run: &_| engine.record_step(run, rows, Overlap::Off);
            let (run, ()) = device.eager("step", record)?;
            like += usize::from(run.is_like_the_last());
        } else {
            hand.launch(&stream)?;
        }
        times[which][0].push(start.elapsed().as_secs_f64() * 1e6);
        device.synchronize()?;
        times[which][1].push(start.elapsed().as_secs_f64() * 1e6);
    }
    let [eager, by_hand] = times.map(|times| times.map(median));
    let nodes = hand.nodes.len();
    for (arm, [enqueue, ended]) in [("streamweir", eager), ("by hand", by_hand)] {
        println!("| {layers} | {rows} | {nodes} | {arm} | {enqueue:.1} | {ended:.1} |");
    }
    println!(
        "| {layers} | {rows} | | ratio | {:.3} | {:.3} |",
        eager[0] / by_hand[0],
        eager[1] / by_hand[1]
    );
    if like + 3 < ROUNDS {
        return Err(format!("only {like} of {ROUNDS} runs were like the last").into());
    }
    hand.release(device)
}

/// The nodes of a step, as somebody launches them who writes driver calls.
struct ByHand {
    driver: std::sync::Arc<CudaDriver>,
    graph: streamweir::driver::GraphHandle,
    nodes: Vec<Node>,
}

enum Node {
    Kernel {
        params: sys::CUDA_KERNEL_NODE_PARAMS,
        /// None, or the dimensions of its clusters.
        cluster: Option<sys::CUlaunchAttribute>,
    },
    Fill(sys::CUDA_MEMSET_NODE_PARAMS),
    /// A row of bytes on the device.
    Copy(sys::CUDA_MEMCPY3D),
}

impl ByHand {
    fn new(device: &Device, engine: &Engine, rows: u32, stream: &DeviceStream) -> Outcome<Self> {
        // In the primary context, as the device is.
        let driver = CudaDriver::open(0)?;
        // SAFETY: the stream is live, and what the part records is tied to the graph,
        // which lives until `release`.
        let graph = unsafe {
            driver.capture_begin(stream.raw(), CaptureMode::ThreadLocal)?;
            let attached = device.attach(stream, CaptureOptions::new("by hand"))?;
            engine.record_step(&attached, rows, Overlap::Off)?;
            attached.detach()?;
            driver.capture_end(stream.raw())?
        };
        // SAFETY: the graph is live; one stream has recorded it, so the driver lists it
        // in the order of the recording.
        let handles = unsafe { driver.graph_nodes(graph) }?;
        let nodes = handles
            .into_iter()
            // SAFETY: nodes of this graph, whose context the driver has made current.
            .map(|node| unsafe { Node::of(node) })
            .collect::<Outcome<_>>()?;
        Ok(Self {
            driver,
            graph,
            nodes,
        })
    }

    fn launch(&self, stream: &DeviceStream) -> Outcome {
        let raw = stream.raw().0 as sys::CUstream;
        // SAFETY: the graph owns the arguments, and keeps what they point to.
        (self.nodes.iter()).try_for_each(|node| unsafe { node.launch(raw) })
    }

    fn release(self, device: &Device) -> Outcome {
        device.synchronize()?;
        // SAFETY: the work has ended and this is the last use.
        unsafe { self.driver.graph_destroy(self.graph) }?;
        device.collect();
        Ok(())
    }
}

impl Node {
    /// # Safety
    /// A node of a live graph, whose context is current.
    unsafe fn of(node: NodeHandle) -> Outcome<Self> {
        use sys::CUgraphNodeType_enum as Type;

        let raw = node.0 as sys::CUgraphNode;
        let mut kind = Type::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: by the caller; the driver fills what it is given.
        unsafe {
            sys::cuGraphNodeGetType(raw, &raw mut kind).result()?;
            match kind {
                Type::CU_GRAPH_NODE_TYPE_KERNEL => {
                    let mut params = MaybeUninit::zeroed();
                    sys::cuGraphKernelNodeGetParams_v2(raw, params.as_mut_ptr()).result()?;
                    Ok(Self::Kernel {
                        params: params.assume_init(),
                        cluster: cluster(raw)?,
                    })
                }
                Type::CU_GRAPH_NODE_TYPE_MEMSET => {
                    let mut params = MaybeUninit::zeroed();
                    sys::cuGraphMemsetNodeGetParams(raw, params.as_mut_ptr()).result()?;
                    Ok(Self::Fill(params.assume_init()))
                }
                Type::CU_GRAPH_NODE_TYPE_MEMCPY => {
                    let mut params = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
                    sys::cuGraphMemcpyNodeGetParams(raw, params.as_mut_ptr()).result()?;
                    let params = params.assume_init();
                    match (params.Height, params.Depth) {
                        (0 | 1, 0 | 1) => Ok(Self::Copy(params)),
                        rows => Err(format!("a step has a copy of {rows:?} rows").into()),
                    }
                }
                other => Err(format!("a step has a node of kind {other:?}").into()),
            }
        }
    }

    /// # Safety
    /// The graph of the node is live, and so is the stream.
    unsafe fn launch(&self, stream: sys::CUstream) -> Outcome {
        // SAFETY: by the caller; what is pointed to lives until the calls return.
        unsafe {
            match self {
                Self::Kernel { params, cluster } => {
                    let mut attribute = *cluster;
                    let config = sys::CUlaunchConfig {
                        gridDimX: params.gridDimX,
                        gridDimY: params.gridDimY,
                        gridDimZ: params.gridDimZ,
                        blockDimX: params.blockDimX,
                        blockDimY: params.blockDimY,
                        blockDimZ: params.blockDimZ,
                        sharedMemBytes: params.sharedMemBytes,
                        hStream: stream,
                        attrs: attribute.as_mut().map_or(std::ptr::null_mut(), |it| it),
                        numAttrs: u32::from(cluster.is_some()),
                    };
                    // A kernel of a library is launched by its own handle.
                    let function = match params.func.is_null() {
                        true => params.kern.cast(),
                        false => params.func,
                    };
                    let (args, extra) = (params.kernelParams, params.extra);
                    sys::cuLaunchKernelEx(&raw const config, function, args, extra).result()?;
                }
                Self::Fill(fill) => {
                    let bytes = fill.width * fill.elementSize as usize;
                    let value = fill.value as u8;
                    sys::cuMemsetD8Async(fill.dst, value, bytes, stream).result()?;
                }
                Self::Copy(copy) => {
                    let to = copy.dstDevice + copy.dstXInBytes as u64;
                    let from = copy.srcDevice + copy.srcXInBytes as u64;
                    sys::cuMemcpyAsync(to, from, copy.WidthInBytes, stream).result()?;
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// A kernel node of a live graph, whose context is current.
unsafe fn cluster(node: sys::CUgraphNode) -> Outcome<Option<sys::CUlaunchAttribute>> {
    let id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    let mut value = MaybeUninit::<sys::CUlaunchAttributeValue>::zeroed();
    // SAFETY: by the caller; the driver fills the member that the id names.
    let value = unsafe {
        sys::cuGraphKernelNodeGetAttribute(node, id, value.as_mut_ptr()).result()?;
        value.assume_init()
    };
    // SAFETY: as above.
    let dims = unsafe { value.clusterDim };
    let is_set = dims.x * dims.y * dims.z > 1;
    Ok(is_set.then_some(sys::CUlaunchAttribute {
        id,
        pad: [0; 4],
        value,
    }))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
