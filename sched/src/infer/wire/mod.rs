//! What parent and child tell each other, and each side's part of it.
//!
//! Both sides describe the graph in the same words, [`header`]; the log of a
//! child that has another graph begins differently. The parent writes a [`Plan`]
//! and starts the program again; the child reads it and answers with a [`Log`].
//!
//! | file of the call | written by | says |
//! | --- | --- | --- |
//! | `plan` | parent | which call the child serves, and which kernels are done |
//! | `log` | child | the graph, then one line for each step |
//! | `stderr` | child | whatever the program prints, for when it dies |
//! | `call-N` | parent | what an earlier call of the same process has found |

mod call;
mod child;
mod log;
mod parent;
mod plan;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use streamweir_trace::NodeKind;

use self::call::Call;
use self::plan::Plan;
use super::inference::{InferOptions, Inference};
use super::watch::CHILD;
use crate::audit::Audit;
use crate::device::Device;
use crate::error::Result;

/// The calls that this process has made.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// The graph in words that are the same in every process.
fn header(audit: &Audit) -> String {
    let mut text = "streamweir infer 1\n".to_owned();
    for (at, node) in audit.trace.nodes.iter().enumerate() {
        if let NodeKind::Kernel(kernel) = &node.kind {
            let (grid, block) = (kernel.grid, kernel.block);
            // Writing to a string does not fail.
            _ = writeln!(text, "node {at} {grid:?} {block:?} {}", kernel.function);
        }
    }
    for &id in &audit.standing {
        let buffer = audit.trace.buffer(id);
        _ = writeln!(
            text,
            "buffer {} {} {}",
            id.0,
            buffer.range.len(),
            buffer.name
        );
    }
    text
}

/// Makes the trials in a child, or, in a child, makes them and exits.
///
/// # Safety
/// As for [`infer_writes`](super::infer_writes).
pub(super) unsafe fn in_child(
    device: &Device,
    audit: &Audit,
    options: &InferOptions,
) -> Result<Inference> {
    let call = Call {
        audit,
        options,
        header: header(audit),
        number: CALLS.fetch_add(1, Ordering::Relaxed),
    };
    match std::env::var_os(CHILD) {
        None => call.run(),
        Some(dir) => {
            let dir = PathBuf::from(dir);
            let plan = call.read(&dir.join("plan"))?;
            let plan = Plan::parse(&plan).ok_or_else(|| call.error("the plan makes no sense"))?;
            if call.number != plan.call {
                return call.former(&dir);
            }
            // SAFETY: the caller's promise.
            let code = unsafe { call.serve(device, &dir, &plan) };
            std::process::exit(code)
        }
    }
}
