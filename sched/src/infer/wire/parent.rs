//! The parent's side: it starts the program again for as long as kernels end the
//! children that try them, and puts together what these found.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use streamweir_trace::NodeId;

use super::call::{Call, FOUND};
use super::log::{Log, lines, parse};
use super::plan::Plan;
use crate::error::Result;
use crate::infer::trial::Progress;
use crate::infer::watch::{CHILD, Ended, watch};
use crate::infer::{Inference, Outcome};

/// A directory that is gone when this is.
struct Scratch(PathBuf);

impl Scratch {
    fn new(call: usize) -> io::Result<Self> {
        let name = format!("streamweir-infer-{}-{call}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It lies in the directory for such files; what cannot be removed is
        // left to whoever clears that.
        let _left = fs::remove_dir_all(&self.0);
    }
}

impl Call<'_> {
    pub(super) fn run(&self) -> Result<Inference> {
        let scratch = Scratch::new(self.number)
            .map_err(|error| self.error(format!("a directory for the child: {error}")))?;
        let dir = &scratch.0;
        for (call, text) in FOUND.lock().iter() {
            let path = dir.join(format!("call-{call}"));
            self.io(&path, fs::write(&path, text))?;
        }
        let mut outcomes: BTreeMap<NodeId, Outcome> = BTreeMap::new();
        for _ in 0..=self.options.watchdog.restarts {
            let (ended, log) = self.child(dir, &outcomes)?;
            let whole = log.complete && ended == Ended::Well;
            let how = match (ended, log.error) {
                (_, Some(error)) => error,
                (Ended::Hung(limit), _) => format!("timed out after {} s", limit.as_secs_f32()),
                (Ended::Died(status), _) => {
                    format!("its process died ({status}){}", self.last_words(dir)?)
                }
                (Ended::Well, _) => "its process ended".to_owned(),
            };
            for (node, outcome) in log.outcomes {
                outcomes.entry(node).or_insert(outcome);
            }
            if whole {
                break;
            }
            match log.begun {
                Some(node) => {
                    let outcome = match log.seen.is_empty() {
                        true => Outcome::NotInferred(how),
                        false => Outcome::Written(log.seen),
                    };
                    outcomes.entry(node).or_insert(outcome);
                }
                None => {
                    let reached = if log.ready {
                        "between two trials"
                    } else {
                        "before this call"
                    };
                    return Err(self.error(format!(
                        "this program, started again, stopped {reached}: {how}. It must reach the call the same way with the same arguments"
                    )));
                }
            }
        }
        let inference = self.inference(outcomes);
        let mut text = self.header.clone();
        for (node, outcome) in &inference.nodes {
            text.push_str(&lines(&Progress::Done(*node, outcome.clone())));
        }
        text.push_str("end\n");
        FOUND.lock().insert(self.number, text);
        Ok(inference)
    }

    /// One child, from its start to its end.
    fn child(&self, dir: &Path, outcomes: &BTreeMap<NodeId, Outcome>) -> Result<(Ended, Log)> {
        let plan = Plan {
            call: self.number,
            skip: outcomes
                .keys()
                .map(|&node| (node, "another child has seen to it".to_owned()))
                .collect(),
        };
        let (path, log, stderr) = (dir.join("plan"), dir.join("log"), dir.join("stderr"));
        self.io(&path, fs::write(&path, plan.text()))?;
        if log.exists() {
            self.io(&log, fs::remove_file(&log))?;
        }
        let words = self.io(&stderr, File::create(&stderr))?;
        let program = std::env::current_exe()
            .map_err(|error| self.error(format!("this program cannot be found: {error}")))?;
        let mut command = Command::new(&program);
        command
            .args(std::env::args_os().skip(1))
            .env(CHILD, dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words);
        let ended = watch(&mut command, &log, &self.options.watchdog);
        let ended = self.io(&program, ended)?;
        let text = self.read(&log)?;
        let log = parse(&self.header, &text).ok_or_else(|| {
            self.error("this program, started again, has another graph at this call; make the same one each time")
        })?;
        Ok((ended, log))
    }

    /// The end of what the child said on its standard error.
    fn last_words(&self, dir: &Path) -> Result<String> {
        let text = self.read(&dir.join("stderr"))?;
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        Ok(line
            .map(|line| format!(": {}", line.trim()))
            .unwrap_or_default())
    }
}
