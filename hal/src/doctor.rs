//! What this machine offers: the CUDA driver, and the devices behind it.
//!
//! The report is data for `streamweir doctor` and for an engine's start-up log.
//! Making it creates no context and never fails: what is wrong is part of it.

use std::fmt;
use std::path::PathBuf;

use crate::driver::{CudaVersion, DeviceInfo};

/// What was found of CUDA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaReport {
    /// The names under which the driver library was looked for; none when this
    /// build has no CUDA backend.
    pub looked_for: Vec<String>,
    /// What the loader's search path adds to the system's directories
    /// (`LD_LIBRARY_PATH`, or `PATH` on Windows).
    pub search_path: Option<String>,
    /// The file that was loaded, where the system tells.
    pub library: Option<PathBuf>,
    /// The CUDA version that the driver supports, as CUDA encodes it.
    pub driver_version: Option<u32>,
    /// The devices, by number.
    pub devices: Vec<DeviceInfo>,
    /// Why there are no devices, or not all of them, and what to do.
    pub problem: Option<String>,
}

impl CudaReport {
    /// Looks for the driver and asks each of its devices what it is.
    pub fn survey() -> Self {
        #[cfg(feature = "cuda")]
        return with_cuda::survey();
        #[cfg(not(feature = "cuda"))]
        return Self {
            looked_for: Vec::new(),
            search_path: None,
            library: None,
            driver_version: None,
            devices: Vec::new(),
            problem: Some("this build has no CUDA backend: switch the feature `cuda` on".into()),
        };
    }
}

impl fmt::Display for CudaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.devices.is_empty() {
            let problem = self.problem.as_deref().unwrap_or("nothing more is known");
            return write!(f, "No CUDA device: {problem}.");
        }
        if let Some(version) = self.driver_version {
            write!(f, "NVIDIA driver for CUDA {}", CudaVersion(version))?;
            match &self.library {
                Some(path) => writeln!(f, ", {}", path.display())?,
                None => writeln!(f)?,
            }
        }
        for (at, device) in self.devices.iter().enumerate() {
            let (major, minor) = device.capability;
            if at > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "cuda:{} {}, capability {major}.{minor}, {:.1} GiB, {} multiprocessors",
                device.ordinal,
                device.name,
                device.memory as f64 / (1u64 << 30) as f64,
                device.multiprocessors
            )?;
        }
        match &self.problem {
            Some(problem) => write!(f, "\nNot all devices answer: {problem}."),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "cuda")]
mod with_cuda {
    use std::path::PathBuf;

    use super::CudaReport;
    use crate::cuda::{CudaDriver, LIBRARY_NAMES, OpenError};

    pub(super) fn survey() -> CudaReport {
        let mut report = CudaReport {
            looked_for: LIBRARY_NAMES.iter().map(ToString::to_string).collect(),
            search_path: std::env::var(if cfg!(windows) {
                "PATH"
            } else {
                "LD_LIBRARY_PATH"
            })
            .ok(),
            library: None,
            driver_version: None,
            devices: Vec::new(),
            problem: None,
        };
        if let Err(error) = fill(&mut report) {
            report.problem = Some(error.to_string());
        }
        report
    }

    fn fill(report: &mut CudaReport) -> Result<(), OpenError> {
        report.driver_version = match CudaDriver::version() {
            Err(OpenError::DriverTooOld { found }) => {
                report.driver_version = Some(found);
                return Err(OpenError::DriverTooOld { found });
            }
            other => Some(other?),
        };
        report.library = loaded_from();
        let count = CudaDriver::count()?;
        if count == 0 {
            return Err(OpenError::NoDevice);
        }
        for ordinal in 0..count {
            report.devices.push(CudaDriver::describe(ordinal)?);
        }
        Ok(())
    }

    /// The file that the driver library was mapped from.
    fn loaded_from() -> Option<PathBuf> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        find_driver(&maps).map(PathBuf::from)
    }

    /// The path of the driver library in the memory map of a process, as Linux
    /// prints it.
    pub(super) fn find_driver(maps: &str) -> Option<&str> {
        maps.lines().find_map(|line| {
            let path = &line[line.find('/')?..];
            let name = path.rsplit('/').next()?;
            name.starts_with("libcuda.so").then_some(path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Backend;

    fn empty() -> CudaReport {
        CudaReport {
            looked_for: vec!["libcuda.so.1".into()],
            search_path: None,
            library: None,
            driver_version: None,
            devices: Vec::new(),
            problem: None,
        }
    }

    #[test]
    fn a_survey_has_devices_or_says_why_not() {
        let report = CudaReport::survey();
        assert_ne!(report.devices.is_empty(), report.problem.is_none());
    }

    #[test]
    fn a_machine_without_a_gpu_gets_one_sentence() {
        let report = CudaReport {
            problem: Some("no CUDA driver library on this machine".into()),
            ..empty()
        };
        assert_eq!(
            report.to_string(),
            "No CUDA device: no CUDA driver library on this machine."
        );
    }

    #[test]
    fn devices_are_listed_one_a_line() {
        let device = DeviceInfo {
            backend: Backend::Cuda,
            ordinal: 0,
            name: "NVIDIA H200".into(),
            capability: (9, 0),
            driver_version: 13000,
            multiprocessors: 132,
            memory: 150_110_011_392,
        };
        let report = CudaReport {
            library: Some("/usr/lib/libcuda.so.580.82.07".into()),
            driver_version: Some(13000),
            devices: vec![
                device.clone(),
                DeviceInfo {
                    ordinal: 1,
                    ..device
                },
            ],
            ..empty()
        };
        assert_eq!(
            report.to_string(),
            "NVIDIA driver for CUDA 13.0, /usr/lib/libcuda.so.580.82.07\n\
             cuda:0 NVIDIA H200, capability 9.0, 139.8 GiB, 132 multiprocessors\n\
             cuda:1 NVIDIA H200, capability 9.0, 139.8 GiB, 132 multiprocessors"
        );
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn the_driver_is_found_in_a_memory_map() {
        let maps = "\
            7f00-7f01 r--p 00000000 08:01 11 /usr/lib/libcudart.so.13\n\
            7f02-7f03 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07\n\
            7f04-7f05 rw-p 00000000 00:00 0\n";
        assert_eq!(
            with_cuda::find_driver(maps),
            Some("/usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07")
        );
        assert_eq!(
            with_cuda::find_driver("7f00-7f01 r--p 0 00:00 0 [heap]"),
            None
        );
    }
}
