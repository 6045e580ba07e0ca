//! Buffers as arguments: what may be passed, parts of it, and what is declared
//! beside the arguments.

mod joined;
mod part;
mod place;
mod touch;

pub use self::joined::{Joined, Seen};
pub use self::part::{Cast, Part, cast, narrow, part};
pub(super) use self::place::Memory;
pub use self::place::{Buffer, Place};
pub use self::touch::{Touch, atomics, reads, updates, writes};
