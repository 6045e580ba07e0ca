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

use std::any::TypeId;

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

/// A lane type: its identity, and its name for errors.
pub(super) type LaneId = (TypeId, &'static str);

/// The identity of a lane type; none for the lane of everything.
pub(super) fn lane_of<L: Lane>() -> Option<LaneId> {
    (TypeId::of::<L>() != TypeId::of::<Dyn>())
        .then(|| (TypeId::of::<L>(), std::any::type_name::<L>()))
}
