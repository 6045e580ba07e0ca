//! The paged caches: what a token's keys and latents are before they are stored.

mod key_store;
mod row;
mod store;

pub use key_store::{MAX_KEY_DIM, index_key_store};
pub use row::INDEX_DIM;
#[cfg(feature = "testing")]
pub(super) use row::write_stored;
pub(super) use row::{Finish, ROW, RowPool, angles_at, check_rope, count_fault, store_slot};
pub use store::{store_index_key, store_index_key_fp8, store_latent};

use super::part::part;

part! {
    index_key_store: "cache/index_key_store.cu", key_store::sim, key_store::KEY_STORE;
    store_latent: "cache/store_rows.cu", store_latent::sim;
    store_index_key: "cache/store_rows.cu", store_index_key::sim;
    store_index_key_fp8: "cache/store_rows.cu", store_index_key_fp8::sim;
}
