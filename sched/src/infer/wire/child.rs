//! The child's side: it makes the trials and writes its log.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use super::call::Call;
use super::log::{lines, parse};
use super::plan::Plan;
use crate::device::Device;
use crate::error::Result;
use crate::infer::{Inference, trial};

impl Call<'_> {
    /// In the child of a later call: what the parent found at this one.
    pub(super) fn former(&self, dir: &Path) -> Result<Inference> {
        let text = self.read(&dir.join(format!("call-{}", self.number)))?;
        let log = parse(&self.header, &text).filter(|log| log.complete).ok_or_else(|| {
            self.error("this process is the child of another call, and the parent knows no result of this one")
        })?;
        Ok(self.inference(log.outcomes))
    }

    /// Makes the trials that the plan leaves, and logs each step; the exit code.
    ///
    /// # Safety
    /// As for [`in_child`](super::in_child).
    pub(super) unsafe fn serve(&self, device: &Device, dir: &Path, plan: &Plan) -> i32 {
        let log = dir.join("log");
        let served = File::create(&log)
            .and_then(|mut log| log.write_all(self.header.as_bytes()).map(|()| log));
        let mut log = match served {
            Ok(log) => log,
            Err(error) => {
                eprintln!("{}: {error}", log.display());
                return 1;
            }
        };
        let mut write = |text: &str| {
            log.write_all(text.as_bytes())
                .map_err(|error| self.error(format!("the log: {error}")))
        };
        // SAFETY: the caller's promise.
        let tried = unsafe {
            trial::run(device, self.audit, self.options, &plan.skip, &mut |step| {
                write(&lines(step))
            })
        };
        let last = match &tried {
            Ok(_) => "end\n".to_owned(),
            Err(error) => format!("error {}\n", error.to_string().replace('\n', " ")),
        };
        match (write(&last), tried) {
            (Ok(()), Ok(_)) => 0,
            (Ok(()), Err(_)) => 1,
            (Err(error), _) => {
                eprintln!("{error}");
                1
            }
        }
    }
}
