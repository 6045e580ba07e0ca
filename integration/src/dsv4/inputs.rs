//! What the host tells a step, and how it gets to the device.
//!
//! A captured graph reads its inputs from one persistent buffer at a fixed
//! address. The host fills page-locked memory and enqueues a copy, which takes
//! turns with the replays that read the buffer (R12), so the host may prepare the
//! next step while one runs. A ring of such memory is enough for that: a slot is
//! free again when its copy has ended.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use streamweir::{Device, Part, Persistent, Pinned, part};

use super::config::{Config, WINDOW_PAGES};
use super::error::{Error, RowFault};
use super::pages::{Pages, Sequence};

/// Slots of the ring.
const RING: usize = 3;

/// One row of a batch: a sequence and its next token.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The sequence, which counts this token already.
    pub sequence: &'a Sequence,
    /// The token.
    pub token: i32,
}

/// Where in the inputs what is, for a number of rows.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rows: usize,
    table_stride: usize,
}

impl Plan {
    fn ids(self) -> Range<usize> {
        0..self.rows
    }

    fn seq_lens(self) -> Range<usize> {
        self.rows..2 * self.rows
    }

    fn state_slots(self) -> Range<usize> {
        2 * self.rows..3 * self.rows
    }

    fn window_table(self) -> Range<usize> {
        3 * self.rows..(3 + WINDOW_PAGES as usize) * self.rows
    }

    fn page_table(self) -> Range<usize> {
        let start = self.window_table().end;
        start..start + self.rows * self.table_stride
    }

    fn len(self) -> usize {
        self.page_table().end
    }
}

/// The inputs of a step, for the most rows that a step has. Rows beyond a batch
/// are padded: no tokens, page 0, state slot 0.
pub(super) struct Inputs {
    plan: Plan,
    all: Persistent<i32>,
    ring: Vec<Pinned<i32>>,
    next: usize,
    /// Whose sequences the caches hold.
    serving: AtomicU64,
}

impl Inputs {
    pub(super) fn new(device: &Device, config: &Config, rows: u32) -> Result<Self, Error> {
        let plan = Plan {
            rows: rows as usize,
            table_stride: config.table_stride() as usize,
        };
        Ok(Self {
            plan,
            all: device.persistent("inputs", plan.len())?,
            ring: (0..RING)
                .map(|slot| device.pinned(&format!("inputs, slot {slot}"), plan.len()))
                .collect::<Result<_, _>>()?,
            next: 0,
            serving: AtomicU64::new(0),
        })
    }

    /// From here on the caches are those of the sequences of `pages`.
    pub(super) fn serve(&self, pages: &Pages) {
        // Nothing else is published by it.
        self.serving.store(pages.id(), Ordering::Relaxed);
    }

    /// The tokens of the first `rows` rows.
    pub(super) fn ids(&self, rows: u32) -> Result<Part<&Persistent<i32>>, Error> {
        self.of_rows(self.plan.ids(), rows, 1)
    }

    /// Their sequences' lengths, 0 for a padded row.
    pub(super) fn seq_lens(&self, rows: u32) -> Result<Part<&Persistent<i32>>, Error> {
        self.of_rows(self.plan.seq_lens(), rows, 1)
    }

    /// Their sequences' state rings.
    pub(super) fn state_slots(&self, rows: u32) -> Result<Part<&Persistent<i32>>, Error> {
        self.of_rows(self.plan.state_slots(), rows, 1)
    }

    /// Their sequences' pages of the window pool.
    pub(super) fn window_table(&self, rows: u32) -> Result<Part<&Persistent<i32>>, Error> {
        self.of_rows(self.plan.window_table(), rows, WINDOW_PAGES as usize)
    }

    /// Their sequences' pages.
    pub(super) fn page_table(&self, rows: u32) -> Result<Part<&Persistent<i32>>, Error> {
        self.of_rows(self.plan.page_table(), rows, self.plan.table_stride)
    }

    fn of_rows(
        &self,
        range: Range<usize>,
        rows: u32,
        each: usize,
    ) -> Result<Part<&Persistent<i32>>, Error> {
        let end = range.start + rows as usize * each;
        Ok(part(&self.all, range.start..end.min(range.end))?)
    }

    /// Puts an id into the page table on the device, as nobody should.
    #[cfg(test)]
    pub(super) fn set_page(&self, row: usize, column: usize, id: i32) -> Result<(), Error> {
        let mut all = self.all.download()?;
        all[self.plan.page_table().start + row * self.plan.table_stride + column] = id;
        Ok(self.all.upload(&all)?)
    }

    /// Enqueues the inputs of a batch. Waits for the device only when all slots
    /// of the ring are under way.
    ///
    /// # Errors
    /// When there are more rows than a step has, a row is of a sequence without
    /// tokens, of one that is not of these caches, or stands there twice, or the
    /// device fails.
    pub(super) fn stage(&mut self, device: &Device, batch: &[Row<'_>]) -> Result<(), Error> {
        self.check(batch)?;
        let at = self.next;
        self.next = (self.next + 1) % RING;
        if self.ring[at].as_mut_slice().is_none() {
            device.synchronize()?;
        }
        let plan = self.plan;
        let slot = &mut self.ring[at];
        let name = slot.name().to_owned();
        let values = slot.as_mut_slice().ok_or(Error::Staging { slot: name })?;
        fill(values, plan, batch);
        let slot = &self.ring[at];
        device.eager::<_, Error>("inputs", |run| Ok(run.origin().upload(&self.all, slot)?))?;
        Ok(())
    }

    fn check(&self, batch: &[Row<'_>]) -> Result<(), Error> {
        if batch.len() > self.plan.rows {
            return Err(Error::Rows {
                batch: batch.len(),
                rows: self.plan.rows as u32,
            });
        }
        let serving = self.serving.load(Ordering::Relaxed);
        for (row, Row { sequence, .. }) in batch.iter().enumerate() {
            let fault = if sequence.of() != serving {
                RowFault::Stale
            } else if sequence.tokens() == 0 {
                RowFault::Empty
            } else if batch[..row]
                .iter()
                .any(|other| other.sequence.slot() == sequence.slot())
            {
                RowFault::Twice
            } else {
                continue;
            };
            return Err(Error::Row { row, fault });
        }
        Ok(())
    }
}

fn fill(values: &mut [i32], plan: Plan, batch: &[Row<'_>]) {
    values.fill(0);
    let windows = WINDOW_PAGES as usize;
    for (row, Row { sequence, token }) in batch.iter().enumerate() {
        values[plan.ids().start + row] = *token;
        values[plan.seq_lens().start + row] = sequence.tokens() as i32;
        values[plan.state_slots().start + row] = sequence.slot() as i32;
        values[plan.window_table().start + row * windows..][..windows]
            .copy_from_slice(&sequence.window_table());
        let pages = sequence.table();
        values[plan.page_table().start + row * plan.table_stride..][..pages.len()]
            .copy_from_slice(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_lie_side_by_side_and_padding_is_nobodys() {
        let plan = Plan {
            rows: 2,
            table_stride: 3,
        };
        let mut pages = Pages::new(8, 2, 3 * 256);
        let mut sequence = pages.begin().unwrap();
        pages.grow(&mut sequence, 300).unwrap();
        let mut values = vec![9; plan.len()];
        let row = Row {
            sequence: &sequence,
            token: 7,
        };
        fill(&mut values, plan, &[row]);
        assert_eq!(values[plan.ids()], [7, 0]);
        assert_eq!(values[plan.seq_lens()], [300, 0]);
        assert_eq!(values[plan.state_slots()], [1, 0]);
        assert_eq!(values[plan.window_table()], [2, 3, 0, 0]);
        assert_eq!(values[plan.page_table()], [1, 2, 0, 0, 0, 0]);
    }
}
