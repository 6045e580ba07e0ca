//! Running other programs.
//!
//! Each command is printed before it runs, in a form that can be pasted into a
//! shell, and a failure repeats it: no step does anything that cannot be
//! repeated by hand.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Why a task could not be done, as a sentence for the person who ran it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A file operation that failed, with the path that `io::Error` leaves out.
    pub(crate) fn io(verb: &str, path: &Path, error: &std::io::Error) -> Self {
        Self(format!("cannot {verb} {}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// A command line, its environment and its directory.
pub(crate) struct Run {
    command: Command,
    /// The environment as a shell would write it, for the printed line.
    shown: Vec<String>,
}

impl Run {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            command: Command::new(program),
            shown: Vec::new(),
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref();
        self.command.env(name, value);
        self.shown
            .push(format!("{name}={}", quoted(&value.to_string_lossy())));
        self
    }

    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs in `dir`, which the reader of the printed line is taken to be in.
    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs in `dir`, which the printed line names.
    pub(crate) fn elsewhere(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        let dir = quoted(&dir.to_string_lossy());
        self.shown.insert(0, format!("cd {dir} &&"));
        self
    }

    /// Runs to the end, with the output shown as it comes.
    pub(crate) fn run(mut self) -> Outcome {
        let line = self.line();
        println!("$ {line}");
        let status = self
            .command
            .status()
            .map_err(|error| Failure::new(format!("`{line}` could not start: {error}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("`{line}` ended with {status}")))
    }

    /// Runs to the end and returns standard output; standard error is shown.
    pub(crate) fn stdout(mut self) -> Outcome<String> {
        let line = self.line();
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| Failure::new(format!("`{line}` could not start: {error}")))?;
        if !output.status.success() {
            return Err(Failure::new(format!(
                "`{line}` ended with {}",
                output.status
            )));
        }
        String::from_utf8(output.stdout).map_err(|error| {
            Failure::new(format!(
                "`{line}` printed something else than text: {error}"
            ))
        })
    }

    /// Whether the command starts and succeeds; nothing of it is shown.
    pub(crate) fn succeeds(mut self) -> bool {
        self.command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.command.get_program())
            .chain(self.command.get_args())
            .map(OsStr::to_string_lossy);
        let mut line: Vec<String> = self.shown.clone();
        // The first word is the path of the cargo that runs us; its name says
        // as much.
        line.extend(words.enumerate().map(|(i, word)| match i {
            0 => base_name(&word),
            _ => quoted(&word),
        }));
        line.join(" ")
    }
}

fn base_name(program: &str) -> String {
    Path::new(program)
        .file_name()
        .map_or_else(|| OsString::from(program), OsString::from)
        .to_string_lossy()
        .into_owned()
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Installs pinned wheels, and nothing that they depend on, into a directory.
pub(crate) fn pip_install(target: &Path, wheels: &[&str]) -> Outcome {
    Run::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
        ])
        .arg(target)
        .args(wheels)
        .run()
        .map_err(|failure| {
            Failure::new(format!(
                "{failure}. It needs python3 with pip (Debian: python3-pip) and the network"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_line_can_be_pasted_into_a_shell() {
        let run = Run::new("/opt/tools/cargo")
            .args(["doc", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .arg("it's");
        assert_eq!(
            run.line(),
            r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'"
        );
    }

    #[test]
    fn a_failed_command_is_named_with_its_status() {
        let failure = Run::new("cargo").arg("no-such-subcommand-here").run();
        let text = failure
            .expect_err("cargo knows no such command")
            .to_string();
        assert!(
            text.starts_with("`cargo no-such-subcommand-here` ended with exit status"),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_said_to_be_so() {
        let failure = Run::new("streamweir-no-such-program").run();
        let text = failure.expect_err("no such program").to_string();
        assert!(
            text.contains("`streamweir-no-such-program` could not start"),
            "{text}"
        );
        assert!(!Run::new("streamweir-no-such-program").succeeds());
    }
}
