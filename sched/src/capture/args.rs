//! Arguments of a launch, bound to the parameters of a signature.

use streamweir_alloc::BlockId;
use streamweir_trace::AccessMode;

use super::lane::VisibleOn;
use super::place::{Buffer, Memory, Place};
use super::record::{BufferKey, Recording};
use super::session::Core;
use crate::error::{Error, Result};
use crate::kernel::{Atomic, Element, In, InOut, Kernel, Out, Scalar};

/// A tuple of arguments that fits the parameters of kernel `K` on a stream of
/// lane `L`. Implemented by [`kernel!`](crate::kernel!).
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the arguments of kernel `{K}`",
    label = "one argument for each parameter of `{K}`, in a tuple"
)]
pub trait Args<K: Kernel, L> {
    /// Hands each argument over, in order.
    ///
    /// # Errors
    /// When a buffer is of another capture or device.
    #[doc(hidden)]
    fn bind(&self, binder: &mut Binder<'_>) -> Result<()>;
}

/// An argument that fits a parameter of type `S` on a stream of lane `L`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit a parameter declared as `{S}`",
    label = "expected an argument for `{S}`"
)]
pub trait Arg<S, L> {
    /// Hands the argument over.
    ///
    /// # Errors
    /// When it is a buffer of another capture or device.
    #[doc(hidden)]
    fn bind(&self, binder: &mut Binder<'_>) -> Result<()>;
}

macro_rules! buffer_args {
    ($($spec:ident),+) => {
        $(
            impl<T: Element, L, B: Buffer<Item = T> + VisibleOn<L>> Arg<$spec<T>, L> for B {
                fn bind(&self, binder: &mut Binder<'_>) -> Result<()> {
                    binder.pointer(self.place(), <$spec<T> as crate::kernel::BufferSpec>::MODE)
                }
            }
        )+
    };
}

buffer_args!(In, Out, InOut, Atomic);

impl<S: Scalar, L> Arg<S, L> for S {
    fn bind(&self, binder: &mut Binder<'_>) -> Result<()> {
        binder.scalar(bytemuck::bytes_of(self));
        Ok(())
    }
}

/// Collects the arguments of one launch.
#[doc(hidden)]
pub struct Binder<'a> {
    pub(super) core: &'a Core,
    pub(super) recording: &'a mut Recording,
    /// Where the parameter buffer of this launch starts.
    pub(super) base: usize,
    /// The parameters of the kernel.
    pub(super) slots: &'a [crate::driver::ParamSlot],
    pub(super) next: usize,
}

impl Binder<'_> {
    fn pointer(&mut self, place: Place<'_>, mode: AccessMode) -> Result<()> {
        let key = touch(self.core, self.recording, &place, mode)?;
        let address = place.memory.range().start + place.pointer;
        self.recording.add_pointer(self.next, key, place.pointer);
        self.scalar(&address.to_ne_bytes());
        Ok(())
    }

    fn scalar(&mut self, value: &[u8]) {
        // `slots` is the declaration's own layout, and the implementation of
        // `Args` for its tuple hands each parameter over once and in its type.
        let slot = self.slots[self.next];
        debug_assert_eq!(slot.size as usize, value.len());
        let at = self.base + slot.offset as usize;
        let bytes = &mut self.recording.param_bytes;
        bytes.resize(at, 0);
        bytes.extend_from_slice(value);
        self.next += 1;
    }
}

/// Records that the next command touches a place.
pub(super) fn touch(
    core: &Core,
    recording: &mut Recording,
    place: &Place<'_>,
    mode: AccessMode,
) -> Result<BufferKey> {
    let key = match place.memory {
        Memory::Scratch { session, block, .. } => {
            if !std::sync::Arc::ptr_eq(session, &core.session) {
                return Err(other_capture(core, session, block));
            }
            recording.touched.push(block);
            BufferKey::scratch(block)
        }
        Memory::Persistent(inner) => {
            if !inner.is_on(&core.device) {
                return Err(Error::OtherDevice {
                    what: format!("persistent buffer \"{}\"", inner.name),
                    used_on: core.device.reclaim.info().name.clone(),
                });
            }
            recording.persistent(inner)
        }
    };
    recording.add_access(key, place.bytes, mode);
    Ok(key)
}

#[cold]
fn other_capture(core: &Core, session: &super::session::Session, block: BlockId) -> Error {
    Error::OtherCapture {
        what: format!("scratch buffer \"{}\"", session.block_name(block)),
        made_in: session.name.to_string(),
        used_in: core.session.name.to_string(),
    }
}
