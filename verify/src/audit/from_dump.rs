//! Which way a dump becomes a trace.

use streamweir_trace::dump::Dump;

use crate::audit::audited::{Audited, Mode};
use crate::audit::error::AuditError;
use crate::audit::{operators, pointers};

impl Audited {
    /// Makes a trace of a dump.
    ///
    /// # Errors
    /// When the dump makes for more accesses than a file of its size can mean.
    pub fn new(dump: Dump, mode: Mode) -> Result<Self, AuditError> {
        match mode {
            Mode::Auto if dump.operators.is_empty() => pointers::lower(dump),
            Mode::Pointers => pointers::lower(dump),
            Mode::Auto | Mode::Operators => operators::lower(dump),
        }
    }
}
