//! Whether the public surface changed without saying so.
//!
//! Nothing is published yet that cargo-semver-checks could compare with. Until it is,
//! the file `xtask/semver-baseline` names a commit of this repository: a change that
//! breaks a user against that commit fails the step, and passes when the same change
//! moves the commit and writes the break down in CHANGELOG.md. So no break is an
//! accident. After a release the file names its tag.

use std::fs;
use std::io::ErrorKind;

use crate::command::{Failure, Outcome, Run};
use crate::workspace::Workspace;

const BASELINE: &str = "xtask/semver-baseline";

/// The crates whose surface users build on, by the facade or alone.
const CRATES: &[&str] = &[
    "streamweir",
    "streamweir-trace",
    "streamweir-alloc",
    "streamweir-place",
    "streamweir-verify",
    "streamweir-hal",
    "streamweir-sched",
    "streamweir-kernels",
];

/// Compares the surface of each crate with that of the baseline.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let baseline = baseline(workspace)?;
    workspace
        .cargo("semver-checks")
        .args(CRATES.iter().flat_map(|name| ["--package", name]))
        .args(["--baseline-rev", &baseline])
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .run()?;
    // A gigabyte that no other step reads: each crate is built twice, by itself.
    let built = workspace.target.join("semver-checks");
    match fs::remove_dir_all(&built) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io("remove", &built, &error))
        }
        _ => Ok(()),
    }
}

/// Why [`check`] cannot run: the tool takes minutes to build, so only `.ci/run`
/// installs it unasked.
pub(crate) fn missing(workspace: &Workspace) -> Result<(), String> {
    if !workspace.cargo("semver-checks").arg("--version").succeeds() {
        let install = "cargo install cargo-semver-checks --locked";
        return Err(format!("no cargo-semver-checks (`{install}`)"));
    }
    let baseline = baseline(workspace).map_err(|failure| failure.to_string())?;
    let commit = format!("{baseline}^{{commit}}");
    let git = Run::new("git").args(["rev-parse", "--quiet", "--verify", &commit]);
    if !git.current_dir(&workspace.root).succeeds() {
        return Err(format!(
            "the commit {baseline} of {BASELINE} is not in this clone (`git fetch --depth=1 origin {baseline}`)"
        ));
    }
    Ok(())
}

/// The first line that is no comment.
fn baseline(workspace: &Workspace) -> Outcome<String> {
    let path = workspace.root.join(BASELINE);
    let text = fs::read_to_string(&path).map_err(|error| Failure::io("read", &path, &error))?;
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{BASELINE} names no commit")))
}
