//! The product on the simulated device.

use std::fmt::Debug;

use bytemuck::Pod;
use half::bf16;
use streamweir_sched::driver::sim::{SimBlock, SimFault};
use streamweir_sched::driver::{LaunchShape, ModuleImage};
use streamweir_sched::kernel::{Element, Extent, In, Kernel, Out, Ptr, Refusal, twin};
use streamweir_sched::{Buffer, Device, Lane, LoadedKernel, Stream, VisibleOn, kernel};

use super::{GemmError, GemmShape};
use crate::reference;

kernel! {
    /// The product, bf16 out.
    ///
    /// # Safety
    /// A block reads a token's input and its rows of the weight of one group, and writes
    /// as many results.
    pub unsafe fn gemm_bf16(
        x: In<bf16>,
        weight: In<bf16>,
        y: Out<bf16>,
        groups: u32,
        width: u32,
        rows: u32;
        tokens: u32,
    ) {
        shape(x, weight, y, &GemmShape { tokens, groups, width, rows })
    }

    /// The product, f32 out.
    ///
    /// # Safety
    /// As for [`gemm_bf16`].
    pub unsafe fn gemm_f32(
        x: In<bf16>,
        weight: In<bf16>,
        y: Out<f32>,
        groups: u32,
        width: u32,
        rows: u32;
        tokens: u32,
    ) {
        shape(x, weight, y, &GemmShape { tokens, groups, width, rows })
    }
}

/// The twins, loaded.
#[derive(Clone, Debug)]
pub struct Twins {
    bf16: LoadedKernel<gemm_bf16>,
    f32: LoadedKernel<gemm_f32>,
}

impl Twins {
    pub(super) fn load(device: &Device) -> Result<Self, GemmError> {
        let module = device.load(&ModuleImage::Sim(vec![
            twin::<gemm_bf16>(|block, (x, weight, y, groups, width, rows)| {
                run(block, (x, weight, y), (groups, width, rows), bf16::from_f64)
            }),
            twin::<gemm_f32>(|block, (x, weight, y, groups, width, rows)| {
                run(block, (x, weight, y), (groups, width, rows), |v| v as f32)
            }),
        ]))?;
        // SAFETY: the module has the twins of these very declarations.
        unsafe {
            Ok(Self {
                bf16: module.kernel()?,
                f32: module.kernel()?,
            })
        }
    }
}

/// Rows of a weight that one block owns.
const ROWS_PER_BLOCK: u32 = 64;

/// A block for some rows of each group and token.
fn shape(x: Extent, weight: Extent, y: Extent, of: &GemmShape) -> Result<LaunchShape, Refusal> {
    x.holds([of.tokens, of.groups, of.width])?;
    weight.holds([of.groups, of.rows, of.width])?;
    y.holds([of.tokens, of.groups, of.rows])?;
    Ok(LaunchShape::from((
        [of.rows.div_ceil(ROWS_PER_BLOCK), of.groups, of.tokens],
        [1, 1, 1],
    )))
}

/// A block for some rows of a group, and a token.
fn run<O: Pod>(
    block: &mut SimBlock<'_>,
    (x, weight, y): (Ptr<bf16>, Ptr<bf16>, Ptr<O>),
    (groups, width, rows): (u32, u32, u32),
    round: impl Fn(f64) -> O,
) -> Result<(), SimFault> {
    let [row_block, group, token] = block.index();
    let first = row_block * ROWS_PER_BLOCK;
    let here = first as usize..rows.min(first + ROWS_PER_BLOCK) as usize;
    let width = width as usize;
    let group_row = group as usize * rows as usize + here.start;
    let in_token = token as usize * groups as usize + group as usize;
    let x = block.read(x.at(in_token * width), width)?;
    let weight = block.read(weight.at(group_row * width), here.len() * width)?;
    let values: Vec<O> = reference::projection(x, weight, width)
        .into_iter()
        .map(round)
        .collect();
    block.write(y.at(in_token * rows as usize + here.start), &values)
}

/// What a product can give: bf16 or f32.
pub trait GemmOutput: Element + Debug + sealed::Sealed {
    #[doc(hidden)]
    type Twin: Kernel + Debug;

    #[doc(hidden)]
    const IS_F32: bool;

    #[doc(hidden)]
    fn kernel(twins: &Twins) -> &LoadedKernel<Self::Twin>;

    #[doc(hidden)]
    #[track_caller]
    fn launch<L, X, W, Y>(
        stream: &Stream<L>,
        kernel: &LoadedKernel<Self::Twin>,
        shape: &GemmShape,
        x: X,
        weight: W,
        y: Y,
    ) -> streamweir_sched::Result<()>
    where
        L: Lane,
        X: Buffer<Item = bf16> + VisibleOn<L>,
        W: Buffer<Item = bf16> + VisibleOn<L>,
        Y: Buffer<Item = Self> + VisibleOn<L>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! outputs {
    ($($output:ident => $twin:ident, $is_f32:literal;)+) => {
        $(
            impl sealed::Sealed for $output {}

            impl GemmOutput for $output {
                type Twin = $twin;
                const IS_F32: bool = $is_f32;

                fn kernel(twins: &Twins) -> &LoadedKernel<$twin> {
                    &twins.$output
                }

                #[track_caller]
                fn launch<L, X, W, Y>(
                    stream: &Stream<L>,
                    kernel: &LoadedKernel<$twin>,
                    shape: &GemmShape,
                    x: X,
                    weight: W,
                    y: Y,
                ) -> streamweir_sched::Result<()>
                where
                    L: Lane,
                    X: Buffer<Item = bf16> + VisibleOn<L>,
                    W: Buffer<Item = bf16> + VisibleOn<L>,
                    Y: Buffer<Item = Self> + VisibleOn<L>,
                {
                    let &GemmShape {
                        tokens,
                        groups,
                        width,
                        rows,
                    } = shape;
                    stream.launch(
                        kernel,
                        $twin {
                            x,
                            weight,
                            y,
                            groups,
                            width,
                            rows,
                            tokens,
                        },
                    )
                }
            }
        )+
    };
}

outputs! {
    bf16 => gemm_bf16, false;
    f32 => gemm_f32, true;
}
