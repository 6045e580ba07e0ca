//! Which bytes the kernels of a graph write, found by running them.
//!
//! A pointer among a kernel's parameters says that it may touch memory, and no
//! more. [`infer_writes`] runs each kernel of an [`Audit`] by itself, as a graph
//! of one node with the parameters and attributes that were read back, and looks
//! at which bytes of the known memory change.
//!
//! # What is guaranteed
//! - **A write that is reported was observed**: nothing else ran, and the byte
//!   was different afterwards. Two observed writes of one byte on unordered
//!   nodes are a proven hazard.
//! - **A write that is not reported may happen all the same**: with other
//!   values, or of the value that was there. The access stays possible, and is
//!   never called a read.
//! - Whether a kernel writes with atomic operations is not seen. Two kernels
//!   that add to one counter atomically are reported as two that write it.
//! - All known memory is restored before every trial and after the last one.
//! - Values are changed only where neither the old nor the new one looks like an
//!   index or an address: first in what a trial saw written, then in each block
//!   that the kernel has an address of, one at a time, since what an earlier run
//!   left is written again unseen. The patterns are small positive numbers in
//!   every floating-point format. Indices and pointers are never touched.
//! - What cannot be tried is named: see [`Outcome::NotInferred`].
//!
//! # The child process
//! A kernel may hang or fault in a trial, and a fault takes the context with it.
//! Kernels of libraries exist only in a process that has loaded them, so the
//! trials are made by this very program, started again with the same arguments
//! and the variable [`CHILD`]: it runs up to the same call, makes the trials
//! there, writes down what it saw and exits. The parent waits with a watchdog,
//! ends a child that hangs, notes the node and starts another one without it.
//! Results name nodes by place, function and shape and bytes by block, since
//! addresses differ between processes; a child that has another graph is an
//! error. The program must therefore reach the call the same way each time, and
//! what it does before the call is done again.

mod inference;
mod marks;
mod refuse;
mod trial;
mod watch;
mod wire;

use crate::audit::Audit;
use crate::device::Device;
use crate::error::Result;

pub use inference::{InferOptions, Inference, Isolation, Outcome};
pub use watch::{CHILD, Watchdog};

/// Looks for the writes of every kernel of `audit` whose accesses are not
/// declared.
///
/// In a child of another call this returns what that call found before.
///
/// # Errors
/// When known memory is larger than allowed, the driver fails, the child cannot
/// be started, does not reach this call, or has another graph there.
///
/// # Safety
/// The graph that was audited is live, and so is all that its kernels use.
/// Nothing else runs on the device's memory meanwhile. With
/// [`Isolation::Here`], kernels write no memory that the audit does not know,
/// unless nobody minds.
pub unsafe fn infer_writes(
    device: &Device,
    audit: &Audit,
    options: &InferOptions,
) -> Result<Inference> {
    device.inner.outside("infer_writes")?;
    match options.isolation {
        // SAFETY: the caller's promise.
        Isolation::Here => unsafe { trial::run(device, audit, options, &[], &mut |_| Ok(())) },
        // SAFETY: the caller's promise.
        Isolation::Child => unsafe { wire::in_child(device, audit, options) },
    }
}
