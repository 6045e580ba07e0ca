//! Kernels: a declaration with access modes and a check, vouched for once.
//!
//! The declaration is the promise that the proof stands on. It says of every
//! pointer whether the kernel reads it, writes it or both, how long each parameter
//! is, and, in its body, which arguments the kernel takes and in which shape it is
//! launched. It is written once, by [`kernel!`](crate::kernel!), next to the
//! kernel, and checked against the compiled code when the kernel is loaded. It is
//! `unsafe fn`: its author vouches that for arguments that pass the check, and
//! whatever the buffers contain, the kernel touches what it declares, inside the
//! buffers, and nothing else. From there on a launch is safe.
//!
//! ```
//! use streamweir_sched::kernel;
//! use streamweir_sched::kernel::{In, Kernel, Out};
//!
//! kernel! {
//!     /// `output[i] = factor * input[i]` for `i < len`.
//!     ///
//!     /// # Safety
//!     /// A thread touches its own element of either buffer, and none from `len` on.
//!     pub unsafe fn scale(input: In<f32>, output: Out<f32>, factor: f32, len: u32) {
//!         input.holds([len])?;
//!         output.holds([len])?;
//!         Ok((len.div_ceil(256), 256).into())
//!     }
//! }
//!
//! assert_eq!(scale::SYMBOL, "scale");
//! assert_eq!(scale::signature().slots().last().map(|s| (s.offset, s.size)), Some((20, 4)));
//! ```

mod check;
mod declare;
mod element;
mod signature;
mod spec;

pub(crate) use check::Bound;
#[doc(hidden)]
pub use check::{Argument, Given};
pub use check::{Extent, Refusal, TableExtent};
pub use element::{Element, Ptr, Scalar};
#[doc(hidden)]
pub use signature::{FieldShape, fields, layout};
pub use signature::{ParamDecl, Signature};
pub use spec::{Atomic, BufferSpec, FieldDecl, In, InOut, Out, Role, Spec};
pub use streamweir_trace::{BlockSync, PdlWait};

use streamweir_hal::sim::{SimBlock, SimFault, SimKernel};

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
