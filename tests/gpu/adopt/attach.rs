//! A capture that the engine began: our part in it, and what is said of the
//! engine's.

use std::ffi::c_void;
use std::sync::Arc;

use libtest_mimic::Failed;
use streamweir::cudarc::driver::{CudaContext, CudaStream, sys};
use streamweir::driver::Start;
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::dsv4::testing::add_one;
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    CaptureOptions, Detached, Device, DeviceStream, EngineError, Error, Persistent, Verify,
};

use super::super::{Outcome, ensure, refused};
use super::LEN;

pub(super) fn joined(_: &Device, image: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    // SAFETY: the engine orders its slices itself: there is one stream.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let slice = Arc::new(engine.alloc_zeros::<u32>(LEN)?);
    let data = Persistent::from_cudarc(&device, "data", &slice)?;
    let bump = image.load(&device)?.kernel::<add_one>()?;

    engine.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let attached = device.attach(&stream, "indexer")?;
    let main = attached.origin();
    let side = attached.fork(&main, "side")?;
    let scratch = side.scratch::<u32>("scratch", LEN)?;
    side.fill(&scratch, 0)?;
    side.launch(
        &bump,
        add_one {
            data: &scratch,
            len: LEN as u32,
        },
    )?;
    main.launch(
        &bump,
        add_one {
            data: &data,
            len: LEN as u32,
        },
    )?;
    let seen = attached.join(&main, side)?;
    main.copy(&data, seen.see(&scratch))?;
    main.launch(
        &bump,
        add_one {
            data: &data,
            len: LEN as u32,
        },
    )?;
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

pub(super) fn without_capture(device: &Device, _: &Image) -> Outcome {
    let stream = device.stream("idle")?;
    let error = refused(
        device.attach(&stream, "nothing"),
        "a stream that does not capture",
    )?;
    ensure(
        matches!(error, Error::Engine(EngineError::NotCapturing { .. })),
        || error.to_string(),
    )
}

/// cudarc's event tracking is on, as it is by default. Our own part of a capture
/// touches no event of a slice; a cudarc call on the slice does.
pub(super) fn tracked(_: &Device, image: &Image) -> Outcome {
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
    let bump = image.load(&device)?.kernel::<add_one>()?;

    engine.begin_capture(mode)?;
    let attached = device.attach(&stream, "ours alone")?;
    attached.origin().launch(
        &bump,
        add_one {
            data: &data,
            len: LEN as u32,
        },
    )?;
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
        matches!(&error, Error::Engine(EngineError::CaptureBroken { slices, .. }) if slices == &["keys"]),
        || format!("{error}; the copy: {copied:?}"),
    )?;
    ensure(error.to_string().contains("disable_event_tracking"), || {
        error.to_string()
    })?;
    end_broken(&engine, flags)?;
    drop(data);
    device.synchronize()?;
    Ok(())
}

/// Ends a capture that is broken. cudarc first returns a failure that it has
/// kept, and does not get to the driver then: a capture left open on this thread
/// would forbid whatever comes after.
fn end_broken(engine: &Arc<CudaStream>, flags: sys::CUgraphInstantiate_flags) -> Outcome {
    const NONE: sys::CUstreamCaptureStatus =
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    for _ in 0..4 {
        ensure(engine.end_capture(flags).is_err(), || {
            "the capture ended well".into()
        })?;
        if engine.capture_status().is_ok_and(|status| status == NONE) {
            return Ok(());
        }
    }
    Err("the capture is still open".into())
}

/// The engine allocates inside its capture: the graph then has allocation nodes
/// (R7, R8).
pub(super) fn allocates(_: &Device, _: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    // SAFETY: the engine orders its slices itself: there is one stream.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let slice = Arc::new(engine.alloc_zeros::<u32>(LEN)?);
    let data = Persistent::from_cudarc(&device, "data", &slice)?;
    let capture = |freed: bool| -> Result<Result<Detached, Error>, Failed> {
        engine.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let options = CaptureOptions::new("with the engine's memory").verify(Verify::Report);
        let attached = device.attach(&stream, options)?;
        attached.origin().fill(&data, 1)?;
        let theirs = engine.alloc_zeros::<u32>(LEN)?;
        // Dropping a slice frees it on its stream: in a capture, a node.
        let kept = match freed {
            true => {
                drop(theirs);
                None
            }
            false => Some(theirs),
        };
        let detached = attached.detach();
        let graph = engine.end_capture(
            sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        )?;
        // The memory is the graph's, which never ran: there is nothing to free.
        std::mem::forget(kept);
        drop(graph);
        Ok(detached)
    };
    let detached = capture(true)??;
    let (report, trace) = (detached.report(), detached.trace());
    let kinds: Vec<_> = trace.nodes.iter().map(|node| node.kind.word()).collect();
    ensure(
        report.verdict == Verdict::Safe
            && trace.buffers.iter().any(|b| b.name.contains("memory of")),
        || format!("{kinds:?}\n{report}"),
    )?;
    let detached = capture(false)??;
    let report = detached.report();
    ensure(
        report
            .hazards
            .iter()
            .any(|h| h.rule == Rule::NotRelaunchable),
        || format!("{report}"),
    )
}

/// The engine frees memory and goes on using its address in a capture (R4).
pub(super) fn freed(_: &Device, image: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let engine = context.new_stream()?;
    // SAFETY: the engine orders its slices itself: there is one stream.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    let stream = DeviceStream::from_cudarc(&device, "engine", &engine)?;
    let slice = Arc::new(engine.alloc_zeros::<u32>(LEN)?);
    let data = Persistent::from_cudarc(&device, "kv cache", &slice)?;
    let address = data.range().start;
    drop(data);
    drop(Arc::into_inner(slice).ok_or("somebody still holds the slice")?);
    engine.synchronize()?;

    let driver = crate::driver()?;
    let module = driver.module_load(image)?;
    engine.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let options = CaptureOptions::new("after the free").verify(Verify::Report);
    let attached = device.attach(&stream, options)?;
    let (mut at, mut len) = (address, LEN as u32);
    let mut params: [*mut c_void; 2] = [(&raw mut at).cast(), (&raw mut len).cast()];
    // SAFETY: as many parameters as the kernel has, in a graph that is never
    // replayed.
    unsafe {
        let function = driver.module_function(module, "add_one")?;
        driver.launch(
            stream.raw(),
            function,
            add_one::shape(LEN as u32)?,
            Start::InOrder,
            &mut params,
        )?;
    }
    let detached = attached.detach()?;
    drop(engine.end_capture(sys::CUgraphInstantiate_flags(0))?);
    // SAFETY: nothing of it runs.
    unsafe { driver.module_unload(module) }?;
    let report = detached.report();
    ensure(
        report.hazards.iter().any(|h| h.rule == Rule::OwnerGone)
            && report.to_string().contains("kv cache"),
        || report.to_string(),
    )
}
