//! An engine with a context, streams and memory of its own.

mod attach;
mod ops;
mod worker;

use std::sync::Arc;

use streamweir::cudarc::driver::CudaContext;
use streamweir::driver::StreamHandle;
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::add_one;
use streamweir::{Device, DeviceStream, EngineError, Error, Persistent};

use super::{Outcome, Test, ensure, refused};

pub(crate) const TESTS: &[Test] = &[
    ("a_slice_is_replayed_on_without_a_copy", slice),
    ("many_slices_are_adopted_at_once_or_none", many),
    ("memory_given_by_its_address_is_kept", raw_memory),
    ("the_default_streams_are_refused", default_streams),
    ("a_capture_of_the_engine_is_joined", attach::joined),
    ("attaching_needs_a_capture", attach::without_capture),
    (
        "slices_whose_events_break_a_capture_are_named",
        attach::tracked,
    ),
    (
        "memory_that_the_engine_allocates_in_its_capture_is_judged",
        attach::allocates,
    ),
    ("memory_that_the_engine_has_freed_is_named", attach::freed),
    ("threads_capture_on_streams_of_their_own", worker::threads),
    ("slices_may_be_dropped_at_any_time", worker::drops),
    ("ops_over_cudarcs_slices_are_proved", ops::copies),
    (
        "a_context_that_tracks_slices_is_refused",
        ops::tracked_contexts,
    ),
    (
        "cublas_has_a_handle_and_a_workspace_for_each_stream",
        ops::cublas,
    ),
];

const LEN: usize = 4096;

fn slice(_: &Device, image: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    let slice = Arc::new(engine.clone_htod(&vec![40u32; LEN])?);
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let data = Persistent::from_cudarc(&device, "engine slice", &slice)?;
    let bump = image.load(&device)?.kernel::<add_one>()?;
    let (graph, ()) = device.capture("adopted", |cap| {
        let main = cap.origin();
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )
    })?;
    drop(data);
    graph.replay(&stream)?;
    graph.replay(&stream)?;
    let values = engine.clone_dtoh(&*slice)?;
    ensure(values == vec![42; LEN], || format!("{:?}...", &values[..4]))?;
    // The graph still holds the slice; when it goes, nobody else does.
    drop(graph);
    device.synchronize()?;
    ensure(Arc::strong_count(&slice) == 1, || {
        "the slice is held by nobody's graph".into()
    })
}

fn many(_: &Device, _: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let device = Device::from_cudarc(&context)?;
    let streams = [context.new_stream()?, context.new_stream()?];
    let mut slices = Vec::new();
    for i in 0..100 {
        slices.push(Arc::new(streams[i % 2].clone_htod(&vec![i as u32; LEN])?));
    }
    let names: Vec<String> = (0..slices.len()).map(|i| format!("tensor {i}")).collect();
    let named: Vec<_> = names.iter().map(String::as_str).zip(&slices).collect();
    let buffers = Persistent::from_cudarc_many(&device, &named)?;
    for (i, buffer) in buffers.iter().enumerate() {
        ensure(buffer.name() == names[i], || buffer.name().to_owned())?;
        ensure(buffer.download()? == vec![i as u32; LEN], || {
            format!("{}: other contents", buffer.name())
        })?;
    }
    // One that is registered already: none of that call's stays.
    let new = Arc::new(streams[0].clone_htod(&[1_u32])?);
    let twice = [("new", &new), ("twice", &slices[3])];
    let refused = refused(
        Persistent::from_cudarc_many(&device, &twice),
        "a slice that is registered already",
    )?;
    ensure(refused.to_string().contains("twice"), || {
        refused.to_string()
    })?;
    Persistent::from_cudarc(&device, "new", &new)?;
    Ok(())
}

fn raw_memory(device: &Device, image: &Image) -> Outcome {
    let bytes = LEN as u64 * 4;
    let address = crate::driver()?.mem_alloc(bytes)?;
    let keep: Arc<()> = Arc::new(());
    // SAFETY: the memory lives to the end of this function, past every replay.
    let data = unsafe { Persistent::<u32>::from_raw(device, address, LEN, "raw", keep.clone()) }?;
    let bump = image.load(device)?.kernel::<add_one>()?;
    let (graph, ()) = device.capture("raw", |cap| {
        let main = cap.origin();
        main.fill(&data, 0)?;
        main.launch(
            &bump,
            add_one {
                data: &data,
                len: LEN as u32,
            },
        )
    })?;
    graph.replay(&device.stream("replay")?)?;
    ensure(data.download()? == vec![1; LEN], || {
        "the result is wrong".into()
    })?;
    drop((data, graph));
    device.synchronize()?;
    ensure(Arc::strong_count(&keep) == 1, || {
        "the memory is still held".into()
    })?;
    // SAFETY: nothing refers to it any more.
    Ok(unsafe { crate::driver()?.mem_free(address) }?)
}

fn default_streams(_: &Device, _: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let device = Device::from_cudarc(&context)?;
    let adopted = DeviceStream::from_cudarc(&device, "default", &context.default_stream());
    let error = refused(adopted, "the legacy default stream")?;
    ensure(error.to_string().contains("default stream"), || {
        error.to_string()
    })?;
    for raw in 0..3 {
        // SAFETY: the default streams live as long as the context.
        let adopted = unsafe {
            DeviceStream::from_raw(&device, "default", StreamHandle(raw), context.clone())
        };
        let error = refused(adopted, "a default stream")?;
        ensure(
            matches!(error, Error::Engine(EngineError::LegacyStream { .. })),
            || error.to_string(),
        )?;
    }
    Ok(())
}
