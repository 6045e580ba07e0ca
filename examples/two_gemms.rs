//! Two captured streams that run a library's products at once, at batches of 33 to 64.
//!
//! A library with one workspace for all its streams makes such products wrong at replay,
//! and engines refuse to overlap them. Here each product takes its workspace from the
//! scratch of the stream that it is launched on, and the capture is proved (R11 is the
//! rule about state that a library shares). The results are those of one stream, bit by
//! bit, and on a GPU the time of both is printed.
//!
//! `cargo run --example two_gemms` on the simulated device,
//! `cargo run --release --example two_gemms -- --device cuda:0` on a GPU.

// Nobody but this program sees its items.
#![allow(missing_docs, unreachable_pub)]

use std::error::Error;
use std::process::ExitCode;

use half::bf16;
use streamweir::driver::Backend;
use streamweir::kernels::gemm::{Gemm, GemmLibrary, GemmOptions, GemmShape};
use streamweir::{CaptureOptions, Device, Graph, Persistent, Stream, Verify, part};

/// Sizes that a device runs: the width of the products, and how many follow each other
/// on each of the two streams.
pub struct Sizes {
    width: u32,
    chain: usize,
    replays: usize,
}

impl Sizes {
    /// For the simulated device, and for a GPU.
    pub const SMALL: Self = Self {
        width: 16,
        chain: 3,
        replays: 3,
    };
    pub const LARGE: Self = Self {
        width: 2048,
        chain: 16,
        replays: 100,
    };
}

/// One of the two chains: weights, input and output.
struct Chain {
    weights: Vec<Persistent<bf16>>,
    input: Persistent<bf16>,
    output: Persistent<bf16>,
}

const BATCHES: [u32; 5] = [33, 40, 48, 56, 64];

impl Chain {
    fn new(device: &Device, sizes: &Sizes, name: &str) -> streamweir::Result<Self> {
        let width = sizes.width as usize;
        // About as large after a product as before it.
        let scale = 1.0 / (18.0 * (width as f32).sqrt());
        let value = |at: usize| ((at * 7919 + name.len()) % 61) as f32 - 30.0;
        let weight = |at: usize| bf16::from_f32(scale * value(at));
        let values: Vec<bf16> = (0..width * width).map(weight).collect();
        let weights = (0..sizes.chain)
            .map(|at| device.persistent_from(&format!("{name}/weight {at}"), &values));
        let input = |at: usize| bf16::from_f32(value(at) / 18.0);
        let inputs: Vec<bf16> = (0..BATCHES[4] as usize * width).map(input).collect();
        Ok(Self {
            weights: weights.collect::<streamweir::Result<_>>()?,
            input: device.persistent_from(&format!("{name}/input"), &inputs)?,
            output: device.persistent(&format!("{name}/output"), inputs.len())?,
        })
    }

    /// The products of the chain, each of what the one before it gave.
    fn record(&self, stream: &Stream, gemm: &Gemm<bf16>) -> streamweir::Result<()> {
        let len = gemm.shape().y_len();
        let mut x = stream.scratch::<bf16>("x", len)?;
        stream.copy(&x, part(&self.input, 0..len)?)?;
        for weight in &self.weights {
            let y = stream.scratch::<bf16>("y", len)?;
            gemm.launch(stream, &x, weight, &y)?;
            x = y;
        }
        stream.copy(part(&self.output, 0..len)?, &x)
    }
}

fn capture(
    device: &Device,
    chains: &[Chain; 2],
    gemm: &Gemm<bf16>,
    overlap: bool,
) -> Result<Graph, streamweir::Error> {
    let tokens = gemm.shape().tokens;
    // begin: docs/engines.md, two products at once
    let options = CaptureOptions::new(format!("batch of {tokens}")).verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, streamweir::Error>(options, |cap| {
        let main = cap.origin();
        let side = cap.fork_if(overlap, &main, "side")?;
        chains[1].record(&side, gemm)?; // one product, and a workspace of either stream
        chains[0].record(&main, gemm)?;
        cap.join(&main, side)?;
        Ok(())
    })?;
    // end: docs/engines.md, two products at once
    Ok(graph)
}

/// The median of replays, where the device has a clock.
fn us(device: &Device, graph: &Graph, replays: usize) -> Result<f64, streamweir::Error> {
    let stream = device.stream("replay")?;
    let [begin, end] = [device.event("begin")?, device.event("end")?];
    let mut times = Vec::new();
    for _ in 0..replays {
        stream.record(&begin)?;
        graph.replay(&stream)?;
        stream.record(&end)?;
        stream.synchronize()?;
        times.push(f64::from(begin.elapsed_ms(&end)?) * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn results(
    device: &Device,
    chains: &[Chain; 2],
    graph: &Graph,
) -> streamweir::Result<[Vec<bf16>; 2]> {
    let stream = device.stream("replay")?;
    graph.replay(&stream)?;
    let [main, side] = chains;
    Ok([main.output.download()?, side.output.download()?])
}

/// Whether both chains give at every batch what they give on one stream.
pub fn run(device: &Device, sizes: &Sizes) -> Result<bool, Box<dyn Error>> {
    let library = GemmLibrary::new(device)?;
    let chains = [
        Chain::new(device, sizes, "main")?,
        Chain::new(device, sizes, "side")?,
    ];
    let mut all_equal = true;
    println!("{}", device.info().name);
    for tokens in BATCHES {
        let shape = GemmShape::new(tokens, sizes.width, sizes.width);
        let gemm = library.gemm(shape, GemmOptions::default())?;
        let off = capture(device, &chains, &gemm, false)?;
        let on = capture(device, &chains, &gemm, true)?;
        let expected = results(device, &chains, &off)?;
        let mut wrong = 0;
        for _ in 0..sizes.replays {
            wrong += usize::from(results(device, &chains, &on)? != expected);
        }
        all_equal &= wrong == 0 && on.certificate().is_some();
        print!(
            "batch {tokens}: {wrong} of {} replays wrong, proved",
            sizes.replays
        );
        if device.info().backend == Backend::Cuda {
            let [off, on] = [us(device, &off, 200)?, us(device, &on, 200)?];
            print!(
                ", {off:.1} us without overlap, {on:.1} with: {:.3}x",
                off / on
            );
        }
        println!();
    }
    Ok(all_equal)
}

fn open() -> Result<(Device, Sizes), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = match arguments.next().as_deref() {
        None => "sim".to_owned(),
        Some("--device") => arguments.next().ok_or("--device takes sim or cuda:N")?,
        Some(other) => return Err(format!("{other} is no option; --device sim|cuda:N is").into()),
    };
    match device.strip_prefix("cuda:") {
        #[cfg(feature = "cuda")]
        Some(ordinal) => Ok((Device::cuda(ordinal.parse()?)?, Sizes::LARGE)),
        None if device == "sim" => Ok((Device::sim(1), Sizes::SMALL)),
        _ => Err(format!("there is no device {device}").into()),
    }
}

fn main() -> ExitCode {
    match open().and_then(|(device, sizes)| run(&device, &sizes)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
