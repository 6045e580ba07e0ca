//! Nothing is lost between memory and file.

use proptest::prelude::*;
use streamweir_trace::{Trace, from_json, to_json, to_json_pretty};

use crate::arbitrary;

proptest! {
    #[test]
    fn a_trace_is_read_back_as_it_was(trace in arbitrary::trace()) {
        trace.check()?;
        let compact = to_json(&trace);
        prop_assert_eq!(&from_json(compact.as_bytes())?, &trace);
        let pretty = to_json_pretty(&trace);
        prop_assert_eq!(&from_json(pretty.as_bytes())?, &trace);
        // Equal traces give equal files, which makes files comparable by text.
        prop_assert_eq!(to_json(&from_json(pretty.as_bytes())?), compact);
    }

    /// A file that lost its end is never read as a shorter trace.
    #[test]
    fn no_proper_prefix_is_a_trace(trace in arbitrary::trace(), cut in any::<prop::sample::Index>()) {
        let text = to_json(&trace);
        let kept = &text.as_bytes()[..cut.index(text.len())];
        prop_assert!(from_json(kept).is_err());
    }
}

#[test]
fn a_trace_without_entries_is_a_trace() {
    let empty = Trace::new("nothing");
    assert_eq!(from_json(to_json(&empty).as_bytes()).expect("valid"), empty);
}
