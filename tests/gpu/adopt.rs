//! An engine with a context, streams and memory of its own.

use std::sync::Arc;

use streamweir::cudarc::driver::{CudaContext, sys};
use streamweir::driver::{ModuleImage, StreamHandle};
use streamweir::kernels::dsv4::add_one;
use streamweir::verify::Verdict;
use streamweir::{Device, DeviceStream, Error, Persistent};

use super::{Outcome, Test, ensure, refused};

pub(crate) const TESTS: &[Test] = &[
    ("a_slice_is_replayed_on_without_a_copy", slice),
    ("memory_given_by_its_address_is_kept", raw_memory),
    ("the_default_streams_are_refused", default_streams),
    ("a_capture_of_the_engine_is_joined", attach),
    ("attaching_needs_a_capture", attach_without_capture),
    ("slices_whose_events_break_a_capture_are_named", tracked),
];

const LEN: usize = 4096;

fn slice(_: &Device, image: &ModuleImage) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    let slice = Arc::new(engine.clone_htod(&vec![40u32; LEN])?);
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let data = Persistent::from_cudarc(&device, "engine slice", &slice)?;
    let bump = device.load(image)?.kernel::<add_one>()?;
    let (graph, ()) = device.capture("adopted", |cap| {
        let main = cap.origin();
        main.launch(
            &bump,
            add_one::shape(LEN as u32).expect("in range"),
            (&data, LEN as u32),
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

fn raw_memory(device: &Device, image: &ModuleImage) -> Outcome {
    let bytes = LEN as u64 * 4;
    let address = device.driver().mem_alloc(bytes)?;
    let keep: Arc<()> = Arc::new(());
    // SAFETY: the memory lives to the end of this function, past every replay.
    let data = unsafe { Persistent::<u32>::from_raw(device, address, LEN, "raw", keep.clone()) }?;
    let bump = device.load(image)?.kernel::<add_one>()?;
    let (graph, ()) = device.capture("raw", |cap| {
        let main = cap.origin();
        main.fill(&data, 0)?;
        main.launch(
            &bump,
            add_one::shape(LEN as u32).expect("in range"),
            (&data, LEN as u32),
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
    Ok(unsafe { device.driver().mem_free(address) }?)
}

fn default_streams(_: &Device, _: &ModuleImage) -> Outcome {
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
        ensure(matches!(error, Error::LegacyStream { .. }), || {
            error.to_string()
        })?;
    }
    Ok(())
}

fn attach(_: &Device, image: &ModuleImage) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    // SAFETY: the engine orders its slices itself: there is one stream.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let slice = Arc::new(engine.alloc_zeros::<u32>(LEN)?);
    let data = Persistent::from_cudarc(&device, "data", &slice)?;
    let bump = device.load(image)?.kernel::<add_one>()?;
    let shape = add_one::shape(LEN as u32)?;

    engine.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let attached = device.attach(&stream, "indexer")?;
    let main = attached.origin();
    let side = attached.fork(&main, "side")?;
    let scratch = side.scratch::<u32>("scratch", LEN)?;
    side.fill(&scratch, 0)?;
    side.launch(&bump, shape, (&scratch, LEN as u32))?;
    main.launch(&bump, shape, (&data, LEN as u32))?;
    let seen = attached.join(&main, side)?;
    main.copy(&data, seen.see(&scratch))?;
    main.launch(&bump, shape, (&data, LEN as u32))?;
    let detached = attached.detach()?;
    let graph = engine
        .end_capture(
            sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        )?
        .ok_or("the engine's capture is empty")?;
    ensure(detached.report().verdict == Verdict::Safe, || {
        detached.report().to_string()
    })?;
    // Only the engine's graph holds our memory and code from here on.
    drop((scratch, bump, data));
    device.collect();
    for _ in 0..10 {
        graph.launch()?;
    }
    engine.synchronize()?;
    let values = engine.clone_dtoh(&*slice)?;
    ensure(values == vec![2; LEN], || format!("{:?}...", &values[..4]))?;
    drop(graph);
    device.synchronize()?;
    Ok(())
}

fn attach_without_capture(device: &Device, _: &ModuleImage) -> Outcome {
    let stream = device.stream("idle")?;
    let error = refused(
        device.attach(&stream, "nothing"),
        "a stream that does not capture",
    )?;
    ensure(matches!(error, Error::NotCapturing { .. }), || {
        error.to_string()
    })
}

/// cudarc's event tracking is on, as it is by default. Our own part of a capture
/// touches no event of a slice; a cudarc call on the slice does.
fn tracked(_: &Device, image: &ModuleImage) -> Outcome {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    ensure(context.is_managing_stream_synchronization(), || {
        "cudarc does not track by default any more".into()
    })?;
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let slice = Arc::new(engine.alloc_zeros::<u32>(LEN)?);
    let mut other = engine.alloc_zeros::<u32>(LEN)?;
    let data = Persistent::from_cudarc(&device, "keys", &slice)?;
    let bump = device.load(image)?.kernel::<add_one>()?;
    let shape = add_one::shape(LEN as u32)?;

    engine.begin_capture(mode)?;
    let attached = device.attach(&stream, "ours alone")?;
    attached
        .origin()
        .launch(&bump, shape, (&data, LEN as u32))?;
    let detached = attached.detach()?;
    ensure(detached.report().verdict == Verdict::Safe, || {
        detached.report().to_string()
    })?;
    let graph = engine.end_capture(flags)?.ok_or("an empty capture")?;
    graph.launch()?;
    engine.synchronize()?;
    let values = engine.clone_dtoh(&*slice)?;
    ensure(values == vec![1; LEN], || format!("{:?}...", &values[..4]))?;
    drop(graph);

    engine.begin_capture(mode)?;
    let attached = device.attach(&stream, "with a copy of the engine's")?;
    // cudarc keeps the failure and returns it later.
    let copied = engine.memcpy_dtod(&*slice, &mut other);
    let error = refused(attached.detach(), "a capture that is broken")?;
    ensure(
        matches!(&error, Error::EngineCaptureBroken { slices, .. } if slices == &["keys"]),
        || format!("{error}; the copy: {copied:?}"),
    )?;
    ensure(error.to_string().contains("disable_event_tracking"), || {
        error.to_string()
    })?;
    ensure(engine.end_capture(flags).is_err(), || {
        "the capture ended well".into()
    })?;
    drop(data);
    device.synchronize()?;
    Ok(())
}
