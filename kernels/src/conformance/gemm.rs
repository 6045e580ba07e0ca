//! Matrix products on either backend: eager, captured, planned.

use std::num::NonZeroU32;

use half::bf16;
use streamweir_sched::{Capture, CaptureOptions, Device, Persistent};

use super::Failure;
use super::bench::close_to;
use super::random::Random;
use crate::gemm::{Gemm, GemmLibrary, GemmOptions, GemmOutput, GemmShape};
use crate::reference;

/// Places of an output that are held against the reference.
const SAMPLES: u64 = 512;

/// Multiprocessors of a product that leaves room.
const FEW: NonZeroU32 = NonZeroU32::new(16).expect("not zero");

/// Products of these sizes, bf16 and f32 out, on random inputs from `seed`, by each
/// algorithm that is proposed for all multiprocessors and for few: each run eagerly,
/// captured as it is recorded, and captured in whole, twice each. All runs of an
/// algorithm have the same bits and are near the reference, in no more workspace than
/// was allowed.
///
/// # Errors
/// What differs, or the call that failed.
pub fn gemm(device: &Device, shape: GemmShape, seed: u64) -> Result<(), Failure> {
    let library = GemmLibrary::new(device)?;
    product::<bf16>(device, &library, shape, seed, 1e-2)?;
    product::<f32>(device, &library, shape, seed.wrapping_add(1), 1e-4)
}

fn product<O: GemmOutput + Into<f64>>(
    device: &Device,
    library: &GemmLibrary,
    shape: GemmShape,
    seed: u64,
    tolerance: f64,
) -> Result<(), Failure> {
    let mut random = Random(seed);
    let x = random.halves(shape.x_len());
    let weight = random.halves(shape.weight_len());
    let buffers = Buffers {
        x: device.persistent_from("x", &x)?,
        weight: device.persistent_from("weight", &weight)?,
        y: device.persistent("y", shape.y_len())?,
    };
    let places = (0..SAMPLES).map(|_| (random.next() % shape.y_len() as u64) as usize);
    let expected: Vec<(usize, f64)> = places
        .map(|at| {
            let (width, rows) = (shape.width as usize, shape.rows as usize);
            // A token's groups lie side by side.
            let (in_token, row) = (at / rows, at % rows);
            let group = in_token % shape.groups as usize;
            let sum = reference::dot(
                &x[in_token * width..][..width],
                &weight[(group * rows + row) * width..][..width],
            );
            (at, sum)
        })
        .collect();
    for multiprocessors in [None, Some(FEW)] {
        let options = GemmOptions {
            multiprocessors,
            ..GemmOptions::default()
        };
        for (nth, gemm) in library.proposals::<O>(shape, options)?.iter().enumerate() {
            let of = |error| Failure::new(format!("proposal {nth} with {options:?}: {error}"));
            if gemm.workspace() > options.workspace {
                return Err(of(Failure::new(format!("{} bytes", gemm.workspace()))));
            }
            let y = buffers.all_runs(device, gemm).map_err(of)?;
            let (found, sums): (Vec<f64>, Vec<f64>) = (expected.iter())
                .map(|&(at, sum)| (y[at].into(), sum))
                .unzip();
            close_to(&found, &sums, tolerance).map_err(of)?;
        }
    }
    Ok(())
}

struct Buffers<O: GemmOutput> {
    x: Persistent<bf16>,
    weight: Persistent<bf16>,
    y: Persistent<O>,
}

impl<O: GemmOutput> Buffers<O> {
    /// The output, the same of an eager run and of either capture.
    fn all_runs(&self, device: &Device, gemm: &Gemm<O>) -> Result<Vec<O>, Failure> {
        let record = |cap: &Capture| gemm.launch(&cap.origin(), &self.x, &self.weight, &self.y);
        let first = self.run(|| device.eager("eager product", record).map(|_| ()))?;
        let stream = device.stream("products")?;
        let options = CaptureOptions::new("product");
        for options in [options.clone(), options.planned()] {
            let (graph, ()) = device.capture(options, record)?;
            for _ in 0..2 {
                let again = self.run(|| {
                    graph.replay(&stream)?;
                    stream.synchronize()
                })?;
                if bytemuck::cast_slice::<O, u8>(&again) != bytemuck::cast_slice::<O, u8>(&first) {
                    return Err(Failure::new("a captured product has other bits"));
                }
            }
        }
        Ok(first)
    }

    /// What `work` makes of a poisoned output.
    fn run(&self, work: impl FnOnce() -> streamweir_sched::Result<()>) -> Result<Vec<O>, Failure> {
        let poison = vec![0xff_u8; self.y.len() * size_of::<O>()];
        self.y.upload(bytemuck::cast_slice(&poison))?;
        work()?;
        Ok(self.y.download()?)
    }
}
