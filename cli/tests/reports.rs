//! The examples of docs/reports.md are what the command prints.
//!
//! A block that begins with `$` is run in the root of the repository, and what
//! follows is compared with what it prints. A line `...` stands for any number
//! of lines. `graph.dot` and `trace.json` lie in a folder of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of the page, each with what it is said to print.
fn examples(page: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = page.split("```text\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("\n```").expect("a closed block").0);
    blocks
        .filter_map(|block| block.strip_prefix("$ "))
        .map(|block| {
            let mut lines = block.lines();
            (lines.next().expect("a command"), lines.collect())
        })
        .collect()
}

/// What a command of the page prints.
fn printed(command: &str, folder: &Path) -> String {
    let mut words = command.split(' ');
    let program = words.next().expect("a program");
    let words = words.map(|word| match word {
        "graph.dot" | "trace.json" => folder.join(word).to_str().expect("a plain path").to_owned(),
        _ => word.to_owned(),
    });
    let words: Vec<String> = words.collect();
    match program {
        "streamweir" => {
            let output = Command::new(env!("CARGO_BIN_EXE_streamweir"))
                .args(&words)
                .current_dir(root())
                .output()
                .expect("the command runs");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
            String::from_utf8(output.stdout).expect("text")
        }
        "cat" => fs::read_to_string(&words[0]).expect("a file that an earlier command wrote"),
        other => panic!("no example runs {other}"),
    }
}

/// Whether lines are those of a pattern, in which `...` is any number of lines.
fn fits(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        Some((line, rest)) => lines.first() == Some(line) && fits(rest, &lines[1..]),
    }
}

#[test]
fn every_example_is_what_the_command_prints() {
    let page = fs::read_to_string(root().join("docs/reports.md")).expect("the page");
    let folder = env::temp_dir().join(format!("streamweir-{}-examples", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let examples = examples(&page);
    assert!(examples.len() >= 7, "{} examples", examples.len());
    for (command, pattern) in examples {
        let printed = printed(command, &folder);
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        assert!(
            fits(&pattern, &lines),
            "docs/reports.md shows something else than\n$ {command}\n{printed}"
        );
    }
    fs::remove_dir_all(&folder).expect("it goes");
}

#[test]
fn what_the_page_shows_and_points_to_is_there() {
    let page = fs::read_to_string(root().join("docs/reports.md")).expect("the page");
    let targets: Vec<&str> = page
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .filter_map(|target| target.split('#').next().filter(|file| !file.is_empty()))
        .collect();
    assert!(targets.contains(&"images/report.png"), "{targets:?}");
    for target in targets {
        assert!(root().join("docs").join(target).is_file(), "{target}");
    }
}

#[test]
fn a_line_of_dots_is_any_number_of_lines_and_nothing_else_is() {
    assert!(fits(&["a", "...", "b"], &["a", "b"]));
    assert!(fits(&["a", "...", "b"], &["a", "b", "x", "b"]));
    assert!(fits(&["..."], &[]));
    assert!(!fits(&["a", "b"], &["a", "x", "b"]));
    assert!(!fits(&["a", "..."], &["b"]));
    assert!(!fits(&["a"], &["a", "b"]));
}
