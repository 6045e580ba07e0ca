//! One call of the inference, as parent and child know it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use streamweir_base::sync::Mutex;
use streamweir_trace::NodeId;

use crate::audit::Audit;
use crate::error::{Error, Result};
use crate::infer::inference::{InferOptions, Inference, Outcome};
use crate::infer::trial;

/// What the finished calls of this process have found, by their number.
pub(super) static FOUND: LazyLock<Mutex<BTreeMap<usize, String>>> =
    LazyLock::new(|| Mutex::new(BTreeMap::new()));

/// One call, on either side.
pub(super) struct Call<'a> {
    pub(super) audit: &'a Audit,
    pub(super) options: &'a InferOptions,
    pub(super) header: String,
    /// How many calls this process had made before.
    pub(super) number: usize,
}

impl Call<'_> {
    pub(super) fn error(&self, why: impl Into<String>) -> Error {
        Error::Infer {
            capture: self.audit.trace.name.clone(),
            why: why.into(),
        }
    }

    pub(super) fn io<T>(&self, what: &Path, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| self.error(format!("{}: {error}", what.display())))
    }

    pub(super) fn read(&self, path: &Path) -> Result<String> {
        match fs::read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => self.io(path, Err(error)),
        }
    }

    pub(super) fn inference(&self, mut outcomes: BTreeMap<NodeId, Outcome>) -> Inference {
        let nodes = trial::kernels(self.audit).into_iter().map(|(node, _)| {
            let given_up = || Outcome::NotInferred("too many children hung or died".to_owned());
            (node, outcomes.remove(&node).unwrap_or_else(given_up))
        });
        Inference {
            nodes: nodes.collect(),
        }
    }
}
