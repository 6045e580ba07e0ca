//! Ops over cudarc's slices, and cuBLAS, inside captures.

use std::error::Error;
use std::sync::Arc;

use streamweir::cudarc::cublas::sys;
use streamweir::cudarc::driver::CudaContext;
use streamweir::kernels::dsv4::Image;
use streamweir::kernels::gemm::{Cublas, GemmError};
use streamweir::{CaptureOptions, Device, EngineError, ForeignCall, Persistent, Verify};
use streamweir::{reads, writes};

use super::super::{Outcome, ensure, refused};
use super::LEN;

fn untracked() -> Result<(Arc<CudaContext>, Device), libtest_mimic::Failed> {
    let context = CudaContext::new(0)?;
    // SAFETY: nothing of cudarc's is in flight beside what is waited for here.
    unsafe { context.disable_event_tracking() };
    let device = Device::from_cudarc(&context)?;
    Ok((context, device))
}

/// A copy of cudarc's on a side stream is proved with the nodes around it, reads and
/// writes what it declares, and frees nothing.
pub(super) fn copies(_: &Device, _: &Image) -> Outcome {
    let (context, device) = untracked()?;
    let keys = device.persistent_from("keys", &[7u32; LEN])?;
    let out = device.persistent::<u32>("out", LEN)?;
    let options = CaptureOptions::new("ops").verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, Box<dyn Error>>(options, |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let copy = side.scratch::<u32>("copy", LEN)?;
        // begin: docs/engines.md, ops over cudarc
        let touches = [reads(&keys), writes(&copy)];
        // SAFETY: a copy touches its operands alone, and nothing is kept.
        unsafe {
            side.with_cudarc(&context, ForeignCall::new("copy", &touches), |op| {
                let (from, mut to) = (op.slice::<u32>(0)?, op.slice_mut::<u32>(1)?);
                op.stream().memcpy_dtod(&*from, &mut *to)?;
                Ok::<_, Box<dyn Error>>(())
            })
        }?;
        // end: docs/engines.md, ops over cudarc
        // What the call does not have is not lent.
        let touches = [reads(&keys)];
        // SAFETY: nothing is enqueued.
        unsafe {
            side.with_cudarc(&context, ForeignCall::new("none", &touches), |op| {
                match (
                    op.slice_mut::<u32>(0),
                    op.slice::<u32>(1),
                    op.workspace::<u32>(),
                ) {
                    (Err(_), Err(_), Err(_)) => Ok::<_, Box<dyn Error>>(()),
                    _ => Err("a slice was lent that the call does not have".into()),
                }
            })
        }?;
        let seen = cap.join(&main, side)?;
        main.copy(&out, seen.see(&copy))?;
        Ok(())
    })?;
    let stream = device.stream("replay")?;
    for value in [3, 9] {
        keys.upload(&[value; LEN])?;
        graph.replay(&stream)?;
        let found = out.download()?;
        ensure(found == [value; LEN], || format!("{:?}...", &found[..4]))?;
    }
    Ok(())
}

pub(super) fn tracked_contexts(_: &Device, _: &Image) -> Outcome {
    let context = CudaContext::new(0)?;
    let device = Device::from_cudarc(&context)?;
    let keys = device.persistent_from("keys", &[7u32; LEN])?;
    let refusal = device.capture::<_, streamweir::Error>("ops", |cap| {
        let touches = [reads(&keys)];
        // SAFETY: nothing is called.
        unsafe {
            cap.origin()
                .with_cudarc(&context, ForeignCall::new("op", &touches), |_| Ok(()))
        }
    });
    let error = refused(refusal, "a context that tracks")?;
    ensure(
        matches!(
            error,
            streamweir::Error::Engine(EngineError::CudarcTracks { .. })
        ),
        || error.to_string(),
    )
}

/// Products of cuBLAS on two captured streams, each with a handle and a workspace of its
/// own: proved, and the same in every replay as those of one stream.
pub(super) fn cublas(_: &Device, _: &Image) -> Outcome {
    const N: usize = 256;
    let (_context, device) = untracked()?;
    let blas = match Cublas::new(&device, ["main", "side"]) {
        Err(GemmError::NoCublas) => {
            eprintln!("no libcublas: not tried");
            return Ok(());
        }
        made => made?,
    };
    let values: Vec<f32> = (0..N * N).map(|at| (at % 17) as f32 / 17.0).collect();
    let a = device.persistent_from("a", &values)?;
    let outs = [
        device.persistent::<f32>("main out", N * N)?,
        device.persistent::<f32>("side out", N * N)?,
    ];
    let product = |stream: &streamweir::Stream, out: &Persistent<f32>| -> Result<(), GemmError> {
        let y = stream.scratch::<f32>("y", N * N)?;
        let touches = [reads(&a), writes(&y)];
        // SAFETY: a product of square matrices of N rows, within its buffers.
        unsafe {
            blas.call(stream, "sgemm", &touches, 4 << 20, |handle, at| {
                let (one, zero) = (1.0f32, 0.0f32);
                let n = N as i32;
                let op = sys::cublasOperation_t::CUBLAS_OP_N;
                let [a, y] = [at[0], at[1]];
                sys::cublasSgemm_v2(
                    handle,
                    op,
                    op,
                    n,
                    n,
                    n,
                    &raw const one,
                    a as *const f32,
                    n,
                    a as *const f32,
                    n,
                    &raw const zero,
                    y as *mut f32,
                    n,
                )
                .result()
            })
        }?;
        Ok(stream.copy(out, &y)?)
    };
    let mut expected: Option<Vec<Vec<f32>>> = None;
    for overlap in [false, true] {
        let options = CaptureOptions::new("products").verify(Verify::Prove);
        let (graph, ()) = device.capture::<_, GemmError>(options, |cap| {
            let main = cap.origin();
            let side = cap.fork_if(overlap, &main, "side")?;
            for _ in 0..8 {
                product(&side, &outs[1])?;
                product(&main, &outs[0])?;
            }
            cap.join(&main, side)?;
            Ok(())
        })?;
        let stream = device.stream("replay")?;
        for _ in 0..50 {
            graph.replay(&stream)?;
            let found = vec![outs[0].download()?, outs[1].download()?];
            let same = expected.get_or_insert_with(|| found.clone()) == &found;
            ensure(same, || format!("overlap {overlap} changed a product"))?;
        }
    }
    let other = device.capture::<_, GemmError>("other", |cap| {
        let third = cap.fork(&cap.origin(), "third")?;
        product(&third, &outs[0])
    });
    ensure(matches!(other, Err(GemmError::NoHandle { .. })), || {
        format!("a stream without a handle: {other:?}")
    })
}
