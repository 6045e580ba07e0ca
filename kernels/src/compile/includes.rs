//! The files that a program includes from folders: part of what its cubin depends on.
//!
//! They are found by the words after `#include`, in comments and branches that are not
//! taken, too, so more may be read than the compiler reads, and never less.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Program;

/// The files below `folders` that a program includes, one through another; `None` where a
/// name is not written out, so that nobody but the preprocessor knows it.
pub(super) fn read(program: &Program, folders: &[PathBuf]) -> Option<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    if folders.is_empty() {
        return Some(found);
    }
    let texts = program.headers.iter().map(|header| &header.source);
    let mut open: Vec<(PathBuf, String)> = texts
        .chain([&program.source])
        .map(|text| (PathBuf::new(), text.clone()))
        .collect();
    while let Some((folder, text)) = open.pop() {
        for name in names(&text) {
            let name = name?;
            // A file looks beside itself first. What is nowhere here is a text of the
            // program, the toolkit's, or missing.
            let beside = (!folder.as_os_str().is_empty()).then(|| folder.join(name));
            let places = beside
                .into_iter()
                .chain(folders.iter().map(|at| at.join(name)));
            for path in places {
                if found.contains_key(&path) {
                    continue;
                }
                let Ok(bytes) = fs::read(&path) else { continue };
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let folder = path.parent().map(Path::to_owned).unwrap_or_default();
                found.insert(path, text.clone());
                open.push((folder, text));
            }
        }
    }
    Some(found)
}

/// The names that a text includes; `None` for one that is a macro.
fn names(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.lines().filter_map(|line| {
        let directive = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = directive.strip_prefix("include")?.trim_start();
        let close = match rest.chars().next() {
            Some('<') => '>',
            Some('"') => '"',
            _ => return Some(None),
        };
        Some(rest[1..].split(close).next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(source: &str) -> Program {
        Program {
            name: "a.cu".into(),
            source: source.into(),
            headers: Vec::new(),
            toolkit_headers: false,
        }
    }

    #[test]
    fn files_are_followed_through_each_other_and_macros_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        fs::write(at("a.cuh"), "#include \"deep/b.cuh\"\n").unwrap();
        fs::write(at("deep/b.cuh"), "# include <c.cuh>\n#include \"a.cuh\"\n").unwrap();
        fs::write(at("deep/c.cuh"), "int c;").unwrap();
        let folders = [folder.path().to_owned()];
        let found = read(
            &program("  #include <a.cuh>\n#include <absent.h>\n"),
            &folders,
        );
        let found: Vec<_> = found.unwrap().into_keys().collect();
        assert_eq!(found, [at("a.cuh"), at("deep/b.cuh"), at("deep/c.cuh")]);
        assert_eq!(read(&program("#include HEADER\n"), &folders), None);
        assert_eq!(
            read(&program("#include HEADER\n"), &[]),
            Some(BTreeMap::new())
        );
    }
}
