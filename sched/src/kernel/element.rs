//! What buffers hold and what parameters are.

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

/// A type that device buffers hold: plain bytes of a fixed size.
pub trait Element: Pod + Send + Sync {}

impl<T: Pod + Send + Sync> Element for T {}

/// A type that is passed to a kernel by value: plain bytes whose layout in
/// Rust (`repr(C)` for a struct) is the one in CUDA C++.
pub trait Scalar: Pod + Send + Sync {}

macro_rules! scalars {
    ($($ty:ty),*) => { $(impl Scalar for $ty {})* };
}

scalars!(
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    u64,
    i64,
    f32,
    f64,
    half::f16,
    half::bf16
);

/// A typed device address, as a kernel receives it.
pub struct Ptr<T> {
    /// The device address.
    pub address: u64,
    element: PhantomData<fn() -> T>,
}

impl<T> Ptr<T> {
    /// The elements from `address` on.
    pub const fn new(address: u64) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// The address of element `index`.
    pub const fn at(self, index: usize) -> u64 {
        self.address + (index * size_of::<T>()) as u64
    }
}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)
    }
}
