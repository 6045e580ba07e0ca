//! Kernels: a signature declared once, with its access modes.
//!
//! The signature is the promise that the proof stands on. It says of every
//! pointer whether the kernel reads it, writes it or both, and how long each
//! parameter is; it is written once, by [`kernel!`](crate::kernel!), next to
//! the kernel, and checked against the compiled code when the kernel is
//! loaded. A call site cannot weaken it: it passes buffers, may narrow their
//! byte ranges, and may add memory that the kernel reaches through a table.
//!
//! ```
//! use streamweir_sched::kernel;
//! use streamweir_sched::kernel::{In, Kernel, Out};
//!
//! kernel! {
//!     /// `output[i] = factor * input[i]` for `i < len`.
//!     pub fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32);
//! }
//!
//! assert_eq!(scale::SYMBOL, "scale");
//! assert_eq!(scale::signature().slots().last().map(|s| (s.offset, s.size)), Some((20, 4)));
//! ```

mod element;
mod signature;

pub use element::{Element, Ptr, Scalar};
pub use signature::{Atomic, BufferSpec, In, InOut, Out, ParamDecl, Role, Signature, Spec};
pub use streamweir_trace::{BlockSync, PdlWait};

use crate::driver::sim::{SimBlock, SimFault, SimKernel};

/// A kernel's signature as a type. Implemented by [`kernel!`](crate::kernel!).
pub trait Kernel: Copy + Send + Sync + 'static {
    /// The symbol in the module.
    const SYMBOL: &'static str;

    /// The parameters as the device sees them, in a tuple: a [`Ptr`] for each
    /// buffer, the value for each scalar.
    type Raw: Copy;

    /// The declaration.
    fn signature() -> Signature;

    /// Reads the parameters out of a raw parameter buffer that has the layout
    /// of [`signature`](Self::signature).
    fn decode(params: &[u8]) -> Self::Raw;
}

/// The CPU twin of kernel `K`, for the simulated device: `body` runs one thread
/// block.
pub fn twin<K: Kernel>(
    body: impl Fn(&mut SimBlock<'_>, K::Raw) -> Result<(), SimFault> + Send + Sync + 'static,
) -> SimKernel {
    SimKernel {
        symbol: K::SYMBOL,
        params: K::signature().slots(),
        run: std::sync::Arc::new(move |block: &mut SimBlock<'_>| {
            let raw = K::decode(block.params());
            body(block, raw)
        }),
    }
}

/// Declares kernels: name, parameters, access modes.
///
/// Each declaration makes a type of the kernel's name that implements
/// [`Kernel`](crate::kernel::Kernel). Buffers are `In<T>`, `Out<T>`, `InOut<T>`
/// or `Atomic<T>` from [`kernel`](mod@crate::kernel); every other type is a
/// scalar that implements [`Scalar`](crate::kernel::Scalar). The symbol is the
/// name, so declare the kernel `extern "C"` in CUDA C++. The
/// type has no value of its name, so that a variable may have it: name the
/// kernel by type, `module.kernel::<scale>()`.
///
/// # Blocks that wait for each other
/// `#[blocks(Spin)]` in front says that the blocks of the kernel spin on each
/// other's progress: a barrier over the grid, a counter that the last block
/// waits for. The verifier then refuses to have another kernel run beside it
/// (R14), for the blocks that spin may keep those that they wait for from
/// starting. `#[blocks(Cooperative)]` says that they do, and that a cooperative
/// launch makes them resident together; a plain launch, such as those of
/// [`Stream::launch`](crate::Stream::launch), does not, so there they spin.
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{BlockSync, In, InOut, Kernel, Out};
///
/// kernel! {
///     /// Top-k in one pass: the last block waits for the others.
///     #[blocks(Spin)]
///     pub fn top_k(scores: In<f32>, arrived: InOut<u32>, picked: Out<i32>, k: u32);
/// }
///
/// assert_eq!(top_k::signature().sync, BlockSync::Spin);
/// ```
///
/// # Kernels that start early
/// `#[waits]` says that every thread of the kernel executes `griddepcontrol.wait`
/// (`cudaGridDependencySynchronize()`) before it touches memory. The code has to be
/// compiled for compute capability 9.0 or later: in code for an older one there is
/// no such instruction, and the device runs it as it is. Launches of such a
/// kernel in a capture are programmatic, on devices of that capability: its
/// blocks are there when what it follows ends, or, where that says
/// `griddepcontrol.launch_dependents` (`cudaTriggerProgrammaticLaunchCompletion()`),
/// as soon as there is room. A kernel of a library before it needs to know nothing
/// of this. Proofs count on the wait, and reports list it among their assumptions.
/// [`CaptureOptions::programmatic`](crate::CaptureOptions::programmatic) switches it
/// off for a capture.
///
/// ```
/// use streamweir_sched::kernel;
/// use streamweir_sched::kernel::{In, Kernel, Out, PdlWait};
///
/// kernel! {
///     /// Calls `cudaGridDependencySynchronize()` first.
///     #[waits]
///     pub fn norm(x: In<f32>, out: Out<f32>, rows: u32);
/// }
///
/// assert_eq!(norm::signature().pdl, PdlWait::OnAllPaths);
/// ```
#[macro_export]
macro_rules! kernel {
    ($($(#[$($meta:tt)*])* $vis:vis fn $name:ident($($param:ident: $spec:ty),* $(,)?) $(;)?)+) => {
        $(
            $crate::__kernel_type! { [] [$([$($meta)*])*] $vis $name }

            impl $crate::kernel::Kernel for $name {
                const SYMBOL: &'static str = stringify!($name);

                type Raw = ($(<$spec as $crate::kernel::Spec>::Raw,)*);

                fn signature() -> $crate::kernel::Signature {
                    $crate::kernel::Signature::new(
                        stringify!($name),
                        &const { [$(
                            $crate::kernel::ParamDecl::of::<$spec>(stringify!($param)),
                        )*] },
                    )
                    .with_sync($crate::__kernel_sync!($([$($meta)*])*))
                    .with_pdl($crate::__kernel_pdl!($([$($meta)*])*))
                }

                #[allow(unused_variables, unused_mut, unused_assignments)]
                fn decode(params: &[u8]) -> Self::Raw {
                    let mut offset = 0;
                    ($($crate::kernel::Spec::decode_next(
                        ::core::marker::PhantomData::<$spec>,
                        params,
                        &mut offset,
                    ),)*)
                }
            }

            // The parameters' names serve as names of the arguments' types.
            #[allow(non_camel_case_types)]
            impl<__Lane, $($param: $crate::Arg<$spec, __Lane>),*>
                $crate::Args<$name, __Lane> for ($($param,)*)
            {
                #[allow(unused_variables)]
                fn bind(&self, binder: &mut $crate::Binder<'_>) -> $crate::Result<()> {
                    let ($($param,)*) = self;
                    $($crate::Arg::<$spec, __Lane>::bind($param, binder)?;)*
                    ::core::result::Result::Ok(())
                }
            }
        )+
    };
}

/// The type of a kernel, with all of its attributes but those that are for
/// [`kernel!`] itself.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_type {
    ([$($kept:tt)*] [] $vis:vis $name:ident) => {
        $(#$kept)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {}
    };
    ([$($kept:tt)*] [[blocks $($said:tt)*] $($more:tt)*] $vis:vis $name:ident) => {
        $crate::__kernel_type! { [$($kept)*] [$($more)*] $vis $name }
    };
    ([$($kept:tt)*] [[waits $($said:tt)*] $($more:tt)*] $vis:vis $name:ident) => {
        $crate::__kernel_type! { [$($kept)*] [$($more)*] $vis $name }
    };
    ([$($kept:tt)*] [$meta:tt $($more:tt)*] $vis:vis $name:ident) => {
        $crate::__kernel_type! { [$($kept)* $meta] [$($more)*] $vis $name }
    };
}

/// What the attribute `blocks` says, if there is one. A second one is refused:
/// whichever counted, a reader would take the other for true.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_sync {
    () => { $crate::kernel::BlockSync::Independent };
    ([blocks($sync:ident)] $($more:tt)*) => { $crate::__kernel_sync!(@only $sync $($more)*) };
    ([blocks $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("`blocks` takes one word: `#[blocks(Spin)]` or `#[blocks(Cooperative)]`")
    };
    (@only $sync:ident) => { $crate::kernel::BlockSync::$sync };
    (@only $sync:ident [blocks $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("a kernel has two attributes `blocks`: its blocks are of one kind, so leave one of them out")
    };
    (@only $sync:ident $meta:tt $($more:tt)*) => { $crate::__kernel_sync!(@only $sync $($more)*) };
    ($meta:tt $($more:tt)*) => { $crate::__kernel_sync!($($more)*) };
}

/// What the attribute `waits` says, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_pdl {
    () => { $crate::kernel::PdlWait::None };
    ([waits] $($more:tt)*) => { $crate::kernel::PdlWait::OnAllPaths };
    ([waits $($said:tt)*] $($more:tt)*) => {
        ::core::compile_error!("`waits` takes nothing: `#[waits]` says that every thread of the kernel waits for what the kernel follows before it touches memory")
    };
    ($meta:tt $($more:tt)*) => { $crate::__kernel_pdl!($($more)*) };
}
