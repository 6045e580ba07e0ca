//! The programs in docs/engines.md, docs/guide.md and docs/adopting.md are taken from
//! code that compiles.
//!
//! Before each Rust block stands `<!-- from FILE: NAME -->`, and FILE has the
//! same lines between `// begin: PAGE, NAME` and `// end: ...`.

use std::fs;
use std::path::Path;

/// The longest program that a page may show.
const MOST_LINES: usize = 40;

#[test]
fn the_programs_about_engines_are_those_of_the_examples() {
    are_those_of_the_examples("docs/engines.md", 6);
}

#[test]
fn the_programs_of_the_guide_are_those_of_the_mini_engine() {
    are_those_of_the_examples("docs/guide.md", 10);
}

#[test]
fn the_programs_about_adopting_are_those_of_the_twin() {
    are_those_of_the_examples("docs/adopting.md", 3);
}

fn are_those_of_the_examples(path: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join(path)).unwrap();
    let blocks = rust_blocks(&page);
    assert!(blocks.len() >= least, "{path}: {} programs", blocks.len());
    for (source, shown) in blocks {
        let (file, name) = source
            .and_then(|source| source.split_once(": "))
            .unwrap_or_else(|| panic!("a program does not say where it is from:\n{shown}"));
        let text = fs::read_to_string(root.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let real =
            region(&text, path, name).unwrap_or_else(|| panic!("{file} has no region {name}"));
        assert_eq!(shown, real, "{file}, {name}");
        let lines = shown.lines().count();
        assert!(
            (3..=MOST_LINES).contains(&lines),
            "{file}, {name}: {lines} lines"
        );
    }
}

#[test]
fn a_region_is_found_and_moved_to_the_margin() {
    let text = "x\n    // begin: docs/engines.md, a\n    if b {\n\n        c\n    }\n    // end: docs/engines.md, a\n";
    let region = |name| region(text, "docs/engines.md", name);
    assert_eq!(region("a").unwrap(), "if b {\n\n    c\n}\n");
    assert_eq!(region("b"), None);
    let page = "<!-- from f.rs: a -->\n```rust\nx\n```\n\n```toml\ny\n```\n```rust\nz\n```\n";
    assert_eq!(
        rust_blocks(page),
        [
            (Some("f.rs: a"), "x\n".to_owned()),
            (None, "z\n".to_owned())
        ]
    );
}

/// Each Rust block, with what the line before it says of its source.
fn rust_blocks(page: &str) -> Vec<(Option<&str>, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        if line.starts_with("```rust") {
            let shown: String = lines
                .by_ref()
                .take_while(|line| *line != "```")
                .map(|line| format!("{line}\n"))
                .collect();
            let source = before
                .strip_prefix("<!-- from ")
                .and_then(|rest| rest.strip_suffix(" -->"));
            blocks.push((source, shown));
        }
        before = line;
    }
    blocks
}

/// The lines of a region, without their common indentation.
fn region(text: &str, page: &str, name: &str) -> Option<String> {
    let is = |line: &str, mark: &str| line.trim() == format!("// {mark}: {page}, {name}");
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !is(line, "begin"))
        .skip(1)
        .take_while(|line| !is(line, "end"))
        .collect();
    let margin = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()?;
    Some(
        lines
            .iter()
            .map(|line| format!("{}\n", line.get(margin..).unwrap_or("")))
            .collect(),
    )
}
