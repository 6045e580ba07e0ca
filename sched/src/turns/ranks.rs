//! The locks of this crate that are taken one inside the other, outermost first.
//! All others are leaves.

use streamweir_base::sync::Rank;

/// The groups of a device.
pub(crate) const GROUPS: Rank = Rank::new(10, "the groups of a device");
/// The graphs of a group, asked for conflicts while the groups are held.
pub(crate) const MEMBERS: Rank = Rank::new(20, "the graphs of a group");
/// The turns of groups, by the number of the group.
pub(crate) const TURN: Rank = Rank::new(30, "the turn of a group");
/// A graph's own latest launch, entered while its turns are held.
pub(crate) const LATEST: Rank = Rank::new(40, "the latest launch of a graph");
/// The event of a launch, recorded when another launch takes its turn.
pub(crate) const EVENT: Rank = Rank::new(50, "the event of a launch");
