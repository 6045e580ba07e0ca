//! `streamweir decode --soak`: very many replays, over as many visits as it takes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use streamweir::Device;
use streamweir::driver::Backend;
use streamweir_integration::dsv4::{Setup, Tally};

use crate::exit::{self, Failure};

/// What is kept between visits: of what load, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    device: String,
    config: String,
    layers: u32,
    context: u32,
    index_k: String,
    packing: String,
    /// States from before kernels could start early have none.
    #[serde(default)]
    pdl: bool,
    seed: u64,
    batches: u64,
    faults: u64,
    buckets: BTreeMap<u32, Bucket>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bucket {
    replays: u64,
    differing_words: u64,
}

/// Why a state cannot be gone on from.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error("{}: {source}; it must be a file that --soak has written, or not exist yet", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: it is not the state of a soak: {source}", path.display())]
    Malformed {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: its {what} is {theirs} and here it is {ours}; choose another file, or the same options", path.display())]
    Another {
        path: PathBuf,
        what: &'static str,
        theirs: String,
        ours: String,
    },
    #[error("{}: the state could not be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

pub(super) fn run(
    device: &Device,
    setup: Setup,
    replays: u64,
    path: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let fresh = State::new(device, &setup);
    let state = match path {
        Some(path) => fresh.resume(path)?,
        None => fresh,
    };
    // The reference of a batch takes as long as some replays, and on the simulated
    // device every replay does.
    let rounds = match device.info().backend {
        Backend::Sim => 16,
        Backend::Cuda | Backend::Other(_) => 512,
    };
    let bar = ProgressBar::new(replays);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} replays, {eta} left") {
        bar.set_style(style);
    }
    let tally = state
        .tally()
        .advance::<Failure>(device, setup, (replays, rounds), |tally| {
            bar.set_position(tally.replays());
            match path {
                Some(path) => Ok(state.with(tally).save(path)?),
                None => Ok(()),
            }
        })?;
    bar.finish_and_clear();
    exit::print(serde_json::to_string_pretty(&state.with(&tally))?)?;
    if tally.is_clean() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::not_clean(
            "replays with tagged pools differ from a run on one stream, or met ids outside their pools",
        ))
    }
}

impl State {
    fn new(device: &Device, setup: &Setup) -> Self {
        Self {
            device: device.info().name.clone(),
            config: setup.config.name.to_owned(),
            layers: setup.config.layers,
            context: setup.config.max_context,
            index_k: setup.index_keys.word().to_owned(),
            packing: setup.packing.word().to_owned(),
            pdl: setup.programmatic,
            seed: setup.seed,
            batches: 0,
            faults: 0,
            buckets: (setup.buckets.iter())
                .map(|&bucket| (bucket, Bucket::default()))
                .collect(),
        }
    }

    /// The state in a file, or this one where there is none yet.
    fn resume(self, path: &Path) -> Result<Self, StateError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self),
            Err(source) => {
                return Err(StateError::Unreadable {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let found: Self = serde_json::from_str(&text).map_err(|source| StateError::Malformed {
            path: path.to_owned(),
            source,
        })?;
        let load = |state: &Self| {
            [
                ("device", state.device.clone()),
                ("config", state.config.clone()),
                ("layers", state.layers.to_string()),
                ("context", state.context.to_string()),
                ("index_k", state.index_k.clone()),
                ("packing", state.packing.clone()),
                ("pdl", state.pdl.to_string()),
                ("seed", state.seed.to_string()),
                ("list of buckets", state.list()),
            ]
        };
        for ((what, theirs), (_, ours)) in load(&found).into_iter().zip(load(&self)) {
            if theirs != ours {
                return Err(StateError::Another {
                    path: path.to_owned(),
                    what,
                    theirs,
                    ours,
                });
            }
        }
        Ok(found)
    }

    fn list(&self) -> String {
        let buckets: Vec<_> = self.buckets.keys().map(u32::to_string).collect();
        buckets.join(",")
    }

    fn tally(&self) -> Tally {
        let buckets = self.buckets.iter();
        Tally {
            batches: self.batches,
            buckets: buckets
                .map(|(&bucket, of)| (bucket, (of.replays, of.differing_words)))
                .collect(),
            faults: self.faults,
        }
    }

    fn with(&self, tally: &Tally) -> Self {
        let buckets = tally.buckets.iter();
        Self {
            batches: tally.batches,
            faults: tally.faults,
            buckets: buckets
                .map(|(&bucket, &(replays, differing_words))| {
                    let of = Bucket {
                        replays,
                        differing_words,
                    };
                    (bucket, of)
                })
                .collect(),
            ..self.clone()
        }
    }

    /// Written beside the old one and put in its place, so that a visit that ends
    /// at any moment leaves one of the two.
    fn save(&self, path: &Path) -> Result<(), StateError> {
        let failed = |source| StateError::Unwritable {
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let beside = path.with_extension("new");
        fs::write(&beside, text).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)
    }
}
