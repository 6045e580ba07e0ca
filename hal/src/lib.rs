//! What a device can do, and owners of what it gives: the one door to a driver.
//!
//! # Guarantees
//! - **A handle that reaches the driver is live.** Every handle has one owner in
//!   [`owned`]; only the owner's drop gives it up, and the safe methods of owners
//!   refuse a handle of another device. What a type cannot see, such as how long
//!   the memory stays that a kernel touches, is asked of the caller of an
//!   `unsafe` method.
//! - **Dropping an owner calls nothing.** The handle waits in the device's
//!   [`Reclaim`](owned::Reclaim) for a safe point: so a drop never synchronises,
//!   never fails and never breaks a capture, on whichever thread it happens.
//! - **A failure is an error.** It names the call and its class; nothing here
//!   panics for what a driver or a caller does, and a machine without CUDA gets a
//!   sentence that says what to do.
//!
//! Why a layer of its own: a capture that breaks because something was freed in
//! the middle of it, or a graph that replays into memory that was given back, is
//! found by nobody afterwards. Here the calls are few and stand side by side.
//!
//! # Rooms
//! Each uses only those above it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`driver`] | the unsafe trait [`Driver`](driver::Driver), and the plain values of its calls |
//! | `cuda` | the CUDA driver API, loaded at run time (feature `cuda`) |
//! | [`sim`] | a device on the CPU: memory is bytes, kernels are Rust functions, concurrent work interleaves under a seed |
//! | [`owned`] | owners of driver objects, and where these go when they are dropped |
//! | [`doctor`] | what of CUDA is there, and where it was looked for |
//! | `testing` | the conformance suite that every backend passes, and drivers that fail or lie (feature `testing`) |

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod doctor;
pub mod driver;
pub mod owned;
pub mod sim;
#[cfg(feature = "testing")]
pub mod testing;
