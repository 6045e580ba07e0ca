//! What a parameter can be: a buffer with its mode, one that may be null, an array
//! of buffers, a value.

use std::marker::PhantomData;

use streamweir_trace::AccessMode;

use super::check::{Argument, Extent};
use super::element::{Element, Ptr, Scalar};

/// A buffer that the kernel only reads.
pub struct In<T>(PhantomData<fn() -> T>);
/// A buffer that the kernel writes and whose former content it does not read.
pub struct Out<T>(PhantomData<fn() -> T>);
/// A buffer that the kernel reads and writes.
pub struct InOut<T>(PhantomData<fn() -> T>);
/// A buffer that the kernel touches by atomic operations alone.
pub struct Atomic<T>(PhantomData<fn() -> T>);

/// The type of one parameter in a [`kernel!`](crate::kernel!) declaration.
pub trait Spec {
    /// The value as the device sees it.
    type Raw: Copy;

    /// What the kernel's check sees of it: the [`Extent`] of a buffer, the value of
    /// a scalar.
    type Given: Copy;

    /// Size in bytes.
    const SIZE: u32;

    /// Alignment in bytes.
    const ALIGN: u32;

    /// What the parameter is for.
    const ROLE: Role;

    /// Reads the value at its place in a parameter buffer.
    fn decode(bytes: &[u8]) -> Self::Raw;

    /// What the check sees of an argument.
    #[doc(hidden)]
    fn given(argument: Argument<'_>) -> Self::Given;

    /// Reads the value at the next aligned place from `offset` on and moves
    /// `offset` behind it.
    fn decode_next(_: PhantomData<Self>, params: &[u8], offset: &mut usize) -> Self::Raw {
        let start = offset.next_multiple_of(Self::ALIGN as usize);
        *offset = start + Self::SIZE as usize;
        Self::decode(&params[start..*offset])
    }
}

/// What a parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A pointer to a buffer.
    Buffer {
        /// How the kernel touches it.
        mode: AccessMode,
        /// The size of one element in bytes.
        element: u32,
    },
    /// A value.
    Scalar,
    /// Several values in one parameter, pointers to buffers among them: a struct, or
    /// an array of buffers.
    Fields(&'static [FieldDecl]),
}

/// One field of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDecl {
    /// The name; of an array's elements none.
    pub name: &'static str,
    /// Offset in the parameter, in bytes.
    pub offset: u32,
    /// What it is for.
    pub role: Role,
}

/// A parameter that is a buffer.
pub trait BufferSpec: Spec<Raw = Ptr<Self::Item>, Given = Extent> {
    /// What the buffer holds.
    type Item: Element;

    /// How the kernel touches it.
    const MODE: AccessMode;
}

macro_rules! buffer_spec {
    ($($name:ident => $mode:ident),*) => {
        $(impl<T: Element> BufferSpec for $name<T> {
            type Item = T;
            const MODE: AccessMode = AccessMode::$mode;
        }

        impl<T: Element> Spec for $name<T> {
            type Raw = Ptr<T>;
            type Given = Extent;
            const SIZE: u32 = 8;
            const ALIGN: u32 = 8;
            const ROLE: Role =
                Role::Buffer { mode: AccessMode::$mode, element: size_of::<T>() as u32 };

            fn decode(bytes: &[u8]) -> Ptr<T> {
                Ptr::new(bytemuck::pod_read_unaligned(bytes))
            }

            fn given(argument: Argument<'_>) -> Extent {
                argument.buffer(size_of::<T>())
            }
        })*
    };
}

buffer_spec!(In => Read, Out => Write, InOut => ReadWrite, Atomic => Atomic);

/// A buffer that need not be there: the kernel looks whether the pointer is null.
impl<S: BufferSpec> Spec for Option<S> {
    type Raw = Option<Ptr<S::Item>>;
    type Given = Option<Extent>;
    const SIZE: u32 = S::SIZE;
    const ALIGN: u32 = S::ALIGN;
    const ROLE: Role = S::ROLE;

    fn decode(bytes: &[u8]) -> Self::Raw {
        Some(S::decode(bytes)).filter(|pointer| pointer.address != 0)
    }

    fn given(argument: Argument<'_>) -> Option<Extent> {
        argument.extent(size_of::<S::Item>())
    }
}

/// An array of buffers, passed by value.
impl<S: BufferSpec, const N: usize> Spec for [S; N] {
    type Raw = [Ptr<S::Item>; N];
    type Given = [Extent; N];
    const SIZE: u32 = S::SIZE * N as u32;
    const ALIGN: u32 = S::ALIGN;
    const ROLE: Role = Role::Fields(
        &const {
            let mut fields = [FieldDecl {
                name: "",
                offset: 0,
                role: S::ROLE,
            }; N];
            let mut at = 0;
            while at < N {
                fields[at].offset = S::SIZE * at as u32;
                at += 1;
            }
            fields
        },
    );

    fn decode(bytes: &[u8]) -> Self::Raw {
        let size = S::SIZE as usize;
        std::array::from_fn(|at| S::decode(&bytes[at * size..][..size]))
    }

    fn given(argument: Argument<'_>) -> Self::Given {
        std::array::from_fn(|at| {
            let argument = argument.field("an element", S::SIZE * at as u32, S::SIZE);
            S::given(argument)
        })
    }
}

impl<T: Scalar> Spec for T {
    type Raw = T;
    type Given = T;
    const SIZE: u32 = size_of::<T>() as u32;
    const ALIGN: u32 = align_of::<T>() as u32;
    const ROLE: Role = Role::Scalar;

    fn decode(bytes: &[u8]) -> T {
        bytemuck::pod_read_unaligned(bytes)
    }

    fn given(argument: Argument<'_>) -> T {
        Self::decode(argument.bytes())
    }
}
