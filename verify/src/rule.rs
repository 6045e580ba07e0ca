//! The list of rules.
//!
//! Each line names the file of a rule in `rules/`, the rule, where it is
//! decided, and what it forbids. The file has all the rest: the rule's number,
//! its check, its causes and the words for them. docs/contributing.md says how
//! to add one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Hands the list to another macro.
macro_rules! for_each_rule {
    ($then:ident) => {
        $then! {
            r01_unordered_conflict UnorderedConflict graph "Two concurrent accesses of one buffer overlap in bytes and one writes.";
            r02_shared_bytes SharedBytes graph "Two buffers share bytes, and not every access of one happens before every access of the other.";
            r03_unknown_memory UnknownMemory graph "A declared access or pointer is in no known memory.";
            r04_owner_gone OwnerGone graph "Scratch is used before its alloc point or after its free.";
            r05_in_flight InFlight session "Two launches of graphs, or a launch and eager work, whose bytes conflict may be in flight together, or a replay overwrites a live output.";
            r06_protocol Protocol graph "A forked stream is not joined, or a call broke the rules of capture.";
            r07_not_relaunchable NotRelaunchable graph "The graph allocates memory that none of its nodes frees.";
            r08_free_too_early FreeTooEarly graph "Memory of the graph is freed before all its uses have ended, or is not there to be freed.";
            r11_library_state LibraryState graph "The workspace of one captured stream is used by another.";
            r12_external External session "Bytes that go between a graph and a copy, the host or another producer or consumer outside it are not handed over.";
            r13_read_before_write ReadBeforeWrite graph "Scratch is read where nothing has written it in this replay.";
            r14_co_residency CoResidency graph "A kernel whose blocks spin on each other may run beside another kernel.";
            reconciliation Reconciliation driver "The driver's graph is not what was recorded.";
        }
    };
}
pub(crate) use for_each_rule;

macro_rules! rules {
    ($($file:ident $rule:ident $level:ident $forbids:literal;)*) => {
        /// The rules that a trace is checked against.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $forbids] $rule,)*
        }

        impl Rule {
            /// Every rule, in the order in which reports list them.
            pub const ALL: &[Self] = &[$(Self::$rule),*];
        }
    };
}
for_each_rule!(rules);

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        let known = Self::ALL.iter().find(|rule| rule.code() == code);
        known
            .copied()
            .ok_or_else(|| serde::de::Error::custom(format!("\"{code}\" is the number of no rule")))
    }
}
