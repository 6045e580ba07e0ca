//! The plain model against transformers, and checkpoints as they are on the hub.
//!
//! Weights are made by a seed, here (`generator`) and in Python
//! (`integration/reference/generator.py`), where transformers made the goldens of them.

mod generator;
mod goldens;
mod loader;
mod mistakes;
mod reference;
#[cfg(feature = "tokenizers")]
mod text;
