//! Captured streams.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, StreamId};

/// A stream taking part in a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The name that reports print.
    pub name: String,
    /// The tag of the scratch pool that the stream takes its transient buffers
    /// from.
    pub tag: String,
    /// The stream that this one was first forked from; `None` for the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<StreamId>,
    /// How the stream stood when the capture ended.
    #[serde(default)]
    pub end: StreamEnd,
}

/// How a captured stream stood when its capture ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamEnd {
    /// The nodes that the next node of the stream would have depended on. For
    /// the origin these are the leaves that every other node must reach.
    pub frontier: Vec<NodeId>,
    /// Whether a join point had taken the stream in. True for the origin.
    pub joined: bool,
}

impl Stream {
    /// The stream that a capture began on; its tag is its name.
    pub fn origin(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            tag: name.clone(),
            name,
            parent: None,
            end: StreamEnd {
                frontier: Vec::new(),
                joined: true,
            },
        }
    }

    /// A stream forked from `parent`; its tag is its name.
    pub fn forked(name: impl Into<String>, parent: StreamId) -> Self {
        let name = name.into();
        Self {
            tag: name.clone(),
            name,
            parent: Some(parent),
            end: StreamEnd::default(),
        }
    }
}
