//! The certificate of a safe verdict, and its checker.
//!
//! A certificate says what it is about ([`About`]): the digest of a trace, what
//! the trace holds and what it takes for granted. And it says what is work to
//! find, so that a checker need not find it:
//! - a sequence of the nodes that the edges bear out, and a cover of the graph by
//!   chains, from which anyone can recompute the order in one pass;
//! - the free node of each allocation that no buffer names;
//! - the turns in which buffers come to the bytes that they share: wherever one
//!   of two writes, the one whose turn is first comes first;
//! - the nodes that are not analysed.
//!
//! It holds no clocks and no pairs of accesses, so it is a few bytes for each node
//! and each buffer.
//!
//! [`check`] trusts none of it. Of the verifier it shares nothing but this form
//! and [`digest`], which belongs to it: it validates each statement and goes
//! through the obligations of every rule again. What that proves and what it does
//! not is in `docs/certificate.md`.

mod about;
mod check;
mod claim;
mod digest;
mod error;
mod form;
mod turns;
mod version;

pub use about::About;
pub use check::check;
pub use claim::claim;
pub(crate) use claim::of_safe;
pub use digest::digest;
pub use error::CertificateError;
pub use form::Certificate;
pub use version::VERSION;
