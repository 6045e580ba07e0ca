//! `streamweir place`: where the buffers of a recording go, and how near that is
//! to the least that is possible.

mod file;
mod json;
mod judge;
mod plot;
mod progress;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use streamweir::alloc::Policy;
use streamweir::place;
use streamweir::trace::shown;

use self::judge::Refused;
use crate::drawing::Places;
use crate::exit::{self, Failure};

/// Places the buffers of allocation logs and of lists of lifetimes.
///
/// A FILE is an allocation log (JSON) or a list of lifetimes on one axis (CSV
/// with the columns id, lower, upper, size and, if wanted, alignment). Every
/// layout is checked by the verifier. The command ends with 0 when all are
/// placed and valid, 1 when one does not fit the capacity or the verifier finds
/// a hazard, and 2 when one cannot be read; the worst comes first: 2, 1, 0.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The bytes that there are. The search is over as soon as a layout fits;
    /// none that does is an error.
    #[arg(long, value_name = "BYTES")]
    capacity: Option<u64>,
    /// How long to look for a layout of each file.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    budget_ms: u64,
    /// When the places are chosen, and by what.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Whether streams share bytes.
    #[arg(long, value_enum, default_value_t)]
    policy: Sharing,
    /// Draw the layout as SVG: time to the right, addresses upwards, a color for each stream.
    /// With several FILEs this is a folder.
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    /// Print one JSON array with an entry for each file.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Afterwards, over the whole recording.
    #[default]
    Planned,
    /// As the program runs, by pools that know who uses a buffer.
    Live,
    /// As the program runs, by pools that do not know who uses a buffer.
    Foreign,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Live => "live",
            Self::Foreign => "foreign",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sharing {
    /// Each stream has bytes of its own.
    #[default]
    Isolated,
    /// All streams share, where the recording orders the buffers already.
    Ordered,
}

impl Sharing {
    fn policy(self) -> Policy {
        match self {
            Self::Isolated => Policy::ISOLATED,
            Self::Ordered => Policy::ORDERED,
        }
    }

    fn sharing(self) -> place::Sharing {
        match self {
            Self::Isolated => place::Sharing::Isolated,
            Self::Ordered => place::Sharing::Ordered,
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut worst = 0;
    let mut places = Places::new(&options.files);
    let mut list = json::List::default();
    for file in &options.files {
        let name = file.display().to_string();
        let outcome = file::read(file)
            .map_err(Refused::Unreadable)
            .and_then(|read| Ok((judge::place(&name, &read, options)?, read.log)));
        let outcome = match outcome {
            Ok((placed, log)) => {
                if let Some(path) = &options.plot {
                    let svg = plot::draw(&log, &placed).map_err(|error| {
                        Failure::new(format_args!("the layout could not be drawn: {error}"))
                    })?;
                    let stem = places.stem(file);
                    places.write(path, &stem, "svg", &svg)?;
                }
                Ok(placed)
            }
            Err(refused) => Err(refused),
        };
        worst = worst.max(match &outcome {
            Ok(placed) if placed.hazards == 0 => 0,
            Ok(_) | Err(Refused::TooSmall { .. }) => exit::NOT_CLEAN,
            Err(Refused::Unreadable(_)) => exit::FAILED,
        });
        match &outcome {
            Ok(placed) if !options.json => exit::print(text::Text(&name, placed))?,
            Ok(_) => {}
            Err(error) => eprintln!("error: {}", shown(format_args!("{name}: {error}"))),
        }
        if options.json {
            list.push(name, outcome);
        }
    }
    if options.json {
        exit::print(exit::plain_json(&list.into_text()?))?;
    }
    Ok(worst.into())
}
