//! The workspace as cargo describes it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{Failure, Outcome, Run};

/// Pins the cudarc bindings of our own builds (see `.cargo/config.toml`).
pub(crate) const BINDINGS_VARIABLE: &str = "CUDARC_CUDA_VERSION";

/// The root, the target directory and every package of the dependency graph.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    metadata: Value,
}

impl Workspace {
    /// Asks cargo about the workspace that this program belongs to.
    ///
    /// `--locked`: a Cargo.lock that does not match the manifests is an error
    /// here, before anything else is built.
    pub(crate) fn find() -> Outcome<Self> {
        let text = Run::new(cargo_program())
            .args(["metadata", "--format-version", "1", "--locked"])
            .stdout()?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("`cargo metadata` printed no JSON: {error}")))?;
        let path = |field: &str| {
            metadata[field]
                .as_str()
                .map(PathBuf::from)
                .ok_or_else(|| Failure::new(format!("`cargo metadata` has no {field}")))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            metadata,
        })
    }

    /// A cargo command in the root of the workspace.
    pub(crate) fn cargo(&self, subcommand: &str) -> Run {
        Run::new(cargo_program())
            .arg(subcommand)
            .current_dir(&self.root)
    }

    /// A cargo command in another directory, which sees nothing of our
    /// `.cargo/config.toml`: not the file, and not the variable that cargo set
    /// from it when it started this program.
    pub(crate) fn cargo_elsewhere(&self, dir: &Path, subcommand: &str) -> Run {
        Run::new(cargo_program())
            .arg(subcommand)
            .elsewhere(dir)
            .env_remove(BINDINGS_VARIABLE)
    }

    /// Every package of the dependency graph, ours included.
    pub(crate) fn packages(&self) -> &[Value] {
        self.metadata["packages"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    /// The packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Value> {
        self.packages()
            .iter()
            .filter(|package| package["source"].is_null())
    }

    /// The names of the targets of one kind (`bench`, `example`, `test`) of a
    /// member.
    pub(crate) fn targets(&self, package: &str, kind: &str) -> Vec<&str> {
        self.members()
            .filter(|member| member["name"] == package)
            .flat_map(|member| member["targets"].as_array().into_iter().flatten())
            .filter(|target| {
                target["kind"]
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().any(|k| k == kind))
            })
            .filter_map(|target| target["name"].as_str())
            .collect()
    }
}

/// The cargo that started us, so that a `+toolchain` on the command line holds
/// for every step.
pub(crate) fn cargo_program() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
