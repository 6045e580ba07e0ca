//! Matrix products: cuBLASLt on a CUDA device, a CPU twin on the simulated one.
//!
//! `y[t, g, n] = x[t, g, ..] · weight[g, n, ..]`, all row-major, bf16 in, bf16 or
//! f32 out, summed in f32: the projections of a layer, with one group, and its
//! grouped output projection.
//!
//! What makes a library's product fit for capture is fixed before one begins. A
//! [`Gemm`] has the algorithm that the library proposed and keeps it by value, so an
//! eager run, a live and a planned capture launch the same kernels over the same
//! order of sums and give the same bits. Algorithms that keep counters in the
//! output are excluded. The workspace that the algorithm needs is scratch of the
//! stream that it is launched on: a library's own, shared by all streams, is what
//! makes concurrent products wrong.
//!
//! The library is loaded when a [`GemmLibrary`] of a CUDA device is made. A
//! machine without it gets an error.

#[cfg(feature = "cuda")]
mod cublas;
mod error;
#[cfg(feature = "cuda")]
mod loaded;
#[cfg(feature = "cuda")]
mod lt;
mod twin;

use std::marker::PhantomData;
use std::num::NonZeroU32;

use half::bf16;
use streamweir_sched::driver::Backend;
use streamweir_sched::{Buffer, Device, Lane, Stream, VisibleOn, part};

use crate::dims::{DimensionError, Dims};

#[cfg(feature = "cuda")]
pub use cublas::Cublas;
pub use error::GemmError;
pub use twin::GemmOutput;

/// The sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmShape {
    /// Tokens.
    pub tokens: u32,
    /// Groups: independent products, side by side in a token.
    pub groups: u32,
    /// Values of a token's input in a group.
    pub width: u32,
    /// Rows of a group's weight: values of a token's output in it.
    pub rows: u32,
}

impl GemmShape {
    /// `y[tokens, rows] = x[tokens, width] · weight[rows, width]`.
    pub const fn new(tokens: u32, width: u32, rows: u32) -> Self {
        Self::grouped(tokens, 1, width, rows)
    }

    /// As many products as `groups`, `x` being `[tokens, groups, width]`, the
    /// weight `[groups, rows, width]` and `y` `[tokens, groups, rows]`.
    pub const fn grouped(tokens: u32, groups: u32, width: u32, rows: u32) -> Self {
        Self {
            tokens,
            groups,
            width,
            rows,
        }
    }

    /// Elements of the input.
    pub const fn x_len(&self) -> usize {
        self.tokens as usize * self.groups as usize * self.width as usize
    }

    /// Elements of the weight.
    pub const fn weight_len(&self) -> usize {
        self.groups as usize * self.rows as usize * self.width as usize
    }

    /// Elements of the output.
    pub const fn y_len(&self) -> usize {
        self.tokens as usize * self.groups as usize * self.rows as usize
    }

    fn check(&self) -> Result<(), DimensionError> {
        // The distance between two tokens is an i32 to some of the library.
        let fits = |a: u32, b: u32| u64::from(a) * u64::from(b) <= i32::MAX as u64;
        Dims::of("gemm")
            .at_least_1("tokens", self.tokens)?
            .at_least_1("groups", self.groups)?
            .row("width", self.width)?
            .row("rows", self.rows)?
            .check(
                "groups",
                self.groups,
                self.groups < 1 << 16
                    && fits(self.groups, self.width)
                    && fits(self.groups, self.rows),
                "such that a token's values are fewer than 2^31",
            )?;
        Ok(())
    }
}

/// What an algorithm may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmOptions {
    /// Bytes of workspace at the most.
    pub workspace: usize,
    /// Multiprocessors that the product shall make do with: work of other streams has
    /// the rest. All of the device with `None`, or where it has no more. The library
    /// takes it as a target; it chooses tiles, and the blocks of kernels that stay on
    /// their multiprocessor, by it.
    pub multiprocessors: Option<NonZeroU32>,
}

impl Default for GemmOptions {
    /// All multiprocessors, and the workspace that is worth giving: with more,
    /// cuBLASLt finds nothing faster for the products of a decode step.
    fn default() -> Self {
        Self {
            workspace: 8 << 20,
            multiprocessors: None,
        }
    }
}

/// What products of one device are made with.
#[derive(Clone, Debug)]
pub struct GemmLibrary(Library);

#[derive(Clone, Debug)]
enum Library {
    Twins(twin::Twins),
    #[cfg(feature = "cuda")]
    Lt(std::sync::Arc<lt::Lt>),
}

impl GemmLibrary {
    /// The most algorithms that [`proposals`](Self::proposals) gives.
    pub const PROPOSALS: usize = 8;

    /// Loads what `device` needs: cuBLASLt on a CUDA device, the twins on the
    /// simulated one.
    ///
    /// # Errors
    /// When cuBLASLt is not found or does not start, the device is neither, or
    /// inside a capture.
    pub fn new(device: &Device) -> Result<Self, GemmError> {
        match device.info().backend {
            Backend::Sim => Ok(Self(Library::Twins(twin::Twins::load(device)?))),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Ok(Self(Library::Lt(lt::Lt::load(device)?))),
            other => Err(GemmError::Backend(other)),
        }
    }

    /// The product of these sizes, with the algorithm that the library thinks the
    /// fastest.
    ///
    /// # Errors
    /// When a size is zero, `width` or `rows` is no multiple of 8 (16-byte rows),
    /// or the library has no algorithm.
    pub fn gemm<O: GemmOutput>(
        &self,
        shape: GemmShape,
        options: GemmOptions,
    ) -> Result<Gemm<O>, GemmError> {
        let mut found = self.at_most(1, shape, options)?;
        Ok(found.swap_remove(0))
    }

    /// The product of these sizes with each algorithm that the library proposes, at
    /// most [`PROPOSALS`](Self::PROPOSALS), what it thinks the fastest first. Between
    /// the first few it guesses: who runs a product often, measures. Two of them may
    /// differ in the last bits of a sum.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    pub fn proposals<O: GemmOutput>(
        &self,
        shape: GemmShape,
        options: GemmOptions,
    ) -> Result<Vec<Gemm<O>>, GemmError> {
        self.at_most(Self::PROPOSALS, shape, options)
    }

    /// One of these at the least.
    fn at_most<O: GemmOutput>(
        &self,
        most: usize,
        shape: GemmShape,
        options: GemmOptions,
    ) -> Result<Vec<Gemm<O>>, GemmError> {
        shape.check()?;
        let plans = match &self.0 {
            Library::Twins(twins) => vec![Plan::Twin(O::kernel(twins).clone())],
            #[cfg(feature = "cuda")]
            Library::Lt(library) => {
                let found = lt::Product::choose(library, shape, O::IS_F32, options, most)?;
                found.into_iter().map(Plan::Lt).collect()
            }
        };
        #[cfg(not(feature = "cuda"))]
        let _ = (most, options);
        let gemm = |plan| Gemm {
            shape,
            plan,
            output: PhantomData,
        };
        Ok(plans.into_iter().map(gemm).collect())
    }
}

/// One product, its algorithm fixed.
#[derive(Debug)]
pub struct Gemm<O: GemmOutput> {
    shape: GemmShape,
    plan: Plan<O>,
    output: PhantomData<fn() -> O>,
}

#[derive(Debug)]
enum Plan<O: GemmOutput> {
    Twin(streamweir_sched::LoadedKernel<O::Twin>),
    #[cfg(feature = "cuda")]
    Lt(std::sync::Arc<lt::Product>),
}

impl<O: GemmOutput> Gemm<O> {
    /// The sizes.
    pub const fn shape(&self) -> GemmShape {
        self.shape
    }

    /// Scratch that a launch takes, in bytes; none on the simulated device.
    pub fn workspace(&self) -> usize {
        match &self.plan {
            Plan::Twin(_) => 0,
            #[cfg(feature = "cuda")]
            Plan::Lt(product) => product.workspace(),
        }
    }

    /// Records the product. `x`, `weight` and `y` may be longer than the sizes
    /// say; the rest is not touched.
    ///
    /// # Errors
    /// When a buffer is too short, of another capture or device; when one does
    /// not begin at a multiple of 16 bytes; when the library refuses. In a
    /// planned capture the last two come from its end.
    #[track_caller]
    pub fn launch<L, X, W, Y>(
        &self,
        stream: &Stream<L>,
        x: &X,
        weight: &W,
        y: &Y,
    ) -> streamweir_sched::Result<()>
    where
        L: Lane,
        X: Buffer<Item = bf16> + VisibleOn<L>,
        W: Buffer<Item = bf16> + VisibleOn<L>,
        Y: Buffer<Item = O> + VisibleOn<L>,
    {
        let x = part(x, 0..self.shape.x_len())?;
        let weight = part(weight, 0..self.shape.weight_len())?;
        let y = part(y, 0..self.shape.y_len())?;
        match &self.plan {
            Plan::Twin(kernel) => O::launch(stream, kernel, &self.shape, x, weight, y),
            #[cfg(feature = "cuda")]
            Plan::Lt(product) => lt::Product::launch(product, stream, &x, &weight, &y),
        }
    }
}
