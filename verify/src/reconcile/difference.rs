//! One difference between the recorded graph and the driver's.

use std::fmt;

use serde::{Deserialize, Serialize};
use streamweir_trace::{EdgeKind, NodeId};

use crate::site::Site;

/// A node at which the two graphs differ, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mismatch {
    /// The recorded node; for a node that nobody recorded, the driver's.
    pub site: Site,
    /// The node's number in the read-back trace, when it is there.
    pub driver_node: Option<NodeId>,
    /// What differs.
    pub difference: Difference,
}

impl Mismatch {
    pub(super) fn other_node(&self) -> Option<NodeId> {
        match &self.difference {
            Difference::MissingEdge { to, .. } => to.node,
            _ => None,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.site.node {
            write!(f, "{node} ")?;
        }
        write!(f, "`{}`: {}", self.site.name, self.difference)
    }
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "differs")]
#[non_exhaustive]
pub enum Difference {
    /// A recorded node is not in the driver's graph.
    MissingInDriver,
    /// The driver has a node that nobody recorded.
    ExtraInDriver {
        /// Its kind.
        kind: String,
    },
    /// Several nodes of the driver are one recorded node.
    MatchedTwice {
        /// Their numbers in the read-back trace.
        driver_nodes: Vec<NodeId>,
    },
    /// The two nodes are of different kinds.
    Kind {
        /// The recorded kind.
        declared: String,
        /// The driver's.
        driver: String,
    },
    /// A property of the launch or of the operands differs.
    Property {
        /// Which: function, grid, block, shared bytes, destination, source,
        /// length or value.
        property: String,
        /// As recorded.
        declared: String,
        /// As the driver has it.
        driver: String,
    },
    /// A parameter differs.
    Param {
        /// Its place in the signature.
        place: u32,
        /// Its name in the signature.
        name: String,
        /// Its offset in the parameter buffer, in bytes.
        offset: u32,
        /// The recorded bytes in hexadecimal, or as an address when it is a
        /// declared pointer; `None` when nothing was recorded there.
        declared: Option<String>,
        /// The driver's, in the same form; `None` when it has none there.
        driver: Option<String>,
        /// The buffers that the driver's pointer lands in.
        lands_in: Vec<String>,
    },
    /// The driver's edges do not imply a recorded edge.
    MissingEdge {
        /// The node that should follow.
        to: Site,
        /// What the edge promised.
        kind: EdgeKind,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |value: &Option<String>| value.as_deref().unwrap_or("nothing").to_owned();
        match self {
            Self::MissingInDriver => write!(f, "the driver's graph lacks this recorded node"),
            Self::ExtraInDriver { kind } => {
                write!(
                    f,
                    "the driver's graph has a {kind} node that nobody recorded"
                )
            }
            Self::MatchedTwice { driver_nodes } => write!(
                f,
                "the driver's graph has this node {} times",
                driver_nodes.len()
            ),
            Self::Kind { declared, driver } => {
                write!(
                    f,
                    "recorded as {declared}, but the driver has a {driver} node"
                )
            }
            Self::Property {
                property,
                declared,
                driver,
            } => write!(
                f,
                "{property} recorded as {declared}, but the driver has {driver}"
            ),
            Self::Param {
                place,
                name,
                declared,
                driver,
                lands_in,
                ..
            } => {
                write!(
                    f,
                    "parameter {place} \"{name}\" recorded as {}, but the driver has {}",
                    or_nothing(declared),
                    or_nothing(driver)
                )?;
                if !lands_in.is_empty() {
                    write!(f, ", which is in \"{}\"", lands_in.join("\" and \""))?;
                }
                Ok(())
            }
            Self::MissingEdge { to, kind } => {
                let kind = match kind {
                    EdgeKind::Full => "",
                    EdgeKind::Programmatic => "programmatic ",
                };
                write!(f, "the driver's graph lacks the {kind}edge to ")?;
                if let Some(node) = to.node {
                    write!(f, "{node} ")?;
                }
                write!(f, "`{}`", to.name)
            }
        }
    }
}
