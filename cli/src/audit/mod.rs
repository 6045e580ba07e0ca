//! `streamweir audit`: the verdict about files, for people and for programs.

mod json;
mod looked;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use streamweir::trace::{ALLOC_LOG_FORMAT, shown};
use streamweir::verify::audit::{Audit, AuditError, Mode, audit_file};
use streamweir::verify::{Axis, Options as Verify, chrome, dot, html};

use crate::audit::looked::{Looked, Outcome};
use crate::drawing::Places;
use crate::exit::{self, Failure};

/// Checks captured graphs against every hazard rule.
///
/// A FILE is a trace, a session trace or a capture dump of another program. The
/// command ends with 0 when all are safe, 1 when one has a proven hazard, 3
/// when one has only possible ones, and 2 when one cannot be read; the worst
/// comes first: 2, 1, 3, 0.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON array with an entry for each file.
    #[arg(long)]
    json: bool,
    /// Write a page that draws the capture: to PATH, or, for several files, to
    /// one page each in the folder PATH. Never over one of the files.
    #[arg(long, value_name = "PATH")]
    html: Option<PathBuf>,
    /// Write the graph for Graphviz, to PATH or in the folder PATH.
    #[arg(long, value_name = "PATH")]
    dot: Option<PathBuf>,
    /// Write the graph as Chrome trace JSON, which Perfetto opens, to PATH or in the
    /// folder PATH.
    #[arg(long, value_name = "PATH")]
    chrome: Option<PathBuf>,
    /// Count a verdict that rests on assumptions, or leaves nodes out, as a
    /// possible hazard.
    #[arg(long)]
    strict: bool,
    /// Where the accesses of a capture dump are taken from.
    #[arg(long, value_parser = modes(), default_value = "auto")]
    mode: Mode,
}

/// Where accesses may be taken from, by the words of the command line.
const MODES: [(&str, &str, Mode); 3] = [
    (
        "auto",
        "The operator log where there is one, else the pointers",
        Mode::Auto,
    ),
    ("ops", "The operator log", Mode::Operators),
    (
        "pointers",
        "The pointers among the kernels' parameters",
        Mode::Pointers,
    ),
];

fn modes() -> impl TypedValueParser<Value = Mode> {
    let words = MODES.map(|(word, help, _)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).map(|chosen| {
        let mode = MODES.iter().find(|(word, ..)| *word == chosen);
        mode.map_or(Mode::default(), |&(.., mode)| mode)
    })
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let verify = Verify {
        certificate: false,
        ..Verify::default()
    };
    let mut places = Places::new(&options.files);
    let mut worst = Outcome::Safe;
    let mut list = json::List::default();
    if options.files.len() == 1
        && let Some([one, other]) = options.same_place()
    {
        let told = format!("{one} and {other} name one file; name two");
        return Err(Failure::new(told));
    }
    // A verdict is not lost with its drawing: what could not be written ends the
    // command once all has been said.
    let mut undrawn = None;
    for file in &options.files {
        let start = Instant::now();
        let audit = audit_file(file, options.mode, &verify).map_err(|error| in_words(&error));
        let looked = Looked {
            file: file.clone(),
            outcome: audit.map(|audit| (audit, start.elapsed())),
        };
        if let Ok((audit, _)) = &looked.outcome {
            let stem = places.stem(file);
            if let Err(failure) = draw(options, &places, &stem, audit) {
                undrawn.get_or_insert(failure);
            }
        }
        worst = worst.max(looked.judge(options.strict));
        match (options.json, &looked.outcome) {
            (true, _) => list.push(&looked),
            (false, Ok((audit, _))) => {
                exit::print(format_args!(
                    "{}\n{}",
                    shown(looked.file.display()),
                    audit.report
                ))?;
            }
            (false, Err(error)) => {
                eprintln!(
                    "error: {}",
                    shown(format_args!("{}: {error}", looked.file.display()))
                );
            }
        }
    }
    if options.json {
        exit::print(exit::plain_json(&list.into_text()?))?;
    }
    if let Some(failure) = undrawn {
        return Err(failure);
    }
    Ok(match worst {
        Outcome::Safe => ExitCode::SUCCESS,
        Outcome::Possible => exit::POSSIBLE.into(),
        Outcome::Hazard => exit::NOT_CLEAN.into(),
        Outcome::Unreadable => exit::FAILED.into(),
    })
}

impl Options {
    /// Two drawings that are to be written to one place.
    fn same_place(&self) -> Option<[&'static str; 2]> {
        let places = [
            ("--html", &self.html),
            ("--dot", &self.dot),
            ("--chrome", &self.chrome),
        ];
        let pairs = [(0, 1), (0, 2), (1, 2)];
        pairs.into_iter().find_map(|(one, other)| {
            let [(one, here), (other, there)] = [places[one], places[other]];
            (here.is_some() && here == there).then_some([one, other])
        })
    }
}

fn draw(options: &Options, places: &Places<'_>, stem: &str, audit: &Audit) -> Result<(), Failure> {
    if let Some(path) = &options.html {
        let page = html(&audit.trace, &audit.report)?;
        places.write(path, stem, "html", &page)?;
    }
    if let Some(path) = &options.dot {
        let graph = dot(&audit.trace, &audit.report)?;
        places.write(path, stem, "dot", &graph)?;
    }
    if let Some(path) = &options.chrome {
        // What is read ends in `.json`, too.
        let events = chrome(&audit.trace, &audit.report, Axis::Order)?;
        places.write(path, stem, "chrome.json", &events)?;
    }
    Ok(())
}

/// Why a file allows no verdict, and which command it is meant for.
fn in_words(error: &AuditError) -> String {
    match error {
        AuditError::Format(format) if format == ALLOC_LOG_FORMAT => {
            format!("{error}. `streamweir place` reads allocation logs")
        }
        _ => error.to_string(),
    }
}
