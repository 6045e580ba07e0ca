//! Arguments of a launch, bound to the parameters of a signature.

use streamweir_hal::driver::{LaunchShape, ParamSlot};
use streamweir_trace::{AccessMode, ByteRange};

use super::buffer::{Buffer, Memory, Place};
use super::lane::VisibleOn;
use super::recorder::Recorder;
use super::recording::{BufferKey, Draft, Pointer};
use crate::device::Table;
use crate::error::Result;
use crate::kernel::{
    Atomic, Bound, BufferSpec, Element, Given, In, InOut, Kernel, Out, Refusal, Scalar,
};

/// Arguments for the parameters of kernel `K` on a stream of lane `L`: the type of
/// the kernel, with an argument in each field. Implemented by
/// [`kernel!`](crate::kernel!).
///
/// # Safety
/// `bind` binds an argument to each parameter, in order and in the parameter's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the arguments of kernel `{K}`",
    label = "an argument for each parameter: `{K} {{ .. }}`"
)]
pub unsafe trait Args<K: Kernel, L> {
    /// Hands each argument over, in order.
    ///
    /// # Errors
    /// When a buffer is of another capture or device.
    #[doc(hidden)]
    fn bind(&self, binder: &mut Binder<'_>) -> Result<()>;
}

/// Arguments of a kernel whose declaration has a check.
///
/// # Safety
/// For arguments that pass, launched in the shape that comes out, and whatever the
/// buffers contain, the kernel touches what it declares, within the buffers, and
/// nothing else.
#[diagnostic::on_unimplemented(
    message = "a launch of `{K}` with `{Self}` is not checked",
    label = "give the arguments by name, `{K} {{ .. }}`, each as its parameter takes it",
    note = "only an `unsafe fn` with a body in `kernel!` has a check, for which its author vouches; a kernel without one is launched by `launch_unchecked`"
)]
pub unsafe trait CheckedArgs<K: Kernel, L>: Args<K, L> {
    /// The shape of the launch.
    ///
    /// # Errors
    /// When the kernel does not take the arguments.
    #[doc(hidden)]
    fn check(&self, given: Given<'_>) -> std::result::Result<LaunchShape, Refusal>;
}

/// An argument that fits a parameter of type `S` on a stream of lane `L`.
///
/// # Safety
/// `bind` writes the whole parameter, at its place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit a parameter declared as `{S}`",
    label = "expected an argument for `{S}`"
)]
pub unsafe trait Arg<S, L> {
    /// Hands the argument over, which stands `at` bytes from the start of the
    /// parameter.
    ///
    /// # Errors
    /// When it is a buffer of another capture or device.
    #[doc(hidden)]
    fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()>;
}

macro_rules! buffer_args {
    ($($spec:ident),+) => {
        $(
            // SAFETY: a buffer's parameter is its address.
            unsafe impl<T: Element, L, B: Buffer<Item = T> + VisibleOn<L>> Arg<$spec<T>, L> for B {
                fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()> {
                    binder.pointer(at, self.place(), <$spec<T> as BufferSpec>::MODE)
                }
            }
        )+
    };
}

buffer_args!(In, Out, InOut, Atomic);

/// A buffer that is there or a null pointer.
// SAFETY: the parameter is an address, of the buffer or null.
unsafe impl<S: BufferSpec, L, B: Arg<S, L>> Arg<Option<S>, L> for Option<B> {
    fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()> {
        match self {
            Some(buffer) => buffer.bind(binder, at),
            None => {
                binder.bytes(at, &0_u64.to_ne_bytes());
                Ok(())
            }
        }
    }
}

// SAFETY: the parameter is as many addresses, one behind the other.
unsafe impl<S: BufferSpec, L, B: Arg<S, L>, const N: usize> Arg<[S; N], L> for [B; N] {
    fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()> {
        (0..)
            .zip(self)
            .try_for_each(|(index, buffer)| buffer.bind(binder, at + S::SIZE * index))
    }
}

// SAFETY: the parameter is the table's address.
unsafe impl<S: BufferSpec, L> Arg<Table<S>, L> for &Table<S> {
    fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()> {
        binder.pointer(at, self.addresses.place(), AccessMode::Read)?;
        self.entries.iter().try_for_each(|entry| {
            let place = Place::whole(Memory::Persistent(entry), entry.range.len());
            binder.touch(at, &place, S::MODE, true).map(drop)
        })
    }
}

// SAFETY: the parameter is the value.
unsafe impl<S: Scalar, L> Arg<S, L> for S {
    fn bind(&self, binder: &mut Binder<'_>, at: u32) -> Result<()> {
        binder.bytes(at, bytemuck::bytes_of(self));
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
    /// The parameter behind the one that is bound.
    next: usize,
}

impl<'a> Binder<'a> {
    pub(super) fn new(
        recorder: &'a Recorder,
        draft: &'a mut Draft,
        slots: &'a [ParamSlot],
    ) -> Self {
        // A byte that no argument is bound to, between parameters say, is zero.
        let end = slots.last().map_or(0, |slot| slot.offset + slot.size);
        draft.params.resize(end as usize, 0);
        Self {
            recorder,
            draft,
            slots,
            next: 0,
        }
    }

    /// Goes on to the next parameter.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) {
        self.next += 1;
    }

    fn pointer(&mut self, at: u32, place: Place<'_>, mode: AccessMode) -> Result<()> {
        let buffer = self.touch(at, &place, mode, false)?;
        self.draft.pointers.push(Pointer {
            param: (self.next - 1) as u32,
            at,
            buffer,
            offset: place.pointer,
        });
        let address = place.memory.range().start + place.pointer;
        self.bytes(at, &address.to_ne_bytes());
        Ok(())
    }

    /// Notes that the launch touches a place, whose address stands at `at` or in the
    /// table there.
    #[inline]
    fn touch(
        &mut self,
        at: u32,
        place: &Place<'_>,
        mode: AccessMode,
        in_table: bool,
    ) -> Result<BufferKey> {
        let buffer = self.recorder.touch(self.draft, place, mode)?;
        let start = place.memory.range().start;
        self.draft.narrowed |= place.bytes.start != place.pointer || place.bytes.end != place.end;
        self.draft.bound.push(Bound {
            param: (self.next - 1) as u32,
            at,
            in_table,
            address: start + place.pointer,
            reach: place.end.saturating_sub(place.pointer),
            touched: ByteRange::new(start + place.bytes.start, start + place.bytes.end),
            mode,
        });
        Ok(buffer)
    }

    #[inline]
    fn bytes(&mut self, at: u32, value: &[u8]) {
        // The slots are the declaration's own layout, and implementations of `Args`
        // and `Arg` stay in the parameter that they bind.
        let place = (self.slots[self.next - 1].offset + at) as usize;
        self.draft.params[place..place + value.len()].copy_from_slice(value);
    }
}
