//! The mini engine of the examples, on the simulated device, and its lines by purpose.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use streamweir::Device;

#[path = "../../examples/engine/main.rs"]
#[allow(dead_code)]
mod mini;

#[test]
fn every_session_is_right_with_overlap_and_without() {
    let load = mini::Load::small();
    let mut sessions = BTreeSet::new();
    for seed in 1..4 {
        for overlap in [false, true] {
            let device = Device::sim(seed);
            let outcome = mini::run(&device, &load, overlap).unwrap();
            assert_eq!(outcome.wrong, 0, "seed {seed}, overlap {overlap}");
            assert_eq!(outcome.streams, if overlap { 2 } else { 1 });
            let metrics = outcome.metrics;
            assert_eq!(metrics.planned, metrics.reserved);
            let used: Vec<u32> = metrics.replays.into_keys().collect();
            assert_eq!(used, load.buckets);
            assert!(metrics.eager > 0 && metrics.padding > 0);
            sessions.insert(outcome.sessions);
        }
    }
    assert_eq!(sessions.len(), 1, "the same whatever overlaps");
}

/// The plain model refuses what it would not have given.
#[test]
fn a_wrong_token_is_a_wrong_session() {
    let load = mini::Load::small();
    let outcome = mini::run(&Device::sim(1), &load, true).unwrap();
    let (prompts, config) = (load.prompts(), load.config);
    let mut session = outcome.sessions[2].clone();
    assert!(mini::agrees(&config, &prompts[2], &session));
    session[3] = (session[3] + 1) % config.vocab;
    assert!(!mini::agrees(&config, &prompts[2], &session));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/engine")
}

/// What a line that calls something of streamweir's has in it, beside names that are
/// imported from there.
const CALLS: &[&str] = &[
    "kernel!",
    ".holds(",
    ".into())",
    ".load(",
    "module.kernel",
    ".persistent",
    ".launch(",
    ".scratch",
    ".fork",
    ".join(",
    ".see(",
    ".scope(",
    ".capture(",
    ".eager(",
    ".verify(",
    ".group(",
    ".report()",
    ".upload(",
    ".replay",
    ".send(",
    ".receive(",
    ".write(",
    ".read(",
    ".end()",
    ".feed",
    ".staging(",
    ".readback(",
    ".event(",
    ".record(",
    ".elapsed_ms(",
    ".synchronize(",
    ".origin()",
    ".gemm(",
    ".index()",
    ".stream(",
    ".sizing(",
];

/// Lines of code, and those of them that name or call something of streamweir's.
fn count(text: &str) -> [usize; 2] {
    let code: Vec<&str> = (text.lines().map(str::trim))
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    let words = |line: &str| -> BTreeSet<String> {
        let word = |c: char| !c.is_alphanumeric() && c != '_';
        line.split(word).map(str::to_owned).collect()
    };
    let all = code.join("\n");
    let imports = all.split("use streamweir").skip(1);
    let imports = imports.filter_map(|rest| rest.split(';').next());
    let mut known: BTreeSet<String> = imports.flat_map(words).collect();
    for plain in ["", "self", "Result", "streamweir", "as", "kernel"] {
        known.remove(plain);
    }
    let mut importing = false;
    let ours = code.iter().filter(|line| {
        importing |= line.starts_with("use streamweir");
        let import = importing;
        importing &= !line.ends_with(';');
        import
            || line.contains("streamweir::")
            || CALLS.iter().any(|call| line.contains(call))
            || words(line).iter().any(|word| known.contains(word))
    });
    let ours = ours.count();
    [code.len(), ours]
}

/// The table of the guide is counted.
#[test]
fn the_lines_of_the_guide_are_those_of_the_engine() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide.md");
    let guide = fs::read_to_string(guide).unwrap();
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    let mut sum = [0, 0];
    let mut wrong = Vec::new();
    let mut row = |file: &str, [lines, ours]: [usize; 2]| {
        let expected = format!(" | {lines} | {ours} |");
        let begin = format!("| {file} |");
        let found = guide.lines().find(|line| line.starts_with(&begin));
        if !found.is_some_and(|line| line.ends_with(&expected)) {
            wrong.push(format!("{begin} ..{expected}"));
        }
    };
    for file in &files {
        let text = fs::read_to_string(folder().join(file)).unwrap();
        let counted = count(&text);
        row(&format!("`{file}`"), counted);
        sum = [sum[0] + counted[0], sum[1] + counted[1]];
    }
    row("all", sum);
    assert!(
        wrong.is_empty(),
        "docs/guide.md wants\n{}",
        wrong.join("\n")
    );
}
