//! Tests in a process of their own.

use std::process::Command;

use libtest_mimic::Failed;

const CHILD: &str = "STREAMWEIR_GPU_TEST_CHILD";

/// Runs `child` when this process was started for it; its exit code then.
pub(crate) fn run_child(child: fn(&str) -> Result<(), Failed>) -> Option<i32> {
    let what = std::env::var(CHILD).ok()?;
    Some(match child(&what) {
        Ok(()) => 0,
        Err(failed) => {
            eprintln!("{}", failed.message().unwrap_or("failed"));
            1
        }
    })
}

/// Starts this binary again to run the child `what`.
pub(crate) fn in_own_process(what: &str) -> Result<(), Failed> {
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, what)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failed::from(format!(
        "{what}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}
