//! What a verdict consists of.

use serde::{Deserialize, Serialize};
use streamweir_trace::ByteRange;

use crate::certificate::Certificate;
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::r09_growth::Growth;
use crate::site::{BufferNote, Site};

/// The page that explains the rules, one heading for each.
pub(super) const RULES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/hazards.md");

/// The answer of the verifier. Its `Display` is the text report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the capture, or of the session.
    pub capture: String,
    /// What was checked.
    #[serde(default)]
    pub subject: Subject,
    /// The verdict.
    pub verdict: Verdict,
    /// The hazards, one for each cause, sorted by rule and then by node: a pair of
    /// nodes that breaks a rule, and the pairs that the same join mends. At most [`Options::limit`](crate::Options::limit) of them.
    pub hazards: Vec<Hazard>,
    /// How many hazards there are in all. Of those that are not listed each pair of
    /// nodes counts.
    pub hazards_total: u64,
    /// What the verdict takes for granted.
    pub assumptions: Vec<String>,
    /// What the verdict does not speak about.
    pub not_analysed: Vec<String>,
    /// Where what is declared and what nodes show differ. Operands of copies and
    /// fills that nothing declares count like what is declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undeclared: Vec<String>,
    /// How much memory the scratch takes (R9): per tag, and for all tags when
    /// there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
    /// How much was looked at.
    pub stats: Stats,
    /// The proof of a safe verdict, when it was asked for. None has a graph in
    /// which buffers hand bytes to each other in a circle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
}

/// What a verdict is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A captured graph, of nodes.
    #[default]
    Capture,
    /// A session, of steps: launches of graphs and the work around them.
    Session,
}

impl Subject {
    /// The subject, and one of what it consists of, in words.
    pub const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Capture => ["capture", "node"],
            Self::Session => ["session", "step"],
        }
    }
}

/// The verdict about a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No rule is broken, under the assumptions listed and apart from what is
    /// not analysed.
    Safe,
    /// A rule may be broken; the trace does not say enough to tell.
    Possible,
    /// A rule is broken.
    Hazard,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hazard {
    /// The rule.
    pub rule: Rule,
    /// What is wrong, as one sentence.
    pub what: String,
    /// The node concerned; of two, the one that the graph's order names first.
    pub first: Site,
    /// The other node, when the hazard is about two.
    pub second: Option<Site>,
    /// The buffers concerned.
    pub buffers: Vec<BufferNote>,
    /// The lowest device addresses concerned; empty when the hazard is not
    /// about memory.
    pub bytes: ByteRange,
    /// Whether the trace proves the hazard, or only makes it possible.
    pub proven: bool,
    /// The smallest change that mends it.
    pub fix: Fix,
    /// The fix in words.
    pub help: String,
    /// What else would mend it, and keep the overlap that a join gives up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<String>,
    /// The other pairs of nodes that the same fix mends: one cause is one hazard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// The nodes concerned, drawn with their streams side by side and time
    /// running down, one text per line; empty where that would say nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawing: Vec<String>,
}

/// A pair of nodes that a hazard is about beside its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Member {
    /// The node that the graph's order names first.
    pub first: Site,
    /// The other one.
    pub second: Site,
}

/// How much a verdict rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Nodes of the graph.
    pub nodes: u64,
    /// Edges of the graph.
    pub edges: u64,
    /// Captured streams.
    pub streams: u64,
    /// Declared accesses.
    pub accesses: u64,
    /// Questions of order that were asked of the graph.
    pub comparisons: u64,
}
