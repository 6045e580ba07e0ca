//! The log of a child: one line for each step, written at once, so that whatever
//! ends the child leaves what it had found, and the kernel that it was at.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use streamweir_trace::{BufferId, ByteRange, NodeId};

use crate::infer::Outcome;
use crate::infer::trial::Progress;

/// A step in the words of a log.
pub(super) fn lines(progress: &Progress) -> String {
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
pub(super) struct Log {
    pub(super) ready: bool,
    /// The kernel that was begun and not ended.
    pub(super) begun: Option<NodeId>,
    /// What was seen of it before its end.
    pub(super) seen: Vec<(BufferId, ByteRange)>,
    pub(super) outcomes: BTreeMap<NodeId, Outcome>,
    pub(super) error: Option<String>,
    pub(super) complete: bool,
}

/// Reads a log up to its last whole line; `None` when it is of another graph or
/// not one of ours.
pub(super) fn parse(header: &str, text: &str) -> Option<Log> {
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
}
