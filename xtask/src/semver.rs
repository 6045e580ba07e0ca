//! Whether the public surface changed without saying so.
//!
//! Nothing is published yet that cargo-semver-checks could compare with. Until it is,
//! the surface is compared with that of the commit which last changed the file
//! `xtask/semver-baseline`: a change that breaks a user fails the step, and passes when
//! the same change says so in a line of that file and in CHANGELOG.md. So no break is an
//! accident. No hash is written down, so a commit may be moved to another parent.

use std::fs;
use std::io::ErrorKind;

use crate::command::{Failure, Outcome, Run};
use crate::workspace::Workspace;

/// A line for each break.
const BREAKS: &str = "xtask/semver-baseline";

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
    let unchanged = git(workspace, &["diff", "--quiet", &baseline]).succeeds();
    if unchanged {
        println!("the tree is that of the baseline, {baseline}");
        return Ok(());
    }
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
    let shallow = git(workspace, &["rev-parse", "--is-shallow-repository"]);
    match shallow.stdout().map(|said| said.trim() == "false") {
        Ok(true) => {}
        Ok(false) => {
            return Err("the clone is shallow (`git fetch --unshallow`)".to_owned());
        }
        Err(_) => return Err("this is no clone".to_owned()),
    }
    baseline(workspace)
        .map(drop)
        .map_err(|failure| failure.to_string())
}

/// The commit that last changed the list of breaks.
fn baseline(workspace: &Workspace) -> Outcome<String> {
    let log = git(workspace, &["log", "-1", "--format=%H", "--", BREAKS]).stdout()?;
    match log.trim() {
        "" => Err(Failure::new(format!("no commit has {BREAKS}"))),
        commit => Ok(commit.to_owned()),
    }
}

fn git(workspace: &Workspace, arguments: &[&str]) -> Run {
    Run::new("git").args(arguments).current_dir(&workspace.root)
}
