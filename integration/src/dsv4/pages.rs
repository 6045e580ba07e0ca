//! Which sequence has which pages.
//!
//! One table of pages serves every pool of every layer: page `p` of a table is
//! the same 256 tokens in the C4 pool, the C128 pool and the index-key pool. The
//! window pool is its own: a sequence has two of its pages for life and uses them
//! in turn. Page 0 and sequence slot 0 belong to nobody; rows that pad a batch
//! point at them.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use super::config::{PAGE_TOKENS, WINDOW_PAGES};

/// Why a sequence cannot begin or grow. The others go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PageError {
    /// All sequences that the caches have room for are there.
    #[error("all {slots} sequences are in use; end one before another begins")]
    NoSlot {
        /// Sequences that there is room for.
        slots: u32,
    },
    /// All pages are taken.
    #[error(
        "sequence {sequence} needs {needed} more pages of {PAGE_TOKENS} tokens and {free} are free; \
         end a sequence, or make the cache larger than {pages} pages"
    )]
    NoPages {
        /// The sequence's slot.
        sequence: u32,
        /// Pages that it lacks.
        needed: u32,
        /// Pages that are free.
        free: u32,
        /// Pages of the pools, the one of nobody included.
        pages: u32,
    },
    /// The captured graphs do not reach so far.
    #[error(
        "sequence {sequence} would have {tokens} tokens; the graphs are captured for {max_context}"
    )]
    TooLong {
        /// The sequence's slot.
        sequence: u32,
        /// The length that was asked for.
        tokens: u32,
        /// The longest that there can be.
        max_context: u32,
    },
    /// A sequence that began with other pages.
    #[error(
        "sequence {sequence} began before the caches were reset, or with another engine; its pages are \
         somebody else's now: begin it anew"
    )]
    Foreign {
        /// The sequence's slot, with the pages that it began with.
        sequence: u32,
    },
}

/// Tells tables of pages apart; publishes nothing.
static TABLES: AtomicU64 = AtomicU64::new(1);

/// The pages of the pools, free and taken.
#[derive(Debug)]
pub struct Pages {
    id: u64,
    pages: u32,
    slots: u32,
    max_context: u32,
    free: Vec<i32>,
    free_slots: Vec<u32>,
}

/// A sequence's place in the caches. It gives its pages back through
/// [`Pages::end`].
#[derive(Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The table that it began with.
    of: u64,
    slot: u32,
    tokens: u32,
    table: Vec<i32>,
}

impl Pages {
    /// `pages` pages for up to `sequences` sequences of `max_context` tokens,
    /// page 0 not counted among what can be had.
    pub fn new(pages: u32, sequences: u32, max_context: u32) -> Self {
        Self {
            id: TABLES.fetch_add(1, Ordering::Relaxed),
            pages,
            slots: sequences,
            max_context,
            free: (1..pages as i32).rev().collect(),
            free_slots: (1..=sequences).rev().collect(),
        }
    }

    /// Pages that are free.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// A sequence without tokens.
    ///
    /// # Errors
    /// When all slots are in use.
    pub fn begin(&mut self) -> Result<Sequence, PageError> {
        let slot = self
            .free_slots
            .pop()
            .ok_or(PageError::NoSlot { slots: self.slots })?;
        Ok(Sequence {
            of: self.id,
            slot,
            tokens: 0,
            table: Vec::new(),
        })
    }

    /// Makes room for the sequence to have `tokens` tokens. Nothing changes when
    /// it fails.
    ///
    /// # Errors
    /// When the sequence would be too long, too few pages are free, or it began
    /// with other pages.
    pub fn grow(&mut self, sequence: &mut Sequence, tokens: u32) -> Result<(), PageError> {
        self.owns(sequence)?;
        if tokens > self.max_context {
            return Err(PageError::TooLong {
                sequence: sequence.slot,
                tokens,
                max_context: self.max_context,
            });
        }
        let needed = (tokens.div_ceil(PAGE_TOKENS) as usize).saturating_sub(sequence.table.len());
        if needed > self.free.len() {
            return Err(PageError::NoPages {
                sequence: sequence.slot,
                needed: needed as u32,
                free: self.free(),
                pages: self.pages,
            });
        }
        let taken = self.free.split_off(self.free.len() - needed);
        sequence.table.extend(taken.into_iter().rev());
        sequence.tokens = sequence.tokens.max(tokens);
        Ok(())
    }

    /// Takes a sequence's pages back. A step of it may still be under way: what
    /// comes later on the device comes after it, so that whoever has the pages next
    /// does.
    ///
    /// # Errors
    /// When it began with other pages, which are not taken.
    pub fn end(&mut self, sequence: Sequence) -> Result<(), PageError> {
        self.owns(&sequence)?;
        self.free.extend(sequence.table.into_iter().rev());
        self.free_slots.push(sequence.slot);
        Ok(())
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    fn owns(&self, sequence: &Sequence) -> Result<(), PageError> {
        match sequence.of == self.id {
            true => Ok(()),
            false => Err(PageError::Foreign {
                sequence: sequence.slot,
            }),
        }
    }
}

impl Sequence {
    /// The table of pages that it began with.
    pub(super) fn of(&self) -> u64 {
        self.of
    }

    /// Its slot among the state rings, from 1 on.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Tokens that it has room for and that count.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Its pages, in order.
    pub fn table(&self) -> &[i32] {
        &self.table
    }

    /// Its pages of the window pool.
    pub fn window_table(&self) -> [i32; WINDOW_PAGES as usize] {
        std::array::from_fn(|turn| (self.slot * WINDOW_PAGES) as i32 + turn as i32)
    }

    /// Pages of a window pool for `sequences` sequences, those of nobody
    /// included.
    pub(super) const fn window_pages(sequences: u32) -> u32 {
        (sequences + 1) * WINDOW_PAGES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_failed_growth_changes_nothing() {
        let mut pages = Pages::new(4, 2, 2000);
        let mut a = pages.begin().unwrap();
        pages.grow(&mut a, 300).unwrap();
        let mut b = pages.begin().unwrap();
        let before = (pages.free(), b.table().to_vec());
        assert_eq!(
            pages.grow(&mut b, 600),
            Err(PageError::NoPages {
                sequence: 2,
                needed: 3,
                free: 1,
                pages: 4
            })
        );
        assert_eq!(
            pages.grow(&mut b, 2001),
            Err(PageError::TooLong {
                sequence: 2,
                tokens: 2001,
                max_context: 2000
            })
        );
        assert_eq!((pages.free(), b.table().to_vec()), before);
        assert_eq!(pages.begin(), Err(PageError::NoSlot { slots: 2 }));
        pages.end(a).unwrap();
        pages.grow(&mut b, 600).unwrap();
        assert!(pages.begin().is_ok());
    }

    #[test]
    fn a_sequence_of_other_pages_is_told_apart() {
        let mut before = Pages::new(4, 2, 2000);
        let mut stale = before.begin().unwrap();
        let mut pages = Pages::new(4, 2, 2000);
        let error = PageError::Foreign { sequence: 1 };
        assert_eq!(pages.grow(&mut stale, 1), Err(error.clone()));
        assert_eq!(pages.end(stale), Err(error));
        let slots = [pages.begin().unwrap().slot(), pages.begin().unwrap().slot()];
        assert_eq!((slots, pages.free()), ([1, 2], 3), "nothing was taken back");
    }

    proptest! {
        /// No page and no slot has two owners, and all come back.
        #[test]
        fn pages_have_one_owner(ops in prop::collection::vec((0..3_u8, 0..8_usize, 1..1500_u32), 1..80)) {
            let mut pages = Pages::new(24, 6, 1400);
            let mut live: Vec<Sequence> = Vec::new();
            for (op, which, tokens) in ops {
                match op {
                    0 => live.extend(pages.begin()),
                    1 if !live.is_empty() => {
                        let which = which % live.len();
                        let _ = pages.grow(&mut live[which], tokens);
                    }
                    2 if !live.is_empty() => {
                        let which = which % live.len();
                        pages.end(live.swap_remove(which)).unwrap();
                    }
                    _ => {}
                }
                let owned: Vec<i32> = live.iter().flat_map(|s| s.table().to_vec()).collect();
                let distinct: BTreeSet<i32> = owned.iter().copied().collect();
                prop_assert_eq!(distinct.len(), owned.len());
                prop_assert!(!distinct.contains(&0) && owned.iter().all(|&page| page < 24));
                prop_assert_eq!(owned.len() as u32 + pages.free(), 23);
                let windows: BTreeSet<i32> = live.iter().flat_map(|s| s.window_table()).collect();
                prop_assert_eq!(windows.len(), 2 * live.len());
                prop_assert!(windows.iter().all(|&page| page >= 2 && page < Sequence::window_pages(6) as i32));
            }
        }
    }
}
