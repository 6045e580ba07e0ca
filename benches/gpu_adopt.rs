//! What it costs to adopt an engine's stream and its tensors: host time, with
//! nothing enqueued. cudarc tracks the use of tensors by events, or does not.

use std::sync::Arc;
use std::time::Instant;

use streamweir::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use streamweir::doctor::CudaReport;
use streamweir::{Device, DeviceStream, Persistent};

/// Tensors of a step.
const TENSORS: usize = 100;
/// Elements of each.
const LEN: usize = 1 << 10;
/// Adoptions; the table has medians.
const ROUNDS: usize = 501;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
type Named<'a> = [(&'a str, &'a Arc<CudaSlice<f32>>)];
type Adopt<'a> = dyn Fn(&Named<'_>) -> streamweir::Result<Vec<Persistent<f32>>> + 'a;

fn main() -> Outcome<()> {
    // `CudaContext::new` panics where there is no driver, so this asks first.
    let found = CudaReport::survey();
    if found.devices.is_empty() {
        if std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1") {
            return Err(found.to_string().into());
        }
        println!("not run: {found}");
        return Ok(());
    }
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    let device = Device::from_cudarc(&context)?;
    println!(
        "a stream and {TENSORS} tensors on {}, median of {ROUNDS}",
        device.info().name
    );
    println!("| adopted | events of cudarc | us |");
    println!("| --- | --- | --- |");
    for tracking in [true, false] {
        // SAFETY: one stream uses the slices, and orders them.
        unsafe {
            if tracking {
                context.enable_event_tracking();
            } else {
                context.disable_event_tracking();
            }
        }
        table(&device, &engine, if tracking { "on" } else { "off" })?;
    }
    Ok(())
}

fn table(device: &Device, engine: &Arc<CudaStream>, tracking: &str) -> Outcome<()> {
    let names: Vec<String> = (0..TENSORS).map(|i| format!("tensor {i}")).collect();
    let slices = (0..TENSORS)
        .map(|_| Ok(Arc::new(engine.alloc_zeros::<f32>(LEN)?)))
        .collect::<Outcome<Vec<_>>>()?;
    let named: Vec<_> = names.iter().map(String::as_str).zip(&slices).collect();
    let one_by_one = |named: &Named<'_>| {
        named
            .iter()
            .map(|(name, slice)| Persistent::from_cudarc(device, name, slice))
            .collect()
    };
    let together = |named: &Named<'_>| Persistent::from_cudarc_many(device, named);
    let ways: [(&str, &Adopt<'_>); 2] = [("one by one", &one_by_one), ("together", &together)];
    for (how, adopt) in ways {
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            engine.synchronize()?;
            let start = Instant::now();
            let stream = DeviceStream::from_cudarc(device, "engine", engine)?;
            let buffers = adopt(&named)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            assert_eq!(buffers.len(), TENSORS);
            drop((stream, buffers));
        }
        times.sort_by(f64::total_cmp);
        println!("| {how} | {tracking} | {:.1} |", times[ROUNDS / 2]);
    }
    Ok(())
}
