//! Handles of the trait and pointers of the driver, converted in one place.

use cudarc::driver::sys;

use crate::driver::{
    EventHandle, ExecHandle, FunctionHandle, GraphHandle, ModuleHandle, NodeHandle, StreamHandle,
};

/// A handle that stands for a pointer of the driver.
pub(super) trait Raw: Sized {
    /// The driver's type.
    type Pointer;

    /// The driver's pointer.
    fn raw(self) -> Self::Pointer;

    /// The handle of a pointer that the driver gave.
    fn of(pointer: Self::Pointer) -> Self;
}

macro_rules! raw {
    ($($handle:ident = $pointer:ident;)*) => {
        $(impl Raw for $handle {
            type Pointer = sys::$pointer;

            #[inline]
            fn raw(self) -> sys::$pointer {
                self.0 as sys::$pointer
            }

            #[inline]
            fn of(pointer: sys::$pointer) -> Self {
                Self(pointer as u64)
            }
        })*
    };
}

raw! {
    StreamHandle = CUstream;
    EventHandle = CUevent;
    GraphHandle = CUgraph;
    NodeHandle = CUgraphNode;
    ExecHandle = CUgraphExec;
    ModuleHandle = CUmodule;
    FunctionHandle = CUfunction;
}
