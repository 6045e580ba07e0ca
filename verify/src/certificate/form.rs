//! What a certificate holds, and its file.

use serde::{Deserialize, Serialize};
use streamweir_trace::{BufferId, NodeId};

use super::about::About;
use super::error::CertificateError;
use super::version::VERSION;

/// The proof of a safe verdict.
///
/// It is about the graph as it was when it was verified. An exec update, or any
/// other change of the instantiated graph, voids it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`VERSION`] of the build that wrote it.
    pub version: u32,
    /// The trace.
    pub about: About,
    /// How many comparisons the verdict took. Nothing rests on it.
    pub comparisons: u64,
    /// The nodes, each once and behind all that its edges come from, with the
    /// number of its chain; chains are numbered as they begin. Each node ends before
    /// the next one of its chain ends.
    pub order: Vec<(NodeId, u32)>,
    /// Allocation nodes and the free nodes that give their memory back, where no
    /// buffer says so.
    pub freed: Vec<(NodeId, NodeId)>,
    /// The buffers that are touched. Where two of them overlap and one writes, the
    /// accesses of the one that stands first come first.
    pub turns: Vec<BufferId>,
    /// The nodes that the verdict does not speak about.
    pub not_analysed: Vec<NodeId>,
}

impl Certificate {
    /// The certificate as the text of a file.
    pub fn to_json(&self) -> String {
        // No key is anything but a string, and no Serialize here fails.
        serde_json::to_string(self).expect("a certificate always has a JSON form")
    }

    /// Reads what [`to_json`](Self::to_json) wrote. Whether the certificate
    /// holds is for [`check`](super::check::check) to say.
    ///
    /// # Errors
    /// When the bytes are no certificate, or one of another version.
    pub fn from_json(bytes: &[u8]) -> Result<Self, CertificateError> {
        #[derive(Deserialize)]
        struct Header {
            version: u32,
        }
        let unreadable = |error: serde_json::Error| CertificateError::Json(error.to_string());
        let Header { version } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if version != VERSION {
            return Err(CertificateError::Version(version));
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
