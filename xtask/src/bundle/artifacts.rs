//! Building one program and finding out where cargo put it.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{Failure, Outcome};
use crate::workspace::{BINDINGS_VARIABLE, Workspace};

/// A program of the workspace.
pub(super) struct Artifact {
    package: String,
    /// `bin`, `test`, `bench` or `example`, as in `cargo metadata`.
    kind: &'static str,
    name: String,
}

impl Artifact {
    pub(super) fn new(package: &str, kind: &'static str, name: &str) -> Self {
        Self {
            package: package.to_owned(),
            kind,
            name: name.to_owned(),
        }
    }

    /// Its place in the bundle: `bin/streamweir`, `test/gpu`.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(self.kind).join(&self.name)
    }
}

/// Builds the program with the profile `dist` and returns its path.
pub(super) fn compile(
    workspace: &Workspace,
    artifact: &Artifact,
    bindings: &str,
) -> Outcome<PathBuf> {
    // `cargo build` would build a test without its development dependencies'
    // features, and a bench not at all.
    let command = match artifact.kind {
        "test" => workspace.cargo("test").arg("--no-run"),
        "bench" => workspace.cargo("bench").arg("--no-run"),
        _ => workspace.cargo("build"),
    };
    println!("building {} {}", artifact.kind, artifact.name);
    let messages = command
        .args(["--profile", "dist", "-p", &artifact.package])
        .args([&format!("--{}", artifact.kind), &artifact.name])
        .arg("--message-format=json-render-diagnostics")
        .env(BINDINGS_VARIABLE, bindings)
        .stdout()?;
    executable(&messages, artifact.kind, &artifact.name).ok_or_else(|| {
        Failure::new(format!(
            "cargo built no {} {} of {}",
            artifact.kind, artifact.name, artifact.package
        ))
    })
}

/// The executable that cargo's messages name for a target.
fn executable(messages: &str, kind: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["target"]["name"] == name && message["target"]["kind"][0] == kind)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_of_the_right_target_is_taken() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"gpu"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"gpu"},"executable":"/t/bench"}"#,
            "\nnot a message\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"gpu"},"executable":"/t/test"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(
            executable(messages, "test", "gpu"),
            Some(PathBuf::from("/t/test"))
        );
        assert_eq!(
            executable(messages, "bench", "gpu"),
            Some(PathBuf::from("/t/bench"))
        );
        assert_eq!(executable(messages, "bin", "gpu"), None);
    }
}
