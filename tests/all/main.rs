//! Integration tests of the facade, on the simulated device.

mod capture;
mod readme;
