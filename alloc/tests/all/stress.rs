//! More threads than a model can have, drawn from a seed: what is handed out at
//! one time never overlaps, and nothing is left in whatever order all is dropped.
//! The `nightly` step runs these under the AddressSanitizer, too.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamweir_alloc::{Arena, BlockId, Lookup, Policy, Pools, Registry, RegistryError};
use streamweir_base::RetireQueue;
use streamweir_trace::{ByteRange, StreamId};

use crate::device::Device;

const KIB: u64 = 1024;
const THREADS: usize = 8;

/// The blocks that are held, over all threads.
#[derive(Default)]
struct Book(Mutex<BTreeMap<u64, ByteRange>>);

impl Book {
    fn taken(&self, range: ByteRange) {
        let mut book = self.0.lock().unwrap();
        let below = book.range(..range.end).next_back();
        assert!(below.is_none_or(|(_, other)| !other.overlaps(&range)));
        book.insert(range.start, range);
    }

    /// Before the pools are told: from then on somebody else may have the bytes.
    fn freed(&self, range: ByteRange) {
        assert_eq!(self.0.lock().unwrap().remove(&range.start), Some(range));
    }
}

/// One capture, eight threads: each records on a stream of its own, frees half of
/// its blocks and sends the others to the next thread, which frees them while the
/// first one goes on.
#[test]
fn threads_of_one_capture_never_hold_the_same_bytes() {
    for (seed, policy) in (1..).zip([Policy::ISOLATED, Policy::ORDERED]) {
        let device = Device::extending(64 << 20);
        let arena = device.arena(64 * KIB, 4 * KIB);
        let pools = Pools::new(arena.open(), policy);
        let streams: Vec<StreamId> = (0..THREADS)
            .map(|at| {
                pools
                    .add_stream(format!("s{at}"), format!("s{at}"))
                    .unwrap()
            })
            .collect();
        let (book, asked) = (Book::default(), AtomicUsize::new(0));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS)
            .map(|_| channel::<(BlockId, ByteRange)>())
            .unzip();
        let senders = (1..THREADS).chain([0]).map(|next| senders[next].clone());
        std::thread::scope(|scope| {
            for (at, (send, receive)) in senders.zip(receivers).enumerate() {
                let (pools, streams, book, asked) = (&pools, &streams, &book, &asked);
                scope.spawn(move || {
                    let mut draw = StdRng::seed_from_u64(seed * 1000 + at as u64);
                    let stream = streams[at];
                    let mut held = Vec::new();
                    for _ in 0..1500 {
                        match draw.random_range(0..8) {
                            0..3 => {
                                let bytes = draw.random_range(0..6 * KIB);
                                asked.fetch_add(bytes as usize, Ordering::Relaxed);
                                let block = pools.alloc(stream, bytes, "x").unwrap();
                                book.taken(block.range);
                                held.push((block.id, block.range));
                                pools.record(stream, &[block.id]).unwrap();
                            }
                            3 => {
                                let on = streams[draw.random_range(0..THREADS)];
                                pools.join(stream, on).unwrap();
                            }
                            draw_of_free if !held.is_empty() => {
                                let pick = draw.random_range(0..held.len());
                                let (id, range) = held.swap_remove(pick);
                                if draw_of_free < 6 {
                                    // The last thread may be done already.
                                    if send.send((id, range)).is_ok() {
                                        continue;
                                    }
                                }
                                book.freed(range);
                                pools.free(id).unwrap();
                            }
                            _ => {}
                        }
                        for (id, range) in receive.try_iter() {
                            book.freed(range);
                            pools.free_unknown(id).unwrap();
                        }
                    }
                    drop(send);
                    for (id, range) in held.into_iter().chain(receive.try_iter()) {
                        book.freed(range);
                        pools.free(id).unwrap();
                    }
                });
            }
        });
        let report = pools.report();
        let asked = asked.into_inner() as u64;
        assert!(2 * report.reserved < asked, "{asked} asked for: {report}");
        let reserved: u64 = pools.reserved().iter().map(|(_, range)| range.len()).sum();
        assert_eq!(report.reserved, reserved);
        drop((pools.finish().unwrap(), pools, arena));
        assert_eq!(device.live(), []);
    }
}

/// Eight threads register the same few places, look into them and let go.
#[test]
fn a_place_has_one_buffer_at_a_time_whoever_registers_it() {
    let registry = Registry::new();
    let owners: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let owners = Arc::new(owners);
    /// Counts itself out when the registry has let go of it.
    struct Owner(Arc<Vec<AtomicUsize>>, usize);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0[self.1].fetch_sub(1, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (registry, owners) = (registry.clone(), Arc::clone(&owners));
            scope.spawn(move || {
                let mut draw = StdRng::seed_from_u64(thread as u64);
                for _ in 0..2000 {
                    let place = draw.random_range(0..4);
                    let range = ByteRange::new(place * 4096, (place + 1) * 4096);
                    let owner = Owner(Arc::clone(&owners), place as usize);
                    owners[place as usize].fetch_add(1, Ordering::SeqCst);
                    match registry.register(range, "x", Arc::new(owner)) {
                        Ok(entry) => match registry.find(range.start + 9) {
                            Lookup::Live(found) => assert!(Arc::ptr_eq(&entry, &found)),
                            other => panic!("it is held here, yet {other:?}"),
                        },
                        Err(RegistryError::Overlap { other_range, .. }) => {
                            assert_eq!(other_range, range);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(registry.entries().len(), 0);
    assert!(owners.iter().all(|owner| owner.load(Ordering::SeqCst) == 0));
}

type Owned = Box<dyn Any + Send>;

/// Arenas, captures that go on, have failed or succeeded, leases, a registry and
/// what it keeps, a queue and what waits in it.
fn everything(device: &Arc<Device>) -> Vec<Owned> {
    let mut owned: Vec<Owned> = Vec::new();
    let registry = Registry::new();
    let queue = Arc::new(RetireQueue::<u32, Owned>::new());
    for at in 0..2_u64 {
        let arena: Arc<Arena> = device.arena(16 * KIB, 4 * KIB);
        for (ends, policy) in (0..3).zip([Policy::ISOLATED, Policy::ORDERED, Policy::ORDERED]) {
            let pools = Pools::new(arena.open(), policy);
            let main = pools.add_stream("main", "main").unwrap();
            for size in 1..4 {
                let block = pools.alloc(main, size * (9 + at) * KIB, "x").unwrap();
                if size != ends {
                    pools.free(block.id).unwrap();
                }
            }
            match ends {
                0 => {}
                1 => pools.abort(),
                _ => owned.push(Box::new(pools.finish().unwrap())),
            }
            owned.push(Box::new(pools));
        }
        // A persistent buffer that keeps its arena, and a lease that waits.
        let range = ByteRange::new(at << 20, (at << 20) + 64);
        let entry = registry
            .register(range, "kv", Arc::clone(&arena) as _)
            .unwrap();
        owned.push(Box::new(entry));
        let view = arena.open();
        view.take(8 * KIB).unwrap();
        queue.retire(at as u32, Box::new(view.finish().unwrap()) as Owned);
        owned.extend([Box::new(view) as Owned, Box::new(arena)]);
        owned.push(Box::new(Arc::clone(&queue)));
    }
    owned.push(Box::new(registry));
    owned
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn nothing_is_left_whatever_is_dropped_first_and_where(
        keys in prop::collection::vec((any::<u32>(), 0..4_usize), 17),
    ) {
        let device = Device::new();
        let owned = everything(&device);
        prop_assert_eq!(owned.len(), keys.len());
        prop_assert!(device.bytes() > 0, "there is something to release");
        let mut drops: Vec<_> = keys.into_iter().zip(owned).collect();
        drops.sort_by_key(|((order, _), _)| *order);
        let mut threads: Vec<Vec<Owned>> = (0..4).map(|_| Vec::new()).collect();
        for ((_, thread), one) in drops {
            threads[thread].push(one);
        }
        std::thread::scope(|scope| {
            for mine in threads {
                scope.spawn(move || mine.into_iter().for_each(drop));
            }
        });
        prop_assert_eq!(device.live(), []);
    }
}
