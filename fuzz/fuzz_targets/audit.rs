//! Any bytes as a trace, a session or a capture dump: a verdict or an error,
//! never a panic. The seeds are the files under `tests/data/captures` and
//! `trace/tests/format/data`:
//!
//! ```text
//! cargo +nightly fuzz run audit tests/data/captures trace/tests/format/data
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use streamweir_verify::Options;
use streamweir_verify::audit::{Mode, audit_json};

fuzz_target!(|bytes: &[u8]| {
    let options = Options {
        limit: 10,
        certificate: true,
    };
    for mode in [Mode::Auto, Mode::Pointers] {
        match audit_json(bytes, mode, &options) {
            Ok(audit) => assert!(!audit.report.to_string().is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
