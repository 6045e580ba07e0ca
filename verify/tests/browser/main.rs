//! The page of a report in a real browser.
//!
//! The target is not part of `cargo test`, because it needs Chromium:
//! `cargo xtask test --only browser` finds one and runs it.

mod chromium;
#[path = "../all/generate.rs"]
mod generate;
mod page;
