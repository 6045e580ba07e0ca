//! What can be said of a live graph of any origin.
//!
//! A graph that PyTorch, cuBLAS or an engine has captured holds no declaration
//! of what its kernels touch. What the driver gives back is its nodes, edges
//! and the raw parameters of its kernels. From these [`audit`] makes a trace:
//!
//! | node | what is known of it |
//! | --- | --- |
//! | copy, fill | the bytes, from its operands: proof |
//! | allocation, free | a buffer of the graph (R7, R8) |
//! | child graph | expanded in place, between an entry and an exit, in the scope `child n17` |
//! | kernel that a noted call declares | what the call declares; words that it does not explain: possible |
//! | other kernel | the memory that a word of its parameters is an address of: possible |
//! | empty, event | its place in the order |
//! | everything else | listed as not analysed (R10) |
//!
//! A word is looked up in the memory that the caller names, in the persistent
//! buffers of the device, in the memory of the graph's allocation nodes, then
//! with the driver: device memory that is allocated and that nobody named is a
//! buffer without a name, so that two accesses of it are seen to conflict, and a
//! possible R3; memory of a persistent buffer that is gone, or that was
//! [said to be freed](crate::Device::freed), is a possible R4. Words
//! that are none of these are ignored. So pointers show conflicts and never the
//! lack of them, and a verdict without declared accesses lists what it assumes.
//!
//! Whose call made a node is found by capture information, noted around each
//! call with [`CallLog`], never by the order in which a driver lists nodes.
//! [`infer`](crate::infer) makes proofs of possible writes by running kernels.

mod audited;
mod calls;
mod inputs;
mod lower;
mod memory;
mod read;
mod shown;

use streamweir_hal::driver::GraphHandle;
use streamweir_trace::ByteRange;

pub use audited::Audit;
pub use calls::CallLog;
pub use inputs::{DeclaredAccess, KnownBuffer};
pub(crate) use memory::{Attributed, attribute};
pub(crate) use shown::{AddedMemory, add_memory, persistent, words};

use crate::device::Device;
use crate::error::Result;

/// What an audit is told beside the graph.
#[derive(Debug, Default)]
pub struct AuditOptions {
    /// The name of the capture.
    pub name: String,
    /// Memory beyond the device's persistent buffers. Where the two overlap,
    /// this counts.
    pub known: Vec<KnownBuffer>,
    /// Calls noted while the graph was captured.
    pub calls: CallLog,
}

impl AuditOptions {
    /// An audit called `name` that is told nothing more.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The same with one more piece of known memory.
    #[must_use]
    pub fn knowing(mut self, name: impl Into<String>, range: ByteRange) -> Self {
        self.known.push(KnownBuffer {
            name: name.into(),
            range,
        });
        self
    }
}

/// Reads a graph back from the driver and makes a trace of it.
///
/// # Errors
/// When the driver does not give its nodes or what they do, when it names a
/// node that it does not list, or inside a capture of streamweir.
///
/// # Safety
/// `graph` is a live graph of the device's context, which nobody changes
/// meanwhile and which is not being captured into.
pub unsafe fn audit(device: &Device, graph: GraphHandle, options: AuditOptions) -> Result<Audit> {
    device.inner.outside("audit")?;
    // SAFETY: the caller's promise.
    let live = unsafe { read::read(&device.inner.reclaim, graph) }?;
    let mut lowered = lower::lower(&options.name, live)?;
    options.calls.declare(&mut lowered);
    memory::resolve(device, &options.known, lowered)
}
