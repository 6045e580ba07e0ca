//! The declaration of a kernel's parameters.

use std::fmt;
use std::marker::PhantomData;

use streamweir_trace::{AccessMode, BlockSync, PdlWait};

use super::element::{Element, Ptr, Scalar};
use crate::driver::ParamSlot;

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

    /// Size in bytes.
    const SIZE: u32;

    /// Alignment in bytes.
    const ALIGN: u32;

    /// What the parameter is for.
    const ROLE: Role;

    /// Reads the value at its place in a parameter buffer.
    fn decode(bytes: &[u8]) -> Self::Raw;

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
}

/// A parameter that is a buffer.
pub trait BufferSpec {
    /// How the kernel touches it.
    const MODE: AccessMode;
}

macro_rules! buffer_spec {
    ($($name:ident => $mode:ident),*) => {
        $(impl<T: Element> BufferSpec for $name<T> {
            const MODE: AccessMode = AccessMode::$mode;
        }

        impl<T: Element> Spec for $name<T> {
            type Raw = Ptr<T>;
            const SIZE: u32 = 8;
            const ALIGN: u32 = 8;
            const ROLE: Role =
                Role::Buffer { mode: AccessMode::$mode, element: size_of::<T>() as u32 };

            fn decode(bytes: &[u8]) -> Ptr<T> {
                Ptr::new(bytemuck::pod_read_unaligned(bytes))
            }
        })*
    };
}

buffer_spec!(In => Read, Out => Write, InOut => ReadWrite, Atomic => Atomic);

impl<T: Scalar> Spec for T {
    type Raw = T;
    const SIZE: u32 = size_of::<T>() as u32;
    const ALIGN: u32 = align_of::<T>() as u32;
    const ROLE: Role = Role::Scalar;

    fn decode(bytes: &[u8]) -> T {
        bytemuck::pod_read_unaligned(bytes)
    }
}

/// One parameter of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamDecl {
    /// The name.
    pub name: &'static str,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// What it is for.
    pub role: Role,
}

impl ParamDecl {
    /// The parameter `name` of type `S`.
    pub const fn of<S: Spec>(name: &'static str) -> Self {
        Self {
            name,
            size: S::SIZE,
            align: S::ALIGN,
            role: S::ROLE,
        }
    }
}

/// A kernel's declaration: its symbol and its parameters in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The symbol in the module.
    pub symbol: &'static str,
    /// The parameters.
    pub params: &'static [ParamDecl],
    /// Whether the blocks of a launch wait for each other.
    pub sync: BlockSync,
    /// Whether the kernel waits for what it follows, so that it may start before
    /// that has ended.
    pub pdl: PdlWait,
}

impl Signature {
    /// The declaration of `symbol`, whose blocks do not wait for each other and
    /// which does not start early.
    pub const fn new(symbol: &'static str, params: &'static [ParamDecl]) -> Self {
        Self {
            symbol,
            params,
            sync: BlockSync::Independent,
            pdl: PdlWait::None,
        }
    }

    /// The same with what the blocks of a launch do.
    #[must_use]
    pub const fn with_sync(self, sync: BlockSync) -> Self {
        Self { sync, ..self }
    }

    /// The same with what the kernel does about what it follows.
    #[must_use]
    pub const fn with_pdl(self, pdl: PdlWait) -> Self {
        Self { pdl, ..self }
    }

    /// Where each parameter stands in the parameter buffer: C layout.
    pub fn slots(&self) -> Vec<ParamSlot> {
        let mut end = 0;
        self.params
            .iter()
            .map(|param| {
                let offset = u32::next_multiple_of(end, param.align);
                end = offset + param.size;
                ParamSlot {
                    offset,
                    size: param.size,
                }
            })
            .collect()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.symbol)?;
        for (i, param) in self.params.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            match param.role {
                Role::Buffer { mode, .. } => write!(f, "{separator}{}: {mode}", param.name)?,
                Role::Scalar => write!(f, "{separator}{}: {} bytes", param.name, param.size)?,
            }
        }
        f.write_str(")")
    }
}
