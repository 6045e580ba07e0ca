//! Perfetto's own reader over the traces that `audit --chrome` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, Outcome, Run, pip_install};
use crate::workspace::Workspace;

/// The package that knows where the reader is, and its digest. The reader itself is
/// fetched by it.
const WHEEL: &str = "perfetto==0.59.1";

/// Where the reader is named that is not in our folder or in PATH.
const VARIABLE: &str = "STREAMWEIR_TRACE_PROCESSOR";

const NAME: &str = "trace_processor_shell";

/// What is read: a capture with hazards and one without.
const CAPTURES: &[&str] = &[
    "dsv4_topk_before_join",
    "moe_inplace_race",
    "moe_shared_safe",
];

/// One line: bars; flows with a bar at both ends, by what they are; and what the reader
/// could not make sense of.
const QUERY: &str = "
select 'bars ' || (select count(*) from slice where dur > 0)
    || ' arrows ' || (select count(*) from flow f
        join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id
        where a.dur > 0 and b.dur > 0)
    || ' lanes ' || (select count(distinct track_id) from slice where dur > 0)
    || ' lost ' || (select coalesce(sum(value), 0) from stats
        where severity in ('error', 'data_loss')) || ' end' as found;
";

fn home(workspace: &Workspace) -> PathBuf {
    workspace.target.join("perfetto")
}

fn find(workspace: &Workspace) -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        return match named.is_file() {
            true => Ok(named),
            false => Err(format!("{VARIABLE} names {}, no file", named.display())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(home(workspace)).chain(std::env::split_paths(&path));
    places
        .map(|folder| folder.join(NAME))
        .find(|program| program.is_file())
        .ok_or_else(|| format!("no {NAME} in PATH (`cargo xtask setup perfetto`)"))
}

pub(crate) fn missing(workspace: &Workspace) -> Result<(), String> {
    find(workspace).map(|_| ())
}

/// Installs the package, and has it fetch the reader and check its digest.
pub(crate) fn set_up(workspace: &Workspace) -> Outcome {
    let home = home(workspace);
    let program = home.join(NAME);
    if program.is_file() {
        println!("{} is there", program.display());
        return Ok(());
    }
    let package = home.join("python");
    if !package.exists() {
        pip_install(&package, &[WHEEL])?;
    }
    let fetch = "import shutil, sys; sys.path.insert(0, sys.argv[1]); \
        from perfetto.prebuilts.manifests.trace_processor_shell import TRACE_PROCESSOR_SHELL_MANIFEST as m; \
        from perfetto.prebuilts.perfetto_prebuilts import get_perfetto_prebuilt as get; \
        shutil.copy2(get(m), sys.argv[2])";
    Run::new("python3")
        .args(["-c", fetch])
        .arg(&package)
        .arg(&program)
        .run()
        .map_err(|failure| {
            Failure::new(format!(
                "{failure}. The package is installed, but the program itself comes from Perfetto's \
                 own storage, which has to be reachable"
            ))
        })
}

/// Writes a trace of each capture, and compares what the reader finds with what the
/// file has.
pub(crate) fn read(workspace: &Workspace) -> Outcome {
    let program = find(workspace).map_err(Failure::new)?;
    workspace
        .cargo("build")
        .args(["-p", "streamweir-cli"])
        .run()?;
    let folder = home(workspace).join("traces");
    fs::create_dir_all(&folder).map_err(|error| Failure::io("make", &folder, &error))?;
    let query = folder.join("query.sql");
    fs::write(&query, QUERY).map_err(|error| Failure::io("write", &query, &error))?;
    for capture in CAPTURES {
        let trace = folder.join(format!("{capture}.chrome.json"));
        write(workspace, capture, &trace)?;
        let expected = expected(&trace)?;
        let printed = Run::new(&program)
            .arg("-q")
            .arg(&query)
            .arg(&trace)
            .stdout()?;
        if !printed.contains(&expected) {
            return Err(Failure::new(format!(
                "Perfetto reads something else in {} than `{expected}`:\n{printed}",
                trace.display()
            )));
        }
        println!("{capture}: {expected}");
    }
    Ok(())
}

/// The command ends with 1 where there are hazards, as there are to be.
fn write(workspace: &Workspace, capture: &str, trace: &Path) -> Outcome {
    let program = workspace.target.join("debug").join("streamweir");
    let input = workspace
        .root
        .join(format!("tests/data/captures/{capture}.json"));
    let output = Command::new(&program)
        .args(["audit", "--chrome"])
        .arg(trace)
        .arg(&input)
        .output()
        .map_err(|error| Failure::io("run", &program, &error))?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(Failure::new(format!(
            "`streamweir audit` of {capture} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// What the reader ought to find in a file.
fn expected(trace: &Path) -> Outcome<String> {
    let text = fs::read_to_string(trace).map_err(|error| Failure::io("read", trace, &error))?;
    let file: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{} is no JSON: {error}", trace.display())))?;
    let events = file["traceEvents"].as_array().map_or(&[][..], |all| all);
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    let mut lanes: Vec<u64> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .filter_map(|event| event["tid"].as_u64())
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    Ok(format!(
        "bars {} arrows {} lanes {} lost 0 end",
        of("X"),
        of("s"),
        lanes.len()
    ))
}
