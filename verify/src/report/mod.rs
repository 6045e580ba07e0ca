//! What a verdict looks like: plain data with names in it, sorted and stable,
//! that needs no trace to be printed or read.

mod assemble;
mod canvas;
mod chrome;
mod dot;
mod drawing;
mod fold;
mod html;
mod layout;
mod marked;
mod model;
mod remedy;
mod text;
mod undeclared;

pub(crate) use assemble::assemble;
pub use chrome::{Axis, chrome};
pub use dot::dot;
pub(crate) use drawing::draw;
pub use html::html;
pub use model::{Hazard, Member, Report, Stats, Subject, Verdict};
