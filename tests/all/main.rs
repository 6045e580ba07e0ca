//! Integration tests of the facade, on the simulated device.

mod capture;
mod common;
mod faults;
mod inside;
mod misuse;
mod readme;
