//! The tests that drive a report's page in a real browser.

use std::path::PathBuf;

use crate::command::{Failure, Outcome};
use crate::workspace::Workspace;

/// What Chromium and its relatives are called.
const NAMES: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Where a browser is named that has none of these names.
const VARIABLE: &str = "STREAMWEIR_BROWSER";

fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(format!("{VARIABLE} names {}, no file", named.display()))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| NAMES.iter().map(move |name| folder.join(name)))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            format!(
                "no Chromium in PATH (Debian: `apt-get install chromium`), and {VARIABLE} is not set"
            )
        })
}

pub(crate) fn missing(_: &Workspace) -> Result<(), String> {
    if cfg!(not(unix)) {
        return Err("the browser is driven through pipes that only Unix has".to_owned());
    }
    find().map(|_| ())
}

/// Runs the browser tests of the verifier, with the features of the whole
/// workspace: what the step `test` built is used again.
pub(crate) fn drive(workspace: &Workspace) -> Outcome {
    let browser = find().map_err(Failure::new)?;
    workspace
        .cargo("test")
        .args(["--workspace", "--test", "browser"])
        .env(VARIABLE, browser)
        .run()
}
