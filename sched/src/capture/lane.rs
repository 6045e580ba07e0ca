//! Lanes: which stream a buffer is visible on, as a type.
//!
//! A stream and the scratch buffers taken on it carry a lane type. A launch on
//! a stream of lane `L` takes only buffers that are [`VisibleOn<L>`], and what
//! makes a buffer of another lane visible is the token that a fork or a join
//! returns: it can be had only by writing the ordering down. So a missing join
//! is a compile error, and a moved-away stream is one, too.
//!
//! Lanes say nothing about *when* a buffer was written relative to the join; a
//! token of an early join adopts a buffer written later just as well. That is
//! the verifier's to find, as is everything in code that uses the one lane
//! [`Dyn`], in which all is visible to all at compile time.

use std::marker::PhantomData;

use super::place::{Buffer, Place};

/// A type that stands for one captured stream of a capture.
///
/// Declare your own with [`lanes!`](crate::lanes!).
pub trait Lane: 'static {}

/// The lane of streams whose lane is not known to the compiler: everything of
/// this lane is visible, and the verifier decides.
#[derive(Debug)]
pub enum Dyn {}

impl Lane for Dyn {}

/// Declares lane types.
///
/// ```
/// streamweir_sched::lanes! {
///     /// Attention.
///     pub Main;
///     /// The sparse indexer.
///     pub Indexer;
/// }
/// ```
#[macro_export]
macro_rules! lanes {
    ($($(#[$meta:meta])* $vis:vis $name:ident;)+) => {
        $(
            $(#[$meta])*
            #[derive(Debug)]
            $vis enum $name {}

            impl $crate::Lane for $name {}
        )+
    };
}

/// A buffer that may be used on streams of lane `L`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not visible on a stream of lane `{L}`",
    label = "this buffer belongs to another stream, which has not been joined",
    note = "join its stream with `let seen = cap.join(&this_stream, other_stream)?` and pass `seen.see(&buffer)`; at a fork, the token that `fork_as` returns does the same for the parent's buffers"
)]
pub trait VisibleOn<L> {}

/// Says that stream `Into` continues after what stream `From` had recorded:
/// returned by a join, and by a fork for the other direction.
#[derive(Debug)]
pub struct Joined<Into = Dyn, From = Dyn> {
    lanes: PhantomData<fn(Into, From)>,
}

impl<Into, From> Joined<Into, From> {
    pub(super) fn new() -> Self {
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
