//! The file format of traces: what is written is read back, what was written
//! once stays readable, and what is wrong is refused by name.

mod arbitrary;
mod golden;
mod log;
mod refusals;
mod round_trip;
mod session;
