//! What README.md and the pages of docs/ name is there: files, folders, links,
//! tests.
//!
//! - A path in backticks: one with a slash that ends in a slash or in the extension
//!   of a source file, or begins with a folder of the project. `{a,b}` stands for
//!   either, `*` for anything in a name.
//! - A file name in backticks without a slash: some file has it.
//! - The target of a link that is no address of the web.
//! - What a walk tells its reader to make is not there: a page lists it in a comment,
//!   `<!-- to be made: a/path.rs a_test -->`.
//! - In a paragraph that begins with "Tests:" or "Test:", a name in backticks with an
//!   underscore is that of a test; `r4_*` and `every_call_...` are names of several.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with what was built or made by a run: not part of the tree.
const MADE: [&str; 4] = ["target", ".git", "dist", "fuzz/artifacts"];
/// Endings of the files that documents name.
const EXTENSIONS: [&str; 10] = [
    ".rs", ".md", ".toml", ".cu", ".cuh", ".sh", ".py", ".json", ".svg", ".png",
];

/// All files and folders of the project, and what its Rust files define or list as
/// tests.
struct Tree {
    root: PathBuf,
    paths: BTreeSet<String>,
    tests: BTreeSet<String>,
}

impl Tree {
    fn read() -> Self {
        let mut tree = Self {
            root: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            paths: BTreeSet::new(),
            tests: BTreeSet::new(),
        };
        tree.walk("");
        tree
    }

    fn walk(&mut self, folder: &str) {
        let entries = fs::read_dir(self.root.join(folder)).unwrap();
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = match folder {
                "" => name,
                folder => format!("{folder}/{name}"),
            };
            // A workspace inside has a target folder of its own.
            if MADE.contains(&path.as_str()) || path.ends_with("/target") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                self.walk(&path);
            } else if path.ends_with(".rs") {
                self.tests
                    .extend(names_of_tests(&fs::read_to_string(entry.path()).unwrap()));
            }
            self.paths.insert(path);
        }
    }

    fn has_path(&self, pattern: &str) -> bool {
        self.paths.iter().any(|path| matches(pattern, path))
    }

    fn has_file_name(&self, pattern: &str) -> bool {
        let name = |path: &String| path.rsplit('/').next().is_some_and(|n| matches(pattern, n));
        self.paths.iter().any(name)
    }

    fn has_test(&self, pattern: &str) -> bool {
        self.tests.iter().any(|test| matches(pattern, test))
    }

    /// The faults of one page, each with its place.
    fn faults(&self, page: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |line: usize, what: String| faults.push(format!("{page}:{line}: {what}"));
        let (mut fenced, mut of_tests) = (false, false);
        let unmade = text
            .split("<!-- to be made:")
            .skip(1)
            .filter_map(|rest| rest.split("-->").next())
            .flat_map(str::split_whitespace);
        let unmade: BTreeSet<&str> = unmade.collect();
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            if fenced {
                continue;
            }
            if text.trim().is_empty() {
                of_tests = false;
            }
            of_tests |= text.starts_with("Tests:") || text.starts_with("Test:");
            for span in text.split('`').skip(1).step_by(2) {
                for word in expanded(span) {
                    if unmade.contains(word.as_str()) {
                        continue;
                    }
                    if let Some(path) = self.path_in(&word) {
                        if !self.has_path(path) {
                            fault(line, format!("there is no `{path}`"));
                        }
                    } else if is_file_name(&word) {
                        if !self.has_file_name(&word) {
                            fault(line, format!("no file is called `{word}`"));
                        }
                    } else if of_tests && test_in(&word).is_some_and(|test| !self.has_test(&test)) {
                        fault(line, format!("there is no test `{word}`"));
                    }
                }
            }
            for target in links(text) {
                let folder = Path::new(page).parent().unwrap_or(Path::new(""));
                let target = target.split('#').next().unwrap_or_default();
                let beside = self.root.join(folder).join(target);
                if !target.is_empty() && !target.contains("://") && !beside.exists() {
                    fault(line, format!("the link to {target} leads nowhere"));
                }
            }
        }
        faults
    }

    /// The path that a word is, if it is one of the project's.
    fn path_in<'a>(&self, word: &'a str) -> Option<&'a str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
        if !word.chars().all(plain) || word.starts_with('/') {
            return None;
        }
        let (first, _) = word.split_once('/')?;
        if MADE.iter().any(|made| word.starts_with(made)) {
            return None;
        }
        let folder = word.strip_suffix('/');
        let known = EXTENSIONS.iter().any(|ending| word.ends_with(ending));
        (folder.is_some() || known || self.paths.contains(first)).then(|| folder.unwrap_or(word))
    }
}

/// Functions, and names that a table of tests gives them.
fn names_of_tests(source: &str) -> impl Iterator<Item = String> {
    let ident = |text: &str| -> String {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let functions = source.split("fn ").skip(1).map(ident);
    let listed = source.split("(\"").skip(1).map(ident);
    functions.chain(listed)
}

/// The words that `{a,b}` in one stands for.
fn expanded(word: &str) -> Vec<String> {
    let parts = word
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        None => vec![word.to_owned()],
        Some((before, (choices, after))) => choices
            .split(',')
            .flat_map(|choice| expanded(&format!("{before}{choice}{after}")))
            .collect(),
    }
}

/// Whether `text` is `pattern`, in which a star stands for anything but a slash.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == text;
    };
    text.strip_prefix(before).is_some_and(|rest| {
        let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        ends.take_while(|&end| !rest[..end].contains('/'))
            .any(|end| matches(after, &rest[end..]))
    })
}

fn is_file_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
    let source = [".rs", ".cu", ".cuh"];
    word.chars().all(plain)
        && source.iter().any(|ending| {
            word.strip_suffix(ending)
                .is_some_and(|name| !name.is_empty())
        })
}

/// The pattern of tests that a word is.
fn test_in(word: &str) -> Option<String> {
    let pattern = word.replace("...", "*");
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_*".contains(c);
    (pattern.contains('_') && pattern.chars().all(plain)).then_some(pattern)
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

#[test]
fn documents_name_what_is_there() {
    let tree = Tree::read();
    let pages = tree.paths.iter().filter(|path| {
        let docs = path.starts_with("docs/") && path.ends_with(".md");
        docs || path.as_str() == "README.md" || path.as_str() == "CHANGELOG.md"
    });
    let mut faults = Vec::new();
    for page in pages {
        let text = fs::read_to_string(tree.root.join(page)).unwrap();
        faults.extend(tree.faults(page, &text));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn what_is_not_there_is_named_with_its_line() {
    let tree = Tree::read();
    let page = "Here is `src/lib.rs`, `src/new.rs`, and [a page](design.md#words).<!-- to be made: src/new.rs new.rs -->\n\
        `src/{lib,nothing}.rs`, `nowhere/`, `verify/nothing` and `nobody.rs`;\n\
        [elsewhere](nothing.md), `layer 17/indexer`, `/usr/lib`, `off / full`, `dist/gpu/run.sh`.\n\
        ```text\n`src/never.rs`\n```\n\
        `not_a_test` is none.\n\n\
        Tests: `documents_name_...`, `nobody_wrote_this` and\n\
        `nobody_wrote_*`.\n";
    assert_eq!(
        tree.faults("docs/page.md", page),
        [
            "docs/page.md:2: there is no `src/nothing.rs`",
            "docs/page.md:2: there is no `nowhere`",
            "docs/page.md:2: there is no `verify/nothing`",
            "docs/page.md:2: no file is called `nobody.rs`",
            "docs/page.md:3: the link to nothing.md leads nowhere",
            "docs/page.md:9: there is no test `nobody_wrote_this`",
            "docs/page.md:10: there is no test `nobody_wrote_*`",
        ]
    );
}
