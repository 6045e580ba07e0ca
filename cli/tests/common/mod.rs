//! What the tests of the commands share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, process};

use serde_json::Value;

/// Runs one of the commands.
pub(crate) fn run(command: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamweir"))
        .arg(command)
        .args(arguments)
        .output()
        .unwrap()
}

/// A data file of the project, by its folder and its name.
pub(crate) fn data(folder: &str, name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let path = folder.join(name).with_extension("json");
    path.to_str().unwrap().to_owned()
}

/// The entries that `--json` printed.
pub(crate) fn list(output: &Output) -> Vec<Value> {
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value.as_array().expect("always an array").clone()
}

/// A file that goes when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = env::temp_dir().join(format!("streamweir-{}-{name}", process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
