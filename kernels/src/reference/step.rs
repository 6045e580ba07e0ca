//! What a decode step's kernels need to know of its sequences, and the step
//! from logits to tokens.

use super::selection::order_key;
use crate::constants::shared;
use crate::layout::PageLayout;

shared! {
    pub(crate) MODEL = model {
        /// Tokens of the model in a page.
        pub MODEL_PAGE: u32 = 256;
        /// Tokens of the sliding window.
        pub WINDOW: u32 = 128;
        /// Tokens of a C4 entry.
        pub C4: u32 = 4;
        /// Tokens of a C128 entry.
        pub C128: u32 = 128;
    }
}

/// One row of a step's metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepMetadata {
    /// The position of the row's token.
    pub position: i32,
    /// Tokens in the sliding window.
    pub window_len: i32,
    /// Entries of four tokens.
    pub c4_len: i32,
    /// Entries of 128 tokens.
    pub c128_len: i32,
    /// The token's place in a pool of one entry per token; 0 for none.
    pub out_loc: i32,
    /// Where the entry of four tokens goes that this token completes; 0 for
    /// none.
    pub c4_out_loc: i32,
    /// The same for the entry of 128 tokens.
    pub c128_out_loc: i32,
}

/// The metadata of a sequence of `len` tokens, the row's included, whose pages
/// are `table`, and whether the length or the page is impossible. A length is
/// clamped to what the table reaches; a page that the pool does not have, or
/// page 0, has no places.
pub fn step_metadata(len: i32, table: &[i32], pages: u32) -> (StepMetadata, bool) {
    let page_tokens = MODEL_PAGE as i32;
    let reach = (table.len() as u64 * u64::from(MODEL_PAGE)).min(i32::MAX as u64 / 256 * 256);
    let clamped = len.clamp(0, reach as i32);
    let mut fault = len > clamped;
    let position = (clamped - 1).max(0);
    let mut out_loc = 0;
    if clamped > 0 {
        let page = table[(position / page_tokens) as usize];
        if page < 0 || page as u32 >= pages {
            fault = true;
        } else if page > 0 {
            out_loc = page * page_tokens + position % page_tokens;
        }
    }
    let (c4, c128) = (C4 as i32, C128 as i32);
    let complete = |ratio: i32| {
        if clamped % ratio == 0 {
            out_loc / ratio
        } else {
            0
        }
    };
    let metadata = StepMetadata {
        position,
        window_len: clamped.min(WINDOW as i32),
        c4_len: clamped / c4,
        c128_len: clamped / c128,
        out_loc,
        c4_out_loc: complete(c4),
        c128_out_loc: complete(c128),
    };
    (metadata, fault)
}

/// The token of the largest of `logits`, equals by lower token; what is not a
/// number comes after all others.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if order_key(logit) > order_key(logits[best]) {
            best = token;
        }
    }
    best as u32
}

/// The window of a sequence of `len` tokens, oldest first: the slot of each
/// position and whether its page is one of the pool, which otherwise is page 0.
/// The sequence takes the pages of `table` in turn.
pub fn window(len: u32, table: &[i32], layout: &PageLayout) -> Vec<(i32, bool)> {
    let page_tokens = layout.tokens_per_page();
    (len.saturating_sub(WINDOW)..len)
        .map(|position| {
            let page = table[(position / page_tokens) as usize % table.len()];
            let held = page >= 0 && (page as u32) < layout.pages();
            let page = if held { page as u32 } else { 0 };
            ((page * page_tokens + position % page_tokens) as i32, held)
        })
        .collect()
}
