//! DeepSeek-V4's decoder in plain Rust: its executable specification.
//!
//! Every formula of the model stands here once, in f32 and without kernels, in a file
//! of its own. It is held to transformers' `deepseek_v4` (5.24) to 1e-4 in all logits
//! (`integration/reference`, `integration/tests/model`), and the engine is held to it.
//! It is written to be read: whatever the state of a sequence could leave out is kept,
//! and nothing is done at once for all rows that a row could do by itself.
//!
//! So a row's numbers do not depend on which rows it comes with: a prompt at once, in
//! chunks, or token by token gives the same bits.
//!
//! | file | formula |
//! | --- | --- |
//! | `rows`, `linear`, `top` | products, norms, the highest scores |
//! | `rope` | rotary embedding, YaRN |
//! | `hyper` | hyper-connections, Sinkhorn-Knopp |
//! | `compressor` | entries of groups of tokens |
//! | `indexer` | which entries a query sees |
//! | `attention` | queries, latents, sinks, output |
//! | `router` | which experts a token goes to, and with which weights |
//! | `experts` | clamped SwiGLU, shared expert |
//! | `layer`, `model`, `head` | a layer; embedding and layers; logits |
//! | `formulas` | what tests replace to see that a mistake is found |
//!
//! Names in the sources: DeepSeek-V4's report, sections 2.1 (hash routing), 2.2 (mHC),
//! 2.3.1 (compressed sparse attention, C4 here) and 2.3.2 (heavily compressed, C128).

mod attention;
mod compressor;
mod experts;
mod formulas;
mod head;
mod hyper;
mod indexer;
mod layer;
mod linear;
mod model;
mod rope;
mod router;
mod rows;
mod top;

pub use formulas::{Angle, Choose, Expand, Formulas, Rotate};
pub use head::States;
pub use layer::{Seen, Watch};
pub use model::{ExtendError, PlainModel, Sequence};
pub use rows::Rows;
