//! The Rust that we promise against the Rust that our dependencies need.
//!
//! `clippy::incompatible_msrv` watches our own code. A dependency's
//! `rust-version` is data, so an ordinary toolchain can compare it; where the
//! promised toolchain itself is installed, a build with it is the proof.

use serde_json::Value;

use crate::command::{Failure, Outcome};
use crate::toolchain;
use crate::workspace::Workspace;

/// `major.minor.patch`; a missing part is zero, as cargo reads it.
type Version = [u64; 3];

/// Fails when a package of the dependency graph needs a newer Rust than the
/// workspace promises, dependencies for tests included.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let promised_text = promised(workspace)?;
    let promised = parse(&promised_text)?;
    let mut checked = 0;
    let mut undeclared = 0;
    let mut too_new = Vec::new();
    for package in workspace.packages() {
        checked += 1;
        match package["rust_version"].as_str() {
            Some(needed) if parse(needed)? > promised => {
                too_new.push(format!("{} needs {needed}", label(package)));
            }
            Some(_) => {}
            None => undeclared += 1,
        }
    }
    println!(
        "{checked} packages against Rust {promised_text}, {undeclared} of them declare nothing"
    );
    if too_new.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "Rust {promised_text} is promised, but {}",
        too_new.join(", ")
    )))
}

/// Builds what users build with the promised toolchain.
pub(crate) fn build(workspace: &Workspace) -> Outcome {
    toolchain::cargo(workspace, &promised(workspace)?, "check")
        .args(["--workspace", "--exclude", "xtask"])
        .env("CARGO_TARGET_DIR", workspace.target.join("msrv"))
        .run()
}

/// Why [`build`] cannot run.
pub(crate) fn toolchain_missing(workspace: &Workspace) -> Result<(), String> {
    let version = promised(workspace).map_err(|failure| failure.to_string())?;
    toolchain::missing(&version)
}

/// The `rust-version` of the facade, which every member inherits.
fn promised(workspace: &Workspace) -> Outcome<String> {
    workspace
        .members()
        .find(|member| member["name"] == "streamweir")
        .and_then(|facade| facade["rust_version"].as_str())
        .map(str::to_owned)
        .ok_or_else(|| Failure::new("the package streamweir declares no rust-version"))
}

fn label(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or("?").to_owned();
    format!("{} {}", text("name"), text("version"))
}

fn parse(text: &str) -> Outcome<Version> {
    let mut version = [0; 3];
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > version.len() {
        return Err(Failure::new(format!("{text:?} is no Rust version")));
    }
    for (slot, part) in version.iter_mut().zip(parts) {
        *slot = part
            .parse()
            .map_err(|_| Failure::new(format!("{text:?} is no Rust version")))?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_and_not_by_text() {
        let version = |text| parse(text).expect("a version");
        assert!(version("1.9") < version("1.88"));
        assert!(version("1.88") < version("1.88.1"));
        assert_eq!(version("1.88"), version("1.88.0"));
        assert!(version("1.100.0") > version("1.88"));
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "1.x", "1.2.3.4", "stable"] {
            assert!(parse(text).is_err(), "{text:?} was read as a version");
        }
    }
}
