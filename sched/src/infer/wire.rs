//! What parent and child tell each other, and the parent's side of it.
//!
//! Both sides describe the graph in the same words, [`header`]; the log of a
//! child that has another graph begins differently. Then comes one line for each
//! step, written at once, so that whatever ends the child leaves what it had
//! found, and the kernel that it was at.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use streamweir_alloc::sync::Mutex;
use streamweir_trace::{BufferId, ByteRange, NodeId, NodeKind};

use super::trial::{self, Progress};
use super::watch::{CHILD, Ended, watch};
use super::{InferOptions, Inference, Outcome};
use crate::audit::Audit;
use crate::device::Device;
use crate::error::{Error, Result};

/// The calls that this process has made, and what the finished ones found.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static FOUND: std::sync::LazyLock<Mutex<BTreeMap<usize, String>>> =
    std::sync::LazyLock::new(|| Mutex::new(BTreeMap::new()));

/// The graph in words that are the same in every process.
fn header(audit: &Audit) -> String {
    let mut text = "streamweir infer 1\n".to_owned();
    for (at, node) in audit.trace.nodes.iter().enumerate() {
        if let NodeKind::Kernel(kernel) = &node.kind {
            let (grid, block) = (kernel.grid, kernel.block);
            // Writing to a string does not fail.
            _ = writeln!(text, "node {at} {grid:?} {block:?} {}", kernel.function);
        }
    }
    for &id in &audit.standing {
        let buffer = audit.trace.buffer(id);
        _ = writeln!(
            text,
            "buffer {} {} {}",
            id.0,
            buffer.range.len(),
            buffer.name
        );
    }
    text
}

fn lines(progress: &Progress) -> String {
    let mut text = String::new();
    match progress {
        Progress::Ready => text.push_str("ready\n"),
        Progress::Begin(node) => _ = writeln!(text, "begin {}", node.0),
        Progress::Done(node, Outcome::NotInferred(why)) => {
            _ = writeln!(text, "none {} {}", node.0, why.replace('\n', " "));
        }
        Progress::Seen(node, runs) | Progress::Done(node, Outcome::Written(runs)) => {
            for (buffer, run) in runs {
                _ = writeln!(
                    text,
                    "write {} {} {} {}",
                    node.0, buffer.0, run.start, run.end
                );
            }
            let word = match progress {
                Progress::Seen(..) => "seen",
                _ => "done",
            };
            _ = writeln!(text, "{word} {}", node.0);
        }
    }
    text
}

/// What a log says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    ready: bool,
    /// The kernel that was begun and not ended.
    begun: Option<NodeId>,
    /// What was seen of it before its end.
    seen: Vec<(BufferId, ByteRange)>,
    outcomes: BTreeMap<NodeId, Outcome>,
    error: Option<String>,
    complete: bool,
}

/// Reads a log up to its last whole line; `None` when it is of another graph or
/// not one of ours.
fn parse(header: &str, text: &str) -> Option<Log> {
    let mut log = Log::default();
    let Some(rest) = text.strip_prefix(header) else {
        return header.starts_with(text).then_some(log);
    };
    let mut runs: Vec<(BufferId, ByteRange)> = Vec::new();
    for line in rest
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let node = |text: &str| text.parse().ok().map(NodeId);
        match word {
            "ready" => log.ready = true,
            "begin" => {
                (log.begun, log.seen) = (Some(node(rest)?), Vec::new());
                runs.clear();
            }
            "write" => {
                let mut numbers = rest.split(' ').skip(1).map(str::parse::<u64>);
                let mut next = || numbers.next()?.ok();
                let buffer = BufferId(u32::try_from(next()?).ok()?);
                let (start, end) = (next()?, next()?);
                if start >= end {
                    return None;
                }
                runs.push((buffer, ByteRange::new(start, end)));
            }
            "seen" => log.seen = std::mem::take(&mut runs),
            "done" => {
                let outcome = Outcome::Written(std::mem::take(&mut runs));
                log.outcomes.insert(node(rest)?, outcome);
                log.begun = None;
            }
            "none" => {
                let (at, why) = rest.split_once(' ')?;
                log.outcomes
                    .insert(node(at)?, Outcome::NotInferred(why.to_owned()));
                log.begun = None;
            }
            "error" => log.error = Some(rest.to_owned()),
            "end" => log.complete = true,
            _ => return None,
        }
    }
    Some(log)
}

/// Makes the trials in a child, or, in a child, makes them and exits.
///
/// # Safety
/// As for [`infer_writes`](super::infer_writes).
pub(super) unsafe fn in_child(
    device: &Device,
    audit: &Audit,
    options: &InferOptions,
) -> Result<Inference> {
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let parent = Parent {
        audit,
        options,
        header: header(audit),
        call,
    };
    match std::env::var_os(CHILD) {
        None => parent.run(),
        Some(dir) => {
            let dir = PathBuf::from(dir);
            let plan = parent.read(&dir.join("plan"))?;
            let plan = Plan::parse(&plan).ok_or_else(|| parent.error("the plan makes no sense"))?;
            if call != plan.call {
                return parent.former(&dir);
            }
            // SAFETY: the caller's promise.
            let code = unsafe { parent.serve(device, &dir, &plan) };
            std::process::exit(code)
        }
    }
}

struct Parent<'a> {
    audit: &'a Audit,
    options: &'a InferOptions,
    header: String,
    call: usize,
}

/// What a child is to do.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    call: usize,
    skip: Vec<(NodeId, String)>,
}

impl Plan {
    fn text(&self) -> String {
        let mut text = format!("call {}\n", self.call);
        for (node, why) in &self.skip {
            _ = writeln!(text, "skip {} {}", node.0, why.replace('\n', " "));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let call = lines.next()?.strip_prefix("call ")?.parse().ok()?;
        let skip = lines.map(|line| {
            let (node, why) = line.strip_prefix("skip ")?.split_once(' ')?;
            Some((NodeId(node.parse().ok()?), why.to_owned()))
        });
        Some(Self {
            call,
            skip: skip.collect::<Option<_>>()?,
        })
    }
}

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

impl Parent<'_> {
    fn error(&self, why: impl Into<String>) -> Error {
        Error::Infer {
            capture: self.audit.trace.name.clone(),
            why: why.into(),
        }
    }

    fn io<T>(&self, what: &Path, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| self.error(format!("{}: {error}", what.display())))
    }

    fn read(&self, path: &Path) -> Result<String> {
        match fs::read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => self.io(path, Err(error)),
        }
    }

    /// In the child of a later call: what the parent found at this one.
    fn former(&self, dir: &Path) -> Result<Inference> {
        let text = self.read(&dir.join(format!("call-{}", self.call)))?;
        let log = parse(&self.header, &text).filter(|log| log.complete).ok_or_else(|| {
            self.error("this process is the child of another call, and the parent knows no result of this one")
        })?;
        Ok(self.inference(log.outcomes))
    }

    fn inference(&self, mut outcomes: BTreeMap<NodeId, Outcome>) -> Inference {
        let nodes = trial::kernels(self.audit).into_iter().map(|(node, _)| {
            let given_up = || Outcome::NotInferred("too many children hung or died".to_owned());
            (node, outcomes.remove(&node).unwrap_or_else(given_up))
        });
        Inference {
            nodes: nodes.collect(),
        }
    }

    /// The child's side; its exit code.
    unsafe fn serve(&self, device: &Device, dir: &Path, plan: &Plan) -> i32 {
        let log = dir.join("log");
        let served = File::create(&log)
            .and_then(|mut log| log.write_all(self.header.as_bytes()).map(|()| log));
        let mut log = match served {
            Ok(log) => log,
            Err(error) => {
                eprintln!("{}: {error}", log.display());
                return 1;
            }
        };
        let mut write = |text: &str| {
            log.write_all(text.as_bytes())
                .map_err(|error| self.error(format!("the log: {error}")))
        };
        // SAFETY: the caller's promise.
        let tried = unsafe {
            trial::run(device, self.audit, self.options, &plan.skip, &mut |step| {
                write(&lines(step))
            })
        };
        let last = match &tried {
            Ok(_) => "end\n".to_owned(),
            Err(error) => format!("error {}\n", error.to_string().replace('\n', " ")),
        };
        match (write(&last), tried) {
            (Ok(()), Ok(_)) => 0,
            (Ok(()), Err(_)) => 1,
            (Err(error), _) => {
                eprintln!("{error}");
                1
            }
        }
    }

    fn run(&self) -> Result<Inference> {
        let scratch = Scratch::new(self.call)
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
        FOUND.lock().insert(self.call, text);
        Ok(inference)
    }

    /// One child, from its start to its end.
    fn child(&self, dir: &Path, outcomes: &BTreeMap<NodeId, Outcome>) -> Result<(Ended, Log)> {
        let plan = Plan {
            call: self.call,
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "streamweir infer 1\nnode 0 k\n";

    #[test]
    fn a_log_is_read_as_it_was_written_and_up_to_where_it_was_cut() {
        let written = Outcome::Written(vec![
            (BufferId(2), ByteRange::new(0, 16)),
            (BufferId(3), ByteRange::new(8, 9)),
        ]);
        let refused = Outcome::NotInferred("it waits\nfor others".to_owned());
        let seen = vec![(BufferId(1), ByteRange::new(4, 8))];
        let mut text = HEADER.to_owned();
        for step in [
            Progress::Ready,
            Progress::Begin(NodeId(4)),
            Progress::Done(NodeId(4), written.clone()),
            Progress::Done(NodeId(5), refused),
            Progress::Begin(NodeId(6)),
            Progress::Seen(NodeId(6), seen.clone()),
        ] {
            text.push_str(&lines(&step));
        }
        let expected = |begun, complete| Log {
            ready: true,
            begun,
            seen: if complete || begun.is_none() {
                Vec::new()
            } else {
                seen.clone()
            },
            outcomes: BTreeMap::from([
                (NodeId(4), written.clone()),
                (
                    NodeId(5),
                    Outcome::NotInferred("it waits for others".to_owned()),
                ),
            ]),
            error: None,
            complete,
        };
        assert_eq!(parse(HEADER, &text), Some(expected(Some(NodeId(6)), false)));
        // A line without its end is no line.
        let cut = format!("{text}write 6 2 0 1");
        assert_eq!(parse(HEADER, &cut), Some(expected(Some(NodeId(6)), false)));
        let whole = format!("{text}none 6 no\nend\n");
        assert!(parse(HEADER, &whole).is_some_and(|log| log.complete && log.begun.is_none()));
    }

    #[test]
    fn a_log_of_another_graph_is_none() {
        assert_eq!(
            parse(HEADER, "streamweir infer 1\nnode 0 other\nready\n"),
            None
        );
        assert_eq!(parse(HEADER, &format!("{HEADER}write 6 2 9 1\n")), None);
        assert_eq!(parse(HEADER, &format!("{HEADER}what\n")), None);
        assert_eq!(parse(HEADER, "streamweir"), Some(Log::default()));
        assert_eq!(parse(HEADER, ""), Some(Log::default()));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let plan = Plan {
            call: 3,
            skip: vec![(NodeId(7), "timed out after 10 s".to_owned())],
        };
        assert_eq!(Plan::parse(&plan.text()), Some(plan));
        assert_eq!(Plan::parse("skip 7"), None);
    }
}
