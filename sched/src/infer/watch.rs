//! A child process that is given up when it makes no progress.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The variable that tells a child where its plan is. A program that sees it
/// set should do nothing on its way to the call that the parent could notice:
/// the child makes the trials and exits.
pub const CHILD: &str = "STREAMWEIR_INFER_CHILD";

/// How often a child is looked at.
const TICK: Duration = Duration::from_millis(10);

/// When a child is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// How long it may take to reach its call.
    pub start: Duration,
    /// How long the trials of one kernel may take.
    pub node: Duration,
    /// How many more children are started after one that hung or died.
    pub restarts: u32,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, and well.
    Well,
    /// By the watchdog.
    Hung(Duration),
    /// By itself, and not well.
    Died(String),
}

/// Runs a child until it ends, or until `log` has not grown for too long.
pub(super) fn watch(command: &mut Command, log: &Path, watchdog: &Watchdog) -> io::Result<Ended> {
    let mut child = command.spawn()?;
    let watched = (|| {
        let (mut length, mut since) = (0, Instant::now());
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(match status.success() {
                    true => Ended::Well,
                    false => Ended::Died(status.to_string()),
                });
            }
            let now = match fs::metadata(log) {
                Ok(found) => found.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
            if now != length {
                (length, since) = (now, Instant::now());
            }
            let limit = if length == 0 {
                watchdog.start
            } else {
                watchdog.node
            };
            if since.elapsed() > limit {
                return Ok(Ended::Hung(limit));
            }
            thread::sleep(TICK);
        }
    })();
    if !matches!(watched, Ok(Ended::Well | Ended::Died(_))) {
        child.kill()?;
        child.wait()?;
    }
    watched
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn ended(script: &str) -> (Ended, Duration) {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("watch-{}-{number}", std::process::id()));
        let watchdog = Watchdog {
            start: Duration::from_secs(60),
            node: Duration::from_millis(300),
            restarts: 0,
        };
        let began = Instant::now();
        let ended = watch(
            Command::new("sh").arg("-c").arg(script).env("LOG", &log),
            &log,
            &watchdog,
        )
        .expect("a shell");
        if log.exists() {
            fs::remove_file(&log).expect("our file");
        }
        (ended, began.elapsed())
    }

    #[test]
    fn a_child_that_answers_a_child_that_fails_and_one_that_is_killed() {
        assert_eq!(ended("echo ready > $LOG").0, Ended::Well);
        assert!(
            matches!(ended("echo ready > $LOG; exit 3").0, Ended::Died(how) if how.contains('3'))
        );
        assert!(matches!(ended("kill -9 $$").0, Ended::Died(how) if how.contains("signal")));
    }

    #[test]
    fn a_child_that_hangs_is_ended_and_one_that_goes_on_is_not() {
        let (hung, took) = ended("echo ready > $LOG; exec sleep 100");
        assert_eq!(hung, Ended::Hung(Duration::from_millis(300)));
        assert!(took < Duration::from_secs(90), "it slept to its end");
        let slow = "for i in 1 2 3 4 5 6 7 8; do echo $i >> $LOG; sleep 0.1; done";
        assert_eq!(ended(slow).0, Ended::Well);
    }
}
