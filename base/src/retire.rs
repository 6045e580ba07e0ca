//! Things whose drop has to wait.
//!
//! What a graph in flight refers to may not be freed when its handle is dropped,
//! and a drop does not synchronise. It goes into a queue with an event instead,
//! and is dropped by whoever finds later that the event has passed.
//!
//! # Guarantees
//! - An item leaves the queue only by [`collect`](RetireQueue::collect), after
//!   its event was seen to have passed, by [`drain`](RetireQueue::drain), or
//!   with the queue itself; and it leaves once.
//! - The order of retirement is kept, also between threads that collect at once.
//! - Neither the query of an event nor the drop of an item runs under the lock:
//!   both may retire further items.

use std::collections::VecDeque;
use std::fmt;

use crate::sync::Mutex;

/// Items that are kept until their events have passed.
pub struct RetireQueue<E, T> {
    waiting: Mutex<Waiting<E, T>>,
}

struct Waiting<E, T> {
    entries: VecDeque<Entry<E, T>>,
    /// Entries that a thread has out, to query their events.
    out: usize,
    next: u64,
}

struct Entry<E, T> {
    number: u64,
    event: E,
    item: T,
}

impl<E, T> RetireQueue<E, T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                entries: VecDeque::new(),
                out: 0,
                next: 0,
            }),
        }
    }

    /// Keeps `item` until `event` has passed.
    pub fn retire(&self, event: E, item: T) {
        let mut waiting = self.waiting.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.entries.push_back(Entry {
            number,
            event,
            item,
        });
    }

    /// The items whose events have passed, oldest first; the rest stays. The
    /// caller drops them, when it may.
    ///
    /// Items that another thread is collecting at this moment are left to it. If
    /// `passed` panics, all items stay.
    pub fn collect(&self, mut passed: impl FnMut(&E) -> bool) -> Vec<(E, T)> {
        let entries = {
            let mut waiting = self.waiting.lock();
            let entries = std::mem::take(&mut waiting.entries);
            waiting.out += entries.len();
            entries
        };
        let mut out = Out {
            queue: self,
            taken: entries.len(),
            entries,
        };
        let verdicts: Vec<bool> = out.entries.iter().map(|e| passed(&e.event)).collect();
        let mut done = Vec::new();
        let mut verdicts = verdicts.into_iter();
        for entry in std::mem::take(&mut out.entries) {
            if verdicts.next() == Some(true) {
                done.push((entry.event, entry.item));
            } else {
                out.entries.push_back(entry);
            }
        }
        done
    }

    /// All items, oldest first, whether or not their events have passed: for
    /// when the device is known to be idle. Items that another thread is
    /// collecting at this moment are left to it.
    pub fn drain(&self) -> Vec<(E, T)> {
        let entries = std::mem::take(&mut self.waiting.lock().entries);
        entries.into_iter().map(|e| (e.event, e.item)).collect()
    }

    /// Items that wait, those included whose events are being queried.
    pub fn len(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.entries.len() + waiting.out
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Entries that are out; what is left of them goes back, also on a panic.
struct Out<'a, E, T> {
    queue: &'a RetireQueue<E, T>,
    taken: usize,
    entries: VecDeque<Entry<E, T>>,
}

impl<E, T> Drop for Out<'_, E, T> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        waiting.out -= self.taken;
        let mut entries = std::mem::take(&mut self.entries);
        entries.append(&mut waiting.entries);
        // In order but where another thread gave back later entries first.
        if !entries.iter().is_sorted_by_key(|entry| entry.number) {
            let entries = entries.make_contiguous();
            entries.sort_unstable_by_key(|entry| entry.number);
        }
        waiting.entries = entries;
    }
}

impl<E, T> Default for RetireQueue<E, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E, T> fmt::Debug for RetireQueue<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetireQueue")
            .field("len", &self.len())
            .finish()
    }
}

#[cfg(all(test, not(streamweir_loom)))]
mod tests {
    use super::*;

    fn items(collected: Vec<(u32, &str)>) -> Vec<&str> {
        collected.into_iter().map(|(_, item)| item).collect()
    }

    #[test]
    fn items_leave_when_their_events_have_passed_in_any_order() {
        let queue = RetireQueue::new();
        for (event, item) in [(1, "a"), (9, "b"), (2, "c"), (8, "d")] {
            queue.retire(event, item);
        }
        assert_eq!(items(queue.collect(|&event| event < 3)), ["a", "c"]);
        assert_eq!(queue.len(), 2);
        assert_eq!(items(queue.collect(|&event| event < 3)), [""; 0]);
        assert_eq!(items(queue.drain()), ["b", "d"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_retired_during_a_query_stays_behind_what_was_there() {
        let queue = RetireQueue::new();
        queue.retire(1, "a");
        queue.retire(2, "b");
        let collected = queue.collect(|&event| {
            queue.retire(event + 10, "late");
            assert_eq!(queue.len(), 2 + event as usize);
            // A second collector meanwhile sees the late ones alone and gives
            // them back first.
            assert_eq!(items(queue.collect(|_| false)), [""; 0]);
            event == 1
        });
        assert_eq!(items(collected), ["a"]);
        assert_eq!(items(queue.drain()), ["b", "late", "late"]);
    }

    #[test]
    fn a_collector_that_gives_back_later_items_first_keeps_the_order() {
        let queue = RetireQueue::new();
        queue.retire(1, "a");
        let (has_a, a_is_out) = std::sync::mpsc::channel();
        let (b_is_out, has_b) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let has_b = has_b;
                queue.collect(|_| {
                    has_a.send(()).unwrap();
                    has_b.recv().unwrap();
                    false
                })
            });
            a_is_out.recv().unwrap();
            queue.retire(2, "b");
            let mut first = Some(first);
            queue.collect(|_| {
                // "a" goes back while "b" is out.
                b_is_out.send(()).unwrap();
                first.take().unwrap().join().unwrap();
                false
            });
        });
        assert_eq!(items(queue.drain()), ["a", "b"]);
    }

    #[test]
    fn a_panic_in_a_query_loses_nothing() {
        let queue = RetireQueue::new();
        queue.retire(1, "a");
        queue.retire(2, "b");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.collect(|&event| {
                assert!(event == 1, "the device is lost");
                true
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(queue.len(), 2);
        assert_eq!(items(queue.drain()), ["a", "b"]);
    }
}
