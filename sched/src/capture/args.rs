//! Arguments of a launch, bound to the parameters of a signature.

use streamweir_trace::AccessMode;

use super::buffer::{Buffer, Place};
use super::lane::VisibleOn;
use super::recorder::Recorder;
use super::recording::{Draft, Pointer};
use crate::driver::ParamSlot;
use crate::error::Result;
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
    recorder: &'a Recorder,
    draft: &'a mut Draft,
    /// The parameters of the kernel.
    slots: &'a [ParamSlot],
    next: usize,
}

impl<'a> Binder<'a> {
    pub(super) fn new(
        recorder: &'a Recorder,
        draft: &'a mut Draft,
        slots: &'a [ParamSlot],
    ) -> Self {
        Self {
            recorder,
            draft,
            slots,
            next: 0,
        }
    }

    fn pointer(&mut self, place: Place<'_>, mode: AccessMode) -> Result<()> {
        let buffer = self.recorder.touch(self.draft, &place, mode)?;
        let address = place.memory.range().start + place.pointer;
        self.draft.pointers.push(Pointer {
            param: self.next as u32,
            buffer,
            offset: place.pointer,
        });
        self.scalar(&address.to_ne_bytes());
        Ok(())
    }

    fn scalar(&mut self, value: &[u8]) {
        // `slots` is the declaration's own layout, and the implementation of
        // `Args` for its tuple hands each parameter over once and in its type.
        let slot = self.slots[self.next];
        debug_assert_eq!(slot.size as usize, value.len());
        let params = &mut self.draft.params;
        params.resize(slot.offset as usize, 0);
        params.extend_from_slice(value);
        self.next += 1;
    }
}
