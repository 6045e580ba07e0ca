//! How many accesses a dump may come to.

use crate::audit::error::AuditError;

/// Accesses per thing that is in the file, above which operators cannot mean
/// what they say.
const DENSITY: u64 = 64;

/// The accesses that may still be taken from a dump.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    limit: u64,
    nodes: usize,
}

impl Budget {
    /// That of a dump with so many nodes and operators.
    pub(super) fn new(nodes: usize, operators: usize) -> Self {
        let limit = DENSITY * (nodes as u64 + operators as u64 + 1024);
        Self {
            left: limit,
            limit,
            nodes,
        }
    }

    /// Takes some.
    pub(super) fn take(&mut self, accesses: u64) -> Result<(), AuditError> {
        let (limit, nodes) = (self.limit, self.nodes);
        let left = self.left.checked_sub(accesses);
        self.left = left.ok_or(AuditError::TooManyAccesses { limit, nodes })?;
        Ok(())
    }
}
