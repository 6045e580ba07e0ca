//! Models of the hand-over between conflicting graphs, explored by loom.
//!
//! Empty unless built with `--cfg streamweir_loom`, for then the locks of the
//! crates are loom's, which work inside a model only:
//!
//! ```text
//! RUSTFLAGS="--cfg streamweir_loom" cargo test -p streamweir-sched --no-default-features --test loom --release
//! ```
//!
//! The device of the models runs nothing. It keeps, for every launch, the set
//! of launches that are certain to have ended when it starts: the earlier ones
//! of its stream, and those whose event the stream has waited for. Two launches
//! can be in flight together exactly if neither is in the set of the other, so
//! no order in which a device might run them needs to be explored, only the
//! orders in which threads call.
//!
//! Each model names the mutations that make it fail; all of them were tried.
#![cfg(streamweir_loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::sync::Mutex;
use loom::thread;
use streamweir_sched::{Late as Asked, Turn, in_turn};

/// A launch: what a turn remembers of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launch {
    id: usize,
    stream: usize,
}

/// Sets of launches are words: bit `i` is launch `i`.
#[derive(Default)]
struct Order {
    /// By stream: what has ended when the next work of the stream starts.
    ended: [u32; 2],
    /// By launch: the byte groups it writes, and what has ended when it starts.
    launches: Vec<(u32, u32)>,
}

#[derive(Default)]
struct Device(Mutex<Order>);

impl Device {
    fn launch(&self, stream: usize, bytes: u32) -> Launch {
        let mut order = self.0.lock().unwrap();
        let id = order.launches.len();
        let ended = order.ended[stream];
        order.launches.push((bytes, ended));
        order.ended[stream] |= 1 << id;
        Launch { id, stream }
    }

    /// What an event wait does: the stream's next work starts after `launch`.
    fn wait(&self, stream: usize, launch: Launch) {
        let mut order = self.0.lock().unwrap();
        let ended = order.launches[launch.id].1;
        order.ended[stream] |= ended | 1 << launch.id;
    }

    /// Whether neither of two launches is certain to have ended before the
    /// other starts.
    fn may_overlap(&self, a: Launch, b: Launch) -> bool {
        let order = self.0.lock().unwrap();
        let before = |x: Launch, y: Launch| order.launches[y.id].1 & 1 << x.id != 0;
        !before(a, b) && !before(b, a)
    }
}

/// The turns of two groups, A and B. Graph `A` conflicts with group A alone,
/// `AB` with both, `B` with group B alone.
#[derive(Clone)]
struct Groups {
    device: Arc<Device>,
    turns: [Arc<Turn<Launch>>; 2],
}

const A: u32 = 1;
const B: u32 = 2;
const AB: u32 = A | B;

impl Groups {
    fn new() -> Self {
        Self {
            device: Arc::default(),
            turns: [Arc::new(Turn::new(1)), Arc::new(Turn::new(2))],
        }
    }

    /// What `Graph::replay` does: in turn, waits for launches on other streams
    /// and launches. `refused` is a driver that refuses the launch.
    fn replay(&self, stream: usize, bytes: u32, refused: bool) -> Result<Launch, ()> {
        let turns: Vec<_> = (0..2)
            .filter(|group| bytes & 1 << group != 0)
            .map(|group| self.turns[group].clone())
            .collect();
        in_turn(
            &turns,
            |last| {
                if last.stream != stream {
                    self.device.wait(stream, *last);
                }
                Ok(())
            },
            || match refused {
                true => Err(()),
                false => Ok(self.device.launch(stream, bytes)),
            },
        )
    }

    fn replay_on_a_thread(&self, stream: usize, bytes: u32) -> thread::JoinHandle<Launch> {
        let groups = self.clone();
        thread::spawn(move || groups.replay(stream, bytes, false).unwrap())
    }
}

/// Three threads replay three graphs on two streams. Those that conflict never
/// are in flight together; those that do not sometimes are.
///
/// Fails when `take` gives a turn up between reading its latest launch and
/// entering the new one (two launches wait for the same one and not for each
/// other), when it asks `after` for the first turn only, and when the turn of A
/// serves B as well (the last assertion).
#[test]
fn loom_conflicting_graphs_take_turns() {
    static OVERLAPPED: AtomicBool = AtomicBool::new(false);
    loom::model(|| {
        let groups = Groups::new();
        let a = groups.replay_on_a_thread(0, A);
        let b = groups.replay_on_a_thread(1, B);
        let ab = groups.replay(0, AB, false).unwrap();
        let (a, b) = (a.join().unwrap(), b.join().unwrap());

        assert!(!groups.device.may_overlap(a, ab));
        assert!(!groups.device.may_overlap(b, ab));
        if groups.device.may_overlap(a, b) {
            OVERLAPPED.store(true, Ordering::Relaxed);
        }
    });
    assert!(OVERLAPPED.load(Ordering::Relaxed));
}

/// Two threads replay graphs that take both turns, twice each: no deadlock, and
/// all four launches are in one order.
///
/// Fails when one thread hands the turns over in the opposite order of ranks,
/// which is a deadlock that loom reports.
#[test]
fn loom_two_turns_at_once_do_not_deadlock() {
    loom::model(|| {
        let groups = Groups::new();
        let other = groups.clone();
        let thread = thread::spawn(move || [(); 2].map(|()| other.replay(1, AB, false).unwrap()));
        let here = [(); 2].map(|()| groups.replay(0, AB, false).unwrap());
        let there = thread.join().unwrap();
        for x in here {
            for y in there {
                assert!(!groups.device.may_overlap(x, y));
            }
        }
        let last = groups.turns[0].last();
        assert_eq!(last, groups.turns[1].last());
        assert!(last == Some(here[1]) || last == Some(there[1]));
    });
}

/// The driver refuses a launch while another thread replays: the turn stays with
/// the launch before, and what comes next waits for that one.
///
/// Fails when `take` empties the turn before it launches and does not put the
/// latest launch back.
#[test]
fn loom_a_refused_launch_keeps_the_turn() {
    loom::model(|| {
        let groups = Groups::new();
        let first = groups.replay(0, AB, false).unwrap();
        let other = groups.replay_on_a_thread(1, A);
        groups.replay(0, AB, true).unwrap_err();
        let last = groups.replay(1, B, false).unwrap();
        let other = other.join().unwrap();
        assert!(!groups.device.may_overlap(first, other));
        assert!(!groups.device.may_overlap(first, last));
        assert_eq!(groups.turns[0].last(), Some(other));
        assert_eq!(groups.turns[1].last(), Some(last));
    });
}

/// A launch as `Graph` knows it: its event is recorded when somebody asks, and
/// stands for all that its stream has done up to then.
#[derive(Clone)]
struct Late(Arc<LateInner>);

struct LateInner {
    graph: usize,
    stream: usize,
    /// The launches that the event stands for, once it is recorded.
    event: Asked<u32>,
}

impl Late {
    fn new(graph: usize, stream: usize) -> Self {
        Self(Arc::new(LateInner {
            graph,
            stream,
            event: Asked::new(),
        }))
    }

    fn event(&self, device: &Device) -> u32 {
        let record = || Ok::<_, ()>(device.0.lock().unwrap().ended[self.0.stream]);
        self.0.event.get(record).unwrap()
    }
}

/// What `Graph::launch` does with the one turn of its group.
fn replay_late(device: &Device, turn: &Arc<Turn<Late>>, graph: usize, stream: usize) -> Launch {
    let mut launched = None;
    let again: Result<bool, ()> = turn.again(
        |last| last.0.graph == graph && last.0.stream == stream,
        || {
            launched = Some(device.launch(stream, A));
            Ok(())
        },
        |last| {
            let asked = last.0.event.is_asked_for();
            asked.then(|| Late::new(graph, stream))
        },
    );
    if again == Ok(false) {
        let entered: Result<_, ()> = in_turn(
            std::slice::from_ref(turn),
            |last| {
                if last.0.stream != stream {
                    let ended = last.event(device);
                    device.0.lock().unwrap().ended[stream] |= ended;
                }
                Ok(())
            },
            || {
                launched = Some(device.launch(stream, A));
                Ok(Late::new(graph, stream))
            },
        );
        entered.unwrap_or_else(|()| unreachable!("nothing is refused"));
    }
    launched.expect("it was launched one way or the other")
}

/// One graph is replayed again and again on its stream, while another thread
/// asks for the event of its latest launch and then replays a graph of the same
/// group on a second stream: no two launches overlap, and what is replayed next
/// comes after all of them.
///
/// Fails when a launch is held to stand for a later one without a look, and when
/// that somebody has asked is noted only after the event was recorded.
#[test]
fn loom_a_launch_again_is_waited_for() {
    loom::model(|| {
        let device = Arc::new(Device::default());
        let turn = Arc::new(Turn::new(1));
        let first = replay_late(&device, &turn, 0, 0);
        let (theirs, other) = (device.clone(), turn.clone());
        let thread = thread::spawn(move || {
            // As `ReplayGroup::synchronize` does, without the turn.
            if let Some(last) = other.last() {
                last.event(&theirs);
            }
            replay_late(&theirs, &other, 1, 1)
        });
        let again = [(); 2].map(|()| replay_late(&device, &turn, 0, 0));
        let there = thread.join().unwrap();
        let last = replay_late(&device, &turn, 1, 1);
        for earlier in [first, again[0], again[1]] {
            assert!(!device.may_overlap(earlier, there));
            assert!(!device.may_overlap(earlier, last));
        }
    });
}
