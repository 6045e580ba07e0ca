//! What the commands of a recording refer to, for a graph to keep alive.

use std::sync::Arc;

use super::{Recording, What};
use crate::graph::Keep;

impl Recording {
    /// Everything that a node made of these commands may refer to, except the
    /// scratch, which is the lease of the pools. The recording goes on holding
    /// its own references.
    pub(in crate::capture) fn keeps(&self) -> Keep {
        let mut keep = Keep {
            persistent: self.persistents.clone(),
            pinned: self.pinned.iter().map(|it| it.memory().clone()).collect(),
            ..Keep::default()
        };
        for command in &self.commands {
            match &command.what {
                What::Kernel { info, .. } => {
                    let module = info.function.module();
                    if !keep.modules.iter().any(|m| Arc::ptr_eq(m, module)) {
                        keep.modules.push(module.clone());
                    }
                }
                What::EventRecord(event) | What::EventWait(event) => {
                    if !keep.events.iter().any(|e| Arc::ptr_eq(e, event)) {
                        keep.events.push(event.clone());
                    }
                }
                What::Host(function) => keep.host.push(function.clone()),
                What::Copy { .. } | What::Fill { .. } | What::Foreign { .. } => {}
            }
        }
        keep
    }
}
