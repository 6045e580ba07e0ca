//! Work that somebody else enqueues, inside a capture: a library that takes a
//! stream and addresses. What it touches is declared at the call, and its nodes
//! are proved with ours.
//!
//! `cargo run --example foreign`

mod common;

use std::error::Error;
use std::ffi::{CString, c_void};
use std::process::ExitCode;
use std::sync::Arc;

use streamweir::cudarc::driver::{CudaContext, result, sys};
use streamweir::driver::StreamHandle;
use streamweir::{CaptureOptions, Device, Verify, reads, updates};

use common::axpy;

const LEN: usize = 4096;

fn main() -> ExitCode {
    common::on_a_gpu(run)
}

/// A library as CUDA's are: it launches kernels of its own on the stream that
/// it is given.
struct Library {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    axpy: sys::CUfunction,
}

// SAFETY: the driver's handles are good on every thread.
unsafe impl Send for Library {}
// SAFETY: as above; nothing changes them.
unsafe impl Sync for Library {}

impl Library {
    fn open(device: &Device) -> Result<Self, Box<dyn Error>> {
        let cubin = common::cubin(device.info().capability)?;
        let context = CudaContext::new(0)?;
        // SAFETY: a whole cubin, with this kernel in it.
        unsafe {
            let module = result::module::load_data(cubin.as_ptr().cast())?;
            let axpy = result::module::get_function(module, CString::new("axpy")?)?;
            Ok(Self {
                context,
                module,
                axpy,
            })
        }
    }

    /// `data += factor * input`, on `stream`.
    fn add(
        &self,
        stream: StreamHandle,
        [mut input, mut data]: [u64; 2],
        mut factor: f32,
    ) -> Result<(), Box<dyn Error>> {
        let mut len = LEN as u32;
        let mut params: [*mut c_void; 4] = [
            (&raw mut input).cast(),
            (&raw mut data).cast(),
            (&raw mut factor).cast(),
            (&raw mut len).cast(),
        ];
        let (grid, block) = ((len / 256, 1, 1), (256, 1, 1));
        let stream = stream.0 as sys::CUstream;
        // SAFETY: the kernel's parameters, over buffers of LEN elements.
        unsafe { result::launch_kernel(self.axpy, grid, block, 0, stream, &mut params) }?;
        Ok(())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // The graph may have been the last to hold it, so on any thread.
        let bound = self.context.bind_to_thread();
        // SAFETY: what holds a library lets go of it after its launches.
        if let Err(error) = bound.and_then(|()| unsafe { result::module::unload(self.module) }) {
            eprintln!("unloading the library: {error}");
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = Device::cuda(0)?;
    let axpy = common::load(&device)?;
    // Loaded before the capture: loading inside would break it.
    let library = Arc::new(Library::open(&device)?);
    let len = LEN as u32;
    let keys = device.persistent_from("keys", &[3.0f32; LEN])?;
    let total = device.persistent::<f32>("total", LEN)?;

    // begin: docs/engines.md, foreign
    let options = CaptureOptions::new("decode").verify(Verify::Prove);
    let (graph, ()) = device.capture::<_, Box<dyn Error>>(options, |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let scores = side.scratch::<f32>("scores", LEN)?;
        side.fill(&scores, 0)?;
        // SAFETY: the library touches the two buffers as declared, and leaves
        // the capture as it is. The graph keeps the library's code.
        unsafe {
            side.foreign(
                "library add",
                &[reads(&keys), updates(&scores)],
                Some(library.clone()),
                |stream, at| library.add(stream, [at[0], at[1]], 2.0),
            )
        }?;
        let seen = cap.join(&main, side)?;
        main.launch(
            &axpy,
            axpy {
                input: seen.see(&scores),
                data: &total,
                factor: 1.0,
                len,
            },
        )?;
        Ok(())
    })?;
    // end: docs/engines.md, foreign
    drop(library);

    print!("{}", graph.report());
    let stream = device.stream("replay")?;
    graph.replay(&stream)?;
    assert_eq!(total.download()?, vec![2.0 * 3.0; LEN]);
    Ok(())
}
