//! The declaration of a kernel's parameters.

use std::fmt;

use streamweir_hal::driver::ParamSlot;
use streamweir_trace::{BlockSync, PdlWait};

use super::spec::{FieldDecl, Role, Spec};

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
    /// Pairs of parameters that may be given the same bytes although the kernel
    /// writes one of them.
    pub in_place: &'static [(&'static str, &'static str)],
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
            in_place: &[],
        }
    }

    /// The same with the pairs of parameters that may be one buffer.
    #[must_use]
    pub const fn with_in_place(self, in_place: &'static [(&'static str, &'static str)]) -> Self {
        Self { in_place, ..self }
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
                Role::Fields(fields) => {
                    write!(f, "{separator}{}: {{", param.name)?;
                    for (i, field) in fields.iter().enumerate() {
                        f.write_str(if i == 0 { "" } else { ", " })?;
                        match (field.role, field.name) {
                            (Role::Buffer { mode, .. }, "") => write!(f, "{mode}")?,
                            (Role::Buffer { mode, .. }, name) => write!(f, "{name}: {mode}")?,
                            (_, name) => f.write_str(name)?,
                        }
                    }
                    f.write_str("}")?;
                }
            }
        }
        f.write_str(")")
    }
}

/// One field of a struct of parameters, before it has a place.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct FieldShape {
    name: &'static str,
    size: u32,
    align: u32,
    role: Role,
}

impl FieldShape {
    /// The field `name` of type `S`.
    pub const fn of<S: Spec>(name: &'static str) -> Self {
        Self {
            name,
            size: S::SIZE,
            align: S::ALIGN,
            role: S::ROLE,
        }
    }
}

/// The fields of a struct, each at its place: C layout.
#[doc(hidden)]
pub const fn fields<const N: usize>(shapes: [FieldShape; N]) -> [FieldDecl; N] {
    let mut fields = [FieldDecl {
        name: "",
        offset: 0,
        role: Role::Scalar,
    }; N];
    let (mut at, mut end) = (0, 0_u32);
    while at < N {
        let shape = shapes[at];
        let offset = end.next_multiple_of(shape.align);
        end = offset + shape.size;
        fields[at] = FieldDecl {
            name: shape.name,
            offset,
            role: shape.role,
        };
        at += 1;
    }
    fields
}

/// Size and alignment of the struct.
#[doc(hidden)]
pub const fn layout<const N: usize>(shapes: [FieldShape; N]) -> (u32, u32) {
    let (mut at, mut end, mut align) = (0, 0_u32, 1);
    while at < N {
        let shape = shapes[at];
        end = end.next_multiple_of(shape.align) + shape.size;
        if shape.align > align {
            align = shape.align;
        }
        at += 1;
    }
    (end.next_multiple_of(align), align)
}
