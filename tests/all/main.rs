//! Integration tests of the facade, on the simulated device.

mod attach;
mod capture;
mod common;
mod docs;
mod drops;
mod early;
mod engines;
mod faults;
mod foreign;
mod groups;
mod growth;
mod handles;
mod hazards;
mod in_call;
mod inside;
mod instruments;
mod lifetimes;
mod lying;
mod misuse;
mod overlap;
mod planned;
mod readme;
mod spinning;
mod timing;
mod truth;
mod ui;
