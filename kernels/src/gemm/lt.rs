//! The product by cuBLASLt.
//!
//! The library's matrices are column-major. A row-major `y = x · weightᵀ` is
//! there the product `yᵀ = weight · xᵀ` of what the same bytes mean to it: the
//! weight transposed, the input as it is.

use std::error::Error as StdError;
use std::ffi::c_void;
use std::mem;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;

use streamweir_sched::cudarc::cublaslt::result::{self as lt, CublasError};
use streamweir_sched::cudarc::cublaslt::sys;
use streamweir_sched::driver::StreamHandle;
use streamweir_sched::{
    Buffer, Device, ForeignAddresses, ForeignCall, Lane, Stream, VisibleOn, reads, writes,
};

use super::{GemmError, GemmOptions, GemmShape, loaded};

/// What every operand's address is a multiple of, in bytes.
const ALIGNMENT: u32 = 16;
/// What the workspace's address is a multiple of, in bytes: the library's wish.
const WORKSPACE_ALIGNMENT: usize = 256;

/// The library, started for one device.
#[derive(Debug)]
pub(super) struct Lt {
    handle: sys::cublasLtHandle_t,
    // The context that the handle belongs to lives as long as this.
    device: Device,
}

// SAFETY: the library lets several threads use one handle at once, and nothing
// else is behind the pointer for us.
unsafe impl Send for Lt {}
// SAFETY: as above.
unsafe impl Sync for Lt {}

fn failed(call: &'static str) -> impl FnOnce(CublasError) -> GemmError {
    move |error| GemmError::Library {
        call,
        status: error.to_string(),
    }
}

impl Lt {
    pub(super) fn load(device: &Device) -> Result<Arc<Self>, GemmError> {
        if !loaded::is_present("cublasLt") {
            return Err(GemmError::NoLibrary);
        }
        // The calls to the driver leave the device's context current on this
        // thread, and refuse to be made inside a capture.
        let handle = device.prepare(|_| lt::create_handle().map_err(failed("cublasLtCreate")))?;
        Ok(Arc::new(Self {
            handle,
            device: device.clone(),
        }))
    }
}

impl Drop for Lt {
    fn drop(&mut self) {
        // SAFETY: made by `load`, and nothing uses it any more. A failure at the
        // end of a process has nobody to tell.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

/// A matrix layout of the library.
#[derive(Debug)]
struct Matrix(sys::cublasLtMatrixLayout_t);

impl Matrix {
    /// `columns` columns of `rows` elements, `distance` elements from one column
    /// to the next and `stride` from one group to the next.
    fn new(
        kind: sys::cudaDataType,
        (rows, columns): (u32, u32),
        distance: u64,
        (groups, stride): (u32, u64),
    ) -> Result<Self, GemmError> {
        use sys::cublasLtMatrixLayoutAttribute_t::{
            CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        };
        // The sizes are below 2^31.
        let layout = lt::create_matrix_layout(kind, rows.into(), columns.into(), distance as i64)
            .map_err(failed("cublasLtMatrixLayoutCreate"))?;
        let matrix = Self(layout);
        let (count, offset) = (groups as i32, stride as i64);
        // SAFETY: a live layout, and values of the attributes' sizes.
        unsafe {
            lt::set_matrix_layout_attribute(
                matrix.0,
                CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                (&raw const count).cast(),
                size_of_val(&count),
            )
            .and_then(|()| {
                lt::set_matrix_layout_attribute(
                    matrix.0,
                    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                    (&raw const offset).cast(),
                    size_of_val(&offset),
                )
            })
        }
        .map_err(failed("cublasLtMatrixLayoutSetAttribute"))?;
        Ok(matrix)
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: made by `new`; a layout is memory of the host.
        let _ = unsafe { lt::destroy_matrix_layout(self.0) };
    }
}

/// The description of what is computed.
#[derive(Debug)]
struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    /// A product for so many multiprocessors, or all.
    fn new(multiprocessors: Option<u32>) -> Result<Self, GemmError> {
        use sys::cublasLtMatmulDescAttributes_t as attribute;

        let desc = lt::create_matmul_desc(
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType_t::CUDA_R_32F,
        )
        .map_err(failed("cublasLtMatmulDescCreate"))?;
        let description = Self(desc);
        description.set(attribute::CUBLASLT_MATMUL_DESC_TRANSA, 1)?;
        if let Some(count) = multiprocessors {
            // No device has 2^31.
            description.set(
                attribute::CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
                count as i32,
            )?;
        }
        Ok(description)
    }

    /// Sets an attribute that is an i32.
    fn set(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: i32,
    ) -> Result<(), GemmError> {
        // SAFETY: a live description, and a value of the attribute's size.
        unsafe {
            lt::set_matmul_desc_attribute(
                self.0,
                attribute,
                (&raw const value).cast(),
                size_of_val(&value),
            )
        }
        .map_err(failed("cublasLtMatmulDescSetAttribute"))
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made by `new`; a description is memory of the host.
        let _ = unsafe { lt::destroy_matmul_desc(self.0) };
    }
}

/// What an algorithm must be like.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new(workspace: usize) -> Result<Self, GemmError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as attribute;
        use sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

        let preference =
            Self(lt::create_matmul_pref().map_err(failed("cublasLtMatmulPreferenceCreate"))?);
        let (bytes, alignment) = (workspace as u64, ALIGNMENT);
        // Parts of a sum are put together in f32 in the workspace, or not at all.
        let schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let set = |attribute, value: *const c_void, size| {
            // SAFETY: a live preference, and values of the attributes' sizes.
            unsafe { lt::set_matmul_pref_attribute(preference.0, attribute, value, size) }
                .map_err(failed("cublasLtMatmulPreferenceSetAttribute"))
        };
        set(
            attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (&raw const bytes).cast(),
            size_of_val(&bytes),
        )?;
        set(
            attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            (&raw const schemes).cast(),
            size_of_val(&schemes),
        )?;
        for operand in [
            attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            set(
                operand,
                (&raw const alignment).cast(),
                size_of_val(&alignment),
            )?;
        }
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by `new`; a preference is memory of the host.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}

/// What is computed, and how its operands lie.
#[derive(Debug)]
struct Operation {
    description: Description,
    weight: Matrix,
    x: Matrix,
    y: Matrix,
}

// SAFETY: the library reads descriptions and layouts in a launch and keeps no
// state in them, so threads may share them.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Sync for Operation {}

/// A product with its algorithm. What it points to lives in the library and is
/// only read by launches.
#[derive(Debug)]
pub(super) struct Product {
    operation: Arc<Operation>,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
    library: Arc<Lt>,
}

impl Operation {
    fn new(
        shape: GemmShape,
        f32_out: bool,
        multiprocessors: Option<u32>,
    ) -> Result<Self, GemmError> {
        use sys::cudaDataType_t::{CUDA_R_16BF, CUDA_R_32F};

        let GemmShape {
            tokens,
            groups,
            width,
            rows,
        } = shape;
        let wide = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let output = if f32_out { CUDA_R_32F } else { CUDA_R_16BF };
        Ok(Self {
            description: Description::new(multiprocessors)?,
            weight: Matrix::new(
                CUDA_R_16BF,
                (width, rows),
                width.into(),
                (groups, wide(rows, width)),
            )?,
            x: Matrix::new(
                CUDA_R_16BF,
                (width, tokens),
                wide(groups, width),
                (groups, width.into()),
            )?,
            y: Matrix::new(
                output,
                (rows, tokens),
                wide(groups, rows),
                (groups, rows.into()),
            )?,
        })
    }
}

impl Product {
    /// The product with each of at most `most` algorithms, and one at the least.
    pub(super) fn choose(
        library: &Arc<Lt>,
        shape: GemmShape,
        f32_out: bool,
        options: GemmOptions,
        most: usize,
    ) -> Result<Vec<Arc<Self>>, GemmError> {
        let there = library.device.info().multiprocessors;
        let fewer = |&count: &u32| count < there;
        let multiprocessors = options.multiprocessors.map(NonZeroU32::get).filter(fewer);
        let operation = Arc::new(Operation::new(shape, f32_out, multiprocessors)?);
        let preference = Preference::new(options.workspace)?;
        // SAFETY: the library's results are numbers, for which zero is a value.
        let nothing: sys::cublasLtMatmulHeuristicResult_t = unsafe { mem::zeroed() };
        let mut found = vec![nothing; most];
        let mut count = 0;
        // SAFETY: live descriptors, and room for as many results as are asked for.
        unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                library.handle,
                operation.description.0,
                operation.weight.0,
                operation.x.0,
                operation.y.0,
                operation.y.0,
                preference.0,
                most as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        }
        .result()
        .or_else(|error| match error.0 {
            sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => Ok(()),
            _ => Err(failed("cublasLtMatmulAlgoGetHeuristic")(error)),
        })?;
        found.truncate(count.max(0) as usize);
        found.retain(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        if found.is_empty() {
            return Err(GemmError::NoAlgorithm {
                shape,
                workspace: options.workspace,
            });
        }
        let product = |result: sys::cublasLtMatmulHeuristicResult_t| {
            Arc::new(Self {
                operation: operation.clone(),
                algorithm: result.algo,
                workspace: result.workspaceSize,
                library: library.clone(),
            })
        };
        Ok(found.into_iter().map(product).collect())
    }

    pub(super) fn workspace(&self) -> usize {
        self.workspace
    }

    #[track_caller]
    pub(super) fn launch<L, X, W, Y>(
        product: &Arc<Self>,
        stream: &Stream<L>,
        x: &X,
        weight: &W,
        y: &Y,
    ) -> streamweir_sched::Result<()>
    where
        L: Lane,
        X: Buffer + VisibleOn<L>,
        W: Buffer + VisibleOn<L>,
        Y: Buffer + VisibleOn<L>,
    {
        let touches = [reads(x), reads(weight), writes(y)];
        let mut call = ForeignCall::new("gemm", &touches)
            .stateless()
            // The sums of a split product wait for its parts before they touch
            // anything: that is what the library launches them early for. The first
            // kernel of a call starts in order.
            .waits()
            .keep(product.clone());
        if product.workspace > 0 {
            call = call.workspace(product.workspace, WORKSPACE_ALIGNMENT);
        }
        let product = product.clone();
        // SAFETY: the product reads `x` and the weight, writes `y`, all within
        // the lengths that the caller has narrowed them to, and uses its
        // workspace; it enqueues kernels, and fills of its workspace.
        unsafe { stream.foreign_call(call, move |raw, at| product.enqueue(raw, at)) }
    }

    fn enqueue(
        &self,
        stream: StreamHandle,
        at: ForeignAddresses<'_>,
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let &[x, weight, y] = at.touched else {
            return Err(format!("three buffers, not {}", at.touched.len()).into());
        };
        for (name, address) in [("x", x), ("weight", weight), ("y", y)] {
            if !address.is_multiple_of(ALIGNMENT.into()) {
                return Err(format!(
                    "operand {name} of a product is at {address:#x}; it must begin at a multiple \
                     of {ALIGNMENT} bytes"
                )
                .into());
            }
        }
        let operation = &self.operation;
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: live descriptors and handle; addresses of memory of the sizes
        // that the layouts describe, and of the workspace.
        unsafe {
            lt::matmul(
                self.library.handle,
                operation.description.0,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                weight as *const c_void,
                operation.weight.0,
                x as *const c_void,
                operation.x.0,
                y as *const c_void,
                operation.y.0,
                y as *mut c_void,
                operation.y.0,
                ptr::from_ref(&self.algorithm),
                at.workspace.unwrap_or(0) as *mut c_void,
                self.workspace,
                stream.0 as sys::cudaStream_t,
            )
        }
        .map_err(|error| format!("cublasLtMatmul failed: {error}").into())
    }
}
