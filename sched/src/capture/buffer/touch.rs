//! Accesses that are declared beside the arguments.

use std::marker::PhantomData;

use streamweir_trace::AccessMode;

use super::place::{Buffer, Place};
use crate::capture::lane::VisibleOn;

/// A declared access besides a kernel's parameters: memory that is reached
/// through a table, or that a foreign call touches.
pub struct Touch<'a, L> {
    pub(in crate::capture) place: Place<'a>,
    pub(in crate::capture) mode: AccessMode,
    lane: PhantomData<fn(L)>,
}

// A lane is a name; that its values cannot be cloned is no matter.
impl<L> Clone for Touch<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Touch<'_, L> {}

macro_rules! touches {
    ($($(#[$doc:meta])* $name:ident => $mode:ident;)+) => {
        $(
            $(#[$doc])*
            pub fn $name<'a, L, B: Buffer + VisibleOn<L> + ?Sized>(
                buffer: &'a B,
            ) -> Touch<'a, L> {
                Touch { place: buffer.place(), mode: AccessMode::$mode, lane: PhantomData }
            }
        )+
    };
}

touches! {
    /// The work reads the buffer.
    reads => Read;
    /// The work writes the buffer and does not read what was in it.
    writes => Write;
    /// The work reads and writes the buffer.
    updates => ReadWrite;
    /// The work touches the buffer by atomic operations alone.
    atomics => Atomic;
}
