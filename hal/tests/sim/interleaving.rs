//! Work that nothing orders really is interleaved, and ordered work is not.

use std::collections::BTreeSet;

use streamweir_hal::driver::{GraphCalls, MemoryCalls, ModuleCalls, StreamCalls};
use streamweir_hal::sim::{Choose, SimDriver, TaskId};

use super::common::{begin, download, end, load, order, replay, upload, write};

const LEN: u32 = 32;

/// ```text
///   input --(+1)--> a --(+10)--> out_a      on one stream
///   input --(+2)--> b --(+20)--> out_b      on the other
/// ```
/// With `a` and `b` the same buffer the two streams race.
fn outcome(sim: &SimDriver, shared: bool, joined: bool) -> (Vec<u32>, Vec<u32>) {
    let code = load(sim).unwrap();
    let zeros = vec![0; LEN as usize];
    let [input, a, b, out_a, out_b] = [(); 5].map(|()| upload(sim, &zeros));
    let b = if shared { a } else { b };
    let (main, side) = (sim.stream_create(0).unwrap(), sim.stream_create(0).unwrap());
    begin(sim, main).unwrap();
    order(sim, main, side).unwrap();
    code.add_to(sim, main, (input, a), 1, LEN).unwrap();
    code.add_to(sim, main, (a, out_a), 10, LEN).unwrap();
    if joined {
        order(sim, main, side).unwrap();
    }
    code.add_to(sim, side, (input, b), 2, LEN).unwrap();
    code.add_to(sim, side, (b, out_b), 20, LEN).unwrap();
    order(sim, side, main).unwrap();
    let graph = end(sim, main).unwrap();
    let exec = unsafe { sim.graph_instantiate(graph) }.unwrap();
    write(sim, out_a, &zeros);
    replay(sim, exec, main).unwrap();
    (
        download(sim, out_a, LEN as usize),
        download(sim, out_b, LEN as usize),
    )
}

fn right() -> (Vec<u32>, Vec<u32>) {
    (vec![11; LEN as usize], vec![22; LEN as usize])
}

#[test]
fn a_shared_buffer_shows_wrong_bits_for_many_seeds() {
    let wrong = (0..200)
        .filter(|&seed| outcome(&SimDriver::new(seed), true, false) != right())
        .count();
    assert!(wrong > 50, "{wrong} of 200 seeds are wrong");
    assert!(wrong < 200, "one after another is a schedule too");
}

#[test]
fn separate_buffers_are_right_for_every_seed() {
    for seed in 0..200 {
        assert_eq!(
            outcome(&SimDriver::new(seed), false, false),
            right(),
            "seed {seed}"
        );
    }
}

#[test]
fn a_shared_buffer_with_a_join_is_right_for_every_seed() {
    for seed in 0..200 {
        assert_eq!(
            outcome(&SimDriver::new(seed), true, true),
            right(),
            "seed {seed}"
        );
    }
}

#[test]
fn seeds_differ_and_repeat() {
    let seen: BTreeSet<_> = (0..50)
        .map(|seed| outcome(&SimDriver::new(seed), true, false))
        .collect();
    assert!(seen.len() > 10, "{} different outcomes", seen.len());
    for seed in 0..20 {
        assert_eq!(
            outcome(&SimDriver::new(seed), true, false),
            outcome(&SimDriver::new(seed), true, false)
        );
    }
}

#[test]
fn reseeding_repeats_a_schedule() {
    let sim = SimDriver::new(1);
    let first: Vec<_> = (0..10)
        .map(|seed| {
            sim.reseed(seed);
            outcome(&sim, true, false)
        })
        .collect();
    let second: Vec<_> = (0..10)
        .map(|seed| outcome(&SimDriver::new(seed), true, false))
        .collect();
    assert_eq!(first, second);
}

/// Always the ready task that was enqueued last, or first.
#[derive(Debug)]
struct Serial {
    last: bool,
}

impl Choose for Serial {
    fn choose(&mut self, ready: &[TaskId]) -> usize {
        if self.last { ready.len() - 1 } else { 0 }
    }
}

#[test]
fn a_schedule_of_ones_own_decides() {
    // Either stream as a whole before the other: no wrong bits, and no fixed
    // order between the two.
    for last in [false, true] {
        let sim = SimDriver::new(0);
        sim.schedule(Serial { last });
        let code = load(&*sim).unwrap();
        let data = upload(&*sim, &[0; LEN as usize]);
        let (one, two) = (sim.stream_create(0).unwrap(), sim.stream_create(0).unwrap());
        unsafe { sim.fill_async(one, data, 1, u64::from(LEN) * 4) }.unwrap();
        unsafe { sim.fill_async(two, data, 2, u64::from(LEN) * 4) }.unwrap();
        unsafe { sim.stream_synchronize(one) }.unwrap();
        unsafe { sim.stream_synchronize(two) }.unwrap();
        let expected = if last { 0x0101_0101 } else { 0x0202_0202 };
        assert_eq!(
            download(&*sim, data, LEN as usize),
            vec![expected; LEN as usize]
        );
        unsafe { sim.module_unload(code.module) }.unwrap();
    }
}

#[test]
fn both_serial_orders_of_two_tasks_come_up() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let sim = SimDriver::new(seed);
        let data = upload(&*sim, &[0; LEN as usize]);
        let (one, two) = (sim.stream_create(0).unwrap(), sim.stream_create(0).unwrap());
        unsafe { sim.fill_async(one, data, 1, u64::from(LEN) * 4) }.unwrap();
        unsafe { sim.fill_async(two, data, 2, u64::from(LEN) * 4) }.unwrap();
        unsafe { sim.stream_synchronize(one) }.unwrap();
        unsafe { sim.stream_synchronize(two) }.unwrap();
        let bytes = download(&*sim, data, LEN as usize);
        seen.insert(bytes);
    }
    for value in [0x0101_0101, 0x0202_0202] {
        assert!(seen.contains(&vec![value; LEN as usize]));
    }
    assert!(seen.len() > 2, "mixtures come up as well");
}

#[test]
fn work_runs_only_when_somebody_waits() {
    let sim = SimDriver::new(0);
    let data = upload(&*sim, &[0; LEN as usize]);
    let stream = sim.stream_create(0).unwrap();
    unsafe { sim.fill_async(stream, data, 1, u64::from(LEN) * 4) }.unwrap();
    assert_eq!(download(&*sim, data, LEN as usize), vec![0; LEN as usize]);
    let mut asked = 0;
    while !unsafe { sim.stream_query(stream) }.unwrap() {
        asked += 1;
    }
    assert!(asked > 0);
    assert_eq!(
        download(&*sim, data, LEN as usize),
        vec![0x0101_0101; LEN as usize]
    );
}

#[test]
fn streams_keep_their_order() {
    for seed in 0..50 {
        let sim = SimDriver::new(seed);
        let code = load(&*sim).unwrap();
        let data = upload(&*sim, &[0; LEN as usize]);
        let stream = sim.stream_create(0).unwrap();
        for _ in 0..5 {
            code.bump(&*sim, stream, data, LEN).unwrap();
        }
        unsafe { sim.stream_synchronize(stream) }.unwrap();
        assert_eq!(download(&*sim, data, LEN as usize), vec![5; LEN as usize]);
    }
}
