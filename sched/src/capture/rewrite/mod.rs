//! Rewrites: what a capture can be made to do besides its work, so that an
//! error shows itself.
//!
//! | rewrite | what it adds |
//! | --- | --- |
//! | [`Poison`] | fills of scratch whose content nobody may rely on |
//! | [`Taps`] | copies of what each command read and wrote |
//!
//! A rewrite looks at one command, or at one block that is taken or dropped, and
//! returns the commands to be added. It sends nothing and records nothing: the
//! recorder does that with the added commands as with any other, and does not
//! rewrite them again. So the verifier sees them, and graphs, planned captures
//! and eager runs have them alike. This goes command by command, for a live
//! capture sends each at once. A capture without rewrites has no node and makes
//! no call for them.

mod added;
mod element;
mod poison;
mod readings;
mod rewrites;
mod tapping;
mod taps;

pub(super) use self::added::{Added, Holder, Taken};
pub(super) use self::element::ElementKind;
pub use self::poison::Poison;
pub use self::readings::{Difference, Differential, Readings};
pub(super) use self::rewrites::Rewrites;
pub use self::taps::Taps;
