//! Whether each crate that can be published could be published today.

use std::path::Path;

use serde_json::Value;

use crate::command::{Failure, Outcome};
use crate::workspace::Workspace;

/// What crates.io shows of a crate, under the names of `cargo metadata`.
const TEXTS: &[&str] = &[
    "description",
    "license",
    "repository",
    "readme",
    "rust_version",
];
const LISTS: &[&str] = &["keywords", "categories"];

/// crates.io takes at most five of each.
const LIST_LIMIT: usize = 5;

/// Fails with every gap of every publishable member, and when cargo cannot
/// say which files a package would have.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let publishable: Vec<&Value> = workspace.members().filter(|m| is_publishable(m)).collect();
    let name = |member: &Value| member["name"].as_str().unwrap_or("?").to_owned();
    let gaps: Vec<String> = publishable
        .iter()
        .flat_map(|m| {
            missing(m)
                .into_iter()
                .map(|gap| format!("{}: {gap}", name(m)))
        })
        .collect();
    if !gaps.is_empty() {
        return Err(Failure::new(format!(
            "not fit to publish: {}",
            gaps.join("; ")
        )));
    }
    for member in publishable {
        let files = workspace
            .cargo("package")
            .args(["--list", "--allow-dirty", "-p", &name(member)])
            .stdout()?;
        println!("{}: {} files", name(member), files.lines().count());
    }
    Ok(())
}

/// `publish = false` is an empty list of registries.
fn is_publishable(member: &Value) -> bool {
    member["publish"].as_array().is_none_or(|to| !to.is_empty())
}

fn missing(member: &Value) -> Vec<String> {
    let mut gaps = Vec::new();
    for &field in TEXTS {
        if member[field].as_str().is_none_or(str::is_empty) {
            gaps.push(format!("no {field}"));
        }
    }
    for &field in LISTS {
        match member[field].as_array().map_or(0, Vec::len) {
            0 => gaps.push(format!("no {field}")),
            count if count > LIST_LIMIT => {
                gaps.push(format!("{count} {field}, at most {LIST_LIMIT} are taken"))
            }
            _ => {}
        }
    }
    if let (Some(manifest), Some(readme)) =
        (member["manifest_path"].as_str(), member["readme"].as_str())
    {
        let readme = Path::new(manifest).with_file_name("").join(readme);
        if !readme.is_file() {
            gaps.push(format!("the readme {} does not exist", readme.display()));
        }
    }
    // A path dependency without a version is dropped by `cargo publish`, and
    // then the crate does not build.
    for dependency in member["dependencies"].as_array().into_iter().flatten() {
        let for_tests = dependency["kind"] == "dev";
        if dependency["path"].is_string() && dependency["req"] == "*" && !for_tests {
            gaps.push(format!(
                "the dependency {} has a path and no version",
                dependency["name"]
            ));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complete() -> Value {
        json!({
            "description": "d", "license": "MIT", "repository": "r", "readme": "Cargo.toml",
            "rust_version": "1.88", "keywords": ["k"], "categories": ["c"],
            "manifest_path": concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "dependencies": [],
        })
    }

    #[test]
    fn a_complete_crate_has_no_gap() {
        assert_eq!(missing(&complete()), Vec::<String>::new());
    }

    #[test]
    fn each_gap_is_named() {
        let mut crate_ = complete();
        crate_["description"] = json!(null);
        crate_["keywords"] = json!([]);
        crate_["categories"] = json!(["1", "2", "3", "4", "5", "6"]);
        crate_["readme"] = json!("NO-SUCH-README.md");
        crate_["dependencies"] = json!([
            { "name": "helper", "path": "/w/helper", "req": "*", "kind": null },
            { "name": "fixture", "path": "/w/fixture", "req": "*", "kind": "dev" },
        ]);
        let gaps = missing(&crate_).join("; ");
        assert!(
            gaps.starts_with("no description; no keywords; 6 categories, at most 5 are taken; "),
            "{gaps}"
        );
        assert!(gaps.contains("NO-SUCH-README.md does not exist"), "{gaps}");
        assert!(
            gaps.contains(r#"the dependency "helper" has a path and no version"#),
            "{gaps}"
        );
        assert!(!gaps.contains("fixture"), "{gaps}");
    }

    #[test]
    fn publish_false_is_left_alone() {
        assert!(!is_publishable(&json!({ "publish": [] })));
        assert!(is_publishable(&json!({ "publish": null })));
    }
}
