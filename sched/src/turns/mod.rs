//! Taking turns: graphs and eager runs whose bytes conflict are never in flight
//! together (invariant 7).
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Footprint`] | the bytes that a graph reads and writes |
//! | [`Late`] | the event of a launch, recorded when it is asked for |
//! | [`Launch`] | one launch, and how others are ordered after it |
//! | [`Turn`] | the latest launch of a group, and how it is taken over |
//! | [`TurnGroup`], [`Groups`] | which graphs there are, and whose turns one takes |

mod footprint;
mod groups;
mod late;
mod launch;
mod ranks;
mod turn;

pub use footprint::Footprint;
pub(crate) use groups::{Enrolled, Groups, TurnGroup};
#[doc(hidden)]
pub use late::Late;
pub(crate) use launch::Launch;
pub(crate) use ranks::LATEST;
#[doc(hidden)]
pub use turn::{Turn, in_turn};
