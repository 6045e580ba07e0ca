//! Writes of cuBLASLt's kernels, found by running them.
//!
//! Two matrix products on two streams, each with few results and a long inner
//! dimension, so that the library splits it and keeps partial sums in its
//! workspace. With one workspace for both the captured graph races; with two it
//! does not. Nothing is declared: cuBLASLt says nothing of what it touches.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use streamweir::Device;
use streamweir::audit::{AuditOptions, audit};
use streamweir::cudarc::cublaslt::{result as lt, sys};
use streamweir::driver::{ModuleImage, Start, StreamHandle};
use streamweir::infer::{InferOptions, Inference, Outcome as Found, infer_writes};
use streamweir::kernels::dsv4::Image;
use streamweir::trace::ByteRange;
use streamweir::verify::{Options, Report, Rule, Verdict};

use super::audit::{begin, end, order};
use super::isolated::in_own_process;
use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("one_workspace_on_two_streams_is_proven", |_, _| {
        in_own_process("infer one workspace")
    }),
    ("a_workspace_for_each_stream_is_not", |_, _| {
        in_own_process("infer two workspaces")
    }),
    ("a_kernel_that_hangs_costs_its_child", hanging),
];

type Failed = libtest_mimic::Failed;

const SIZE: u64 = 64;
const DEPTH: u64 = 16384;
const WORKSPACE: u64 = 4 << 20;

/// A product of cuBLASLt with its algorithm.
struct Product {
    handle: sys::cublasLtHandle_t,
    desc: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    d: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}

impl Product {
    /// The first algorithm of the library's choice that keeps something in its
    /// workspace.
    fn new() -> Result<Self, Failed> {
        use sys::cudaDataType_t::{CUDA_R_16BF, CUDA_R_32F};

        const WANTED: usize = 64;
        let handle = lt::create_handle()?;
        let desc =
            lt::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, CUDA_R_32F)?;
        let (transposed, workspace) = (1_i32, WORKSPACE);
        let a = lt::create_matrix_layout(CUDA_R_16BF, DEPTH, SIZE, DEPTH as i64)?;
        let b = lt::create_matrix_layout(CUDA_R_16BF, DEPTH, SIZE, DEPTH as i64)?;
        let d = lt::create_matrix_layout(CUDA_R_32F, SIZE, SIZE, SIZE as i64)?;
        let preference = lt::create_matmul_pref()?;
        let mut found =
            [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::zeroed() }; WANTED];
        let mut count = 0;
        // SAFETY: live descriptors; the values have the attributes' sizes, and
        // the array has room for what is asked for.
        unsafe {
            lt::set_matmul_desc_attribute(
                desc,
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                (&raw const transposed).cast(),
                size_of_val(&transposed),
            )?;
            lt::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const workspace).cast(),
                size_of_val(&workspace),
            )?;
            sys::cublasLtMatmulAlgoGetHeuristic(
                handle,
                desc,
                a,
                b,
                d,
                d,
                preference,
                WANTED as i32,
                found.as_mut_ptr().cast(),
                &raw mut count,
            )
            .result()?;
            lt::destroy_matmul_pref(preference)?;
        }
        let chosen = found[..count as usize]
            .iter()
            // SAFETY: the library filled `count` of them.
            .map(|found| unsafe { found.assume_init_ref() })
            .find(|found| found.workspaceSize > 0)
            .ok_or("cuBLASLt knows no algorithm with a workspace for this product")?;
        Ok(Self {
            handle,
            desc,
            a,
            b,
            d,
            algorithm: chosen.algo,
            workspace: chosen.workspaceSize,
        })
    }

    fn enqueue(&self, stream: StreamHandle, [a, b, d]: [u64; 3], workspace: u64) -> Outcome {
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: live descriptors, and memory of their sizes.
        unsafe {
            lt::matmul(
                self.handle,
                self.desc,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                a as *const c_void,
                self.a,
                b as *const c_void,
                self.b,
                d as *const c_void,
                self.d,
                d as *mut c_void,
                self.d,
                ptr::from_ref(&self.algorithm),
                workspace as *mut c_void,
                WORKSPACE as usize,
                stream.0 as sys::cudaStream_t,
            )
        }?;
        Ok(())
    }
}

/// A piece of memory with a name.
struct Piece {
    name: &'static str,
    start: u64,
    bytes: u64,
}

fn pieces() -> Result<Vec<Piece>, Failed> {
    let (input, output) = (SIZE * DEPTH * 2, SIZE * SIZE * 4);
    let names = [
        ("a0", input),
        ("b0", input),
        ("d0", output),
        ("a1", input),
        ("b1", input),
        ("d1", output),
        ("workspace 0", WORKSPACE),
        ("workspace 1", WORKSPACE),
    ];
    let mut seed = 1_u32;
    let mut pieces = Vec::new();
    for (name, bytes) in names {
        let start = crate::driver()?.mem_alloc(bytes)?;
        let mut values = vec![0; bytes as usize];
        if bytes == input {
            for value in values.chunks_exact_mut(2) {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Between 1 and 2, or minus that.
                let number = 0x3f80 | (seed >> 20 & 0x7f) as u16 | (seed >> 16 & 0x8000) as u16;
                value.copy_from_slice(&number.to_le_bytes());
            }
        }
        // SAFETY: new memory of this length.
        unsafe { crate::driver()?.copy_to_device(start, &values) }?;
        pieces.push(Piece { name, start, bytes });
    }
    Ok(pieces)
}

fn show(inference: &Inference) -> String {
    let lines = inference.nodes.iter().map(|(node, found)| match found {
        Found::NotInferred(why) => format!("{node}: not inferred: {why}"),
        Found::Written(runs) => {
            let bytes: u64 = runs.iter().map(|(_, run)| run.len()).sum();
            let mut buffers: Vec<String> = runs.iter().map(|(id, _)| id.to_string()).collect();
            buffers.dedup();
            format!(
                "{node}: {bytes} bytes in {} runs of {}",
                runs.len(),
                buffers.join(", ")
            )
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn judge(one_workspace: bool) -> Result<(Report, Report, Inference, usize), Failed> {
    let device = Device::cuda(0)?;
    let driver = crate::driver()?;
    let (main, side) = (driver.stream_create(0)?, driver.stream_create(0)?);
    let product = Product::new()?;
    let pieces = pieces()?;
    let at = |place: usize| pieces[place].start;
    let places = [[0, 1, 2].map(at), [3, 4, 5].map(at)];
    let workspaces = [at(6), if one_workspace { at(6) } else { at(7) }];
    // What the library loads and sets up must not happen under capture.
    for (stream, both) in [main, side]
        .into_iter()
        .zip(places.into_iter().zip(workspaces))
    {
        product.enqueue(stream, both.0, both.1)?;
        // SAFETY: a live stream.
        unsafe { driver.stream_synchronize(stream) }?;
    }
    begin(main)?;
    order(main, side)?;
    product.enqueue(main, places[0], workspaces[0])?;
    product.enqueue(side, places[1], workspaces[1])?;
    order(side, main)?;
    let graph = end(main)?;
    let mut options = AuditOptions::named("two products");
    for piece in &pieces {
        options = options.knowing(
            piece.name,
            ByteRange::new(piece.start, piece.start + piece.bytes),
        );
    }
    // SAFETY: a live graph that nobody changes.
    let mut found = unsafe { audit(&device, graph, options) }?;
    let before = found.verify(&Options::default())?;
    // SAFETY: all that the graph uses is live, and nothing runs.
    let inference = unsafe { infer_writes(&device, &found, &InferOptions::default()) }?;
    found.add_writes(&inference)?;
    let after = found.verify(&Options::default())?;
    Ok((before, after, inference, product.workspace))
}

pub(crate) fn child(what: &str) -> Outcome {
    if what == "hang" {
        return hang();
    }
    let one_workspace = what == "one workspace";
    let (before, after, inference, workspace) = judge(one_workspace)?;
    println!(
        "{what}: the algorithm keeps {workspace} bytes; {} kernels\n{}\nbefore: {:?}\nafter: {:?}",
        inference.nodes.len(),
        show(&inference),
        before.verdict,
        after.verdict
    );
    let text = || format!("{before}\n{}\n{after}", show(&inference));
    ensure(inference.not_inferred().next().is_none(), text)?;
    ensure(before.hazards.iter().all(|hazard| !hazard.proven), text)?;
    let mut proven = after.hazards.iter().filter(|hazard| hazard.proven);
    if one_workspace {
        ensure(after.verdict == Verdict::Hazard, text)?;
        ensure(
            proven.all(|hazard| {
                hazard.rule == Rule::UnorderedConflict
                    && hazard
                        .buffers
                        .iter()
                        .all(|buffer| buffer.name == "workspace 0")
            }),
            text,
        )
    } else {
        ensure(
            after.verdict != Verdict::Hazard && proven.next().is_none(),
            text,
        )?;
        ensure(!after.assumptions.is_empty(), text)
    }
}

/// A kernel that never ends takes its child with it and nothing else.
fn hanging(_: &Device, _: &Image) -> Outcome {
    in_own_process("infer hang")
}

const FOREVER: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry forever(.param .u64 at)
{
    .reg .u64 %place;
    .reg .u32 %value;
    .reg .pred %zero;
    ld.param.u64 %place, [at];
again:
    ld.volatile.global.u32 %value, [%place];
    setp.eq.u32 %zero, %value, 0;
    @%zero bra again;
    ret;
}
";

fn hang() -> Outcome {
    let device = Device::cuda(0)?;
    let driver = crate::driver()?;
    let (stream, memory) = (driver.stream_create(0)?, driver.mem_alloc(256)?);
    let module = driver.module_load(&ModuleImage::Cuda(FOREVER.as_bytes().to_vec()))?;
    // SAFETY: live handles and memory of this length; the graph is not launched
    // here.
    let graph = unsafe {
        driver.copy_to_device(memory, &[0; 256])?;
        let function = driver.module_function(module, "forever")?;
        begin(stream)?;
        let mut at = memory;
        driver.launch(
            stream,
            function,
            (1, 1).into(),
            Start::InOrder,
            &mut [(&raw mut at).cast()],
        )?;
        end(stream)?
    };
    let options = AuditOptions::named("hang").knowing("flag", ByteRange::new(memory, memory + 256));
    // SAFETY: a live graph that nobody changes.
    let found = unsafe { audit(&device, graph, options) }?;
    let mut options = InferOptions::default();
    options.watchdog.node = Duration::from_secs(2);
    // SAFETY: all that the graph uses is live, and nothing runs.
    let inference = unsafe { infer_writes(&device, &found, &options) }?;
    let why: Vec<_> = inference.not_inferred().map(|(_, why)| why).collect();
    ensure(why == ["timed out after 2 s"], || format!("{inference:?}"))?;
    // The parent's device is as it was.
    let mut bytes = [1; 256];
    // SAFETY: live memory of this length.
    unsafe { driver.copy_to_host(&mut bytes, memory) }?;
    ensure(bytes == [0; 256], || "the memory changed".to_owned())
}
