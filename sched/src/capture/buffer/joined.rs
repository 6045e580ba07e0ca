//! Buffers of another lane, made visible by a join or a fork.

use std::marker::PhantomData;

use super::place::{Buffer, Place};
use crate::capture::lane::{Dyn, VisibleOn};

/// Says that stream `Into` continues after what stream `From` had recorded:
/// returned by a join, and by a fork for the other direction.
#[derive(Debug)]
pub struct Joined<Into = Dyn, From = Dyn> {
    lanes: PhantomData<fn(Into, From)>,
}

impl<Into, From> Joined<Into, From> {
    pub(in crate::capture) fn new() -> Self {
        Self { lanes: PhantomData }
    }

    /// Adopts a buffer that is visible on `From` for use on `Into`.
    pub fn see<B: Buffer + VisibleOn<From>>(&self, buffer: B) -> Seen<B, Into> {
        Seen {
            buffer,
            lane: PhantomData,
        }
    }
}

impl<Into, From> Clone for Joined<Into, From> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Into, From> Copy for Joined<Into, From> {}

/// A buffer adopted by the stream that joined its own.
#[derive(Clone, Copy, Debug)]
pub struct Seen<B, L> {
    buffer: B,
    lane: PhantomData<fn(L)>,
}

impl<B, L> VisibleOn<L> for Seen<B, L> {}

impl<B: Buffer, L> Buffer for Seen<B, L> {
    type Item = B::Item;

    fn place(&self) -> Place<'_> {
        self.buffer.place()
    }
}
