//! `streamweir doctor`: what this machine offers, and where it was looked for.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use streamweir::doctor::CudaReport;
use streamweir::driver::{CudaVersion, DeviceInfo};
use streamweir::kernels::compile;

use crate::exit::{self, Failure};

/// Say which devices, driver and compiler there are, and where they were looked
/// for
///
/// Exits with 0 whatever there is: without a GPU the simulated device remains.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let cuda = CudaReport::survey();
    let compiler = compile::doctor();
    if options.json {
        let json = serde_json::to_string_pretty(&Tools::of(&cuda, &compiler))?;
        exit::print(json)?;
    } else {
        exit::print(format_args!("{cuda}\n{compiler}\nsim: always there"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Tools {
    driver: Driver,
    devices: Vec<Device>,
    nvrtc: Place,
    headers: Place,
    cache: Option<String>,
}

#[derive(Serialize)]
struct Driver {
    cuda_version: Option<String>,
    library: Option<String>,
    looked_for: Vec<String>,
    search_path: Option<String>,
    problem: Option<String>,
}

#[derive(Serialize)]
struct Device {
    id: String,
    name: String,
    capability: String,
    memory_bytes: u64,
    multiprocessors: u32,
}

/// Where something is, or why it is nowhere.
#[derive(Default, Serialize)]
struct Place {
    path: Option<String>,
    version: Option<String>,
    problem: Option<String>,
}

impl Tools {
    fn of(cuda: &CudaReport, compiler: &compile::Doctor) -> Self {
        Self {
            driver: Driver {
                cuda_version: cuda.driver_version.map(|v| CudaVersion(v).to_string()),
                library: cuda.library.as_ref().map(|path| path.display().to_string()),
                looked_for: cuda.looked_for.clone(),
                search_path: cuda.search_path.clone(),
                problem: cuda.problem.clone(),
            },
            devices: cuda.devices.iter().map(Device::of).collect(),
            nvrtc: match &compiler.nvrtc {
                Ok((path, version)) => Place {
                    path: Some(path.display().to_string()),
                    version: Some(version.to_string()),
                    problem: None,
                },
                Err(error) => Place {
                    problem: Some(error.to_string()),
                    ..Place::default()
                },
            },
            headers: match &compiler.headers {
                Ok(path) => Place {
                    path: Some(path.display().to_string()),
                    ..Place::default()
                },
                Err(tried) => Place {
                    problem: Some(
                        tried
                            .iter()
                            .map(ToString::to_string)
                            .collect::<Vec<_>>()
                            .join("; "),
                    ),
                    ..Place::default()
                },
            },
            cache: compiler
                .cache
                .as_ref()
                .map(|folder| folder.display().to_string()),
        }
    }
}

impl Device {
    fn of(info: &DeviceInfo) -> Self {
        let (major, minor) = info.capability;
        Self {
            id: format!("cuda:{}", info.ordinal),
            name: info.name.clone(),
            capability: format!("{major}.{minor}"),
            memory_bytes: info.memory,
            multiprocessors: info.multiprocessors,
        }
    }
}
