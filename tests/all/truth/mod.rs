//! The verifier against the simulated device.
//!
//! A trace says which bytes each node reads and writes. `play` builds a graph
//! whose kernels do just that, at the trace's addresses, and once more with
//! memory of its own for each buffer: the bits of the second, run in the order
//! of recording, are what the capture means. Then, for random traces, for the
//! minimal captures of the rules and for captures of the pools:
//! - where the verdict is safe, every interleaving gives those bits;
//! - where something wrong can be seen (`observable` says when it must), some
//!   interleaving gives others;
//! - the suggested fixes lead to a safe verdict, and then every interleaving
//!   gives those bits;
//! - where a join is taken out, the verifier notices, or the join ordered
//!   nothing that needs an order.
//!
//! The simulated device has no programmatic dependent launch: all edges here
//! are full ones, and accesses lie behind the wait of their node.

mod clocks;
mod corpus;
mod fixes;
mod mutation;
mod observable;
mod order;
mod play;
mod random;
mod recorded;
