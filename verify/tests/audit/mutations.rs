//! Broken files: whatever is in them, the answer is a verdict or an error that
//! says something, never a panic. The same function is the target of `fuzz/`;
//! here it runs a fixed number of times from fixed seeds.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use streamweir_trace::session::Session;
use streamweir_trace::{Trace, to_json};
use streamweir_verify::Options;
use streamweir_verify::audit::{Mode, audit_json};

/// A generator of numbers (xorshift64*), so that a failing seed can be run
/// again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Small valid files of all three formats.
fn seeds() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all: Vec<Vec<u8>> = [
        "trace/tests/format/data/complete.v2.json",
        "tests/data/captures/memset_then_add_safe.json",
        "tests/data/captures/moe_inplace_race.json",
    ]
    .map(|name| fs::read(root.join(name)).expect(name))
    .to_vec();
    all.push(to_json(&Trace::new("empty")).into_bytes());
    all.push(Session::new("empty").to_json().into_bytes());
    all
}

/// Runs the verifier over `bytes`; whether there was a verdict.
fn survives(bytes: &[u8]) -> bool {
    let options = Options {
        limit: 10,
        certificate: true,
    };
    let mut verdicts = 0;
    for mode in [Mode::Auto, Mode::Pointers] {
        match audit_json(bytes, mode, &options) {
            Ok(audit) => {
                verdicts += 1;
                assert!(!audit.report.to_string().is_empty());
            }
            Err(error) => assert!(error.to_string().len() > 8, "{error}"),
        }
    }
    verdicts > 0
}

#[test]
fn bytes_changed_at_random() {
    let seeds = seeds();
    let mut random = Random(0x5eed_0001);
    let mut verdicts = 0;
    for _ in 0..500 {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes.truncate(at),
                1 => bytes[at] = random.next() as u8,
                2 => bytes[at] = b"0123456789[]{},:\"-.eE"[random.below(20)],
                3 => {
                    let end = (at + random.below(40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {
                    let end = (at + random.below(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        verdicts += u32::from(survives(&bytes));
    }
    // Digits change without the file falling apart.
    assert!(verdicts > 5, "{verdicts}");
}

/// Values that are right in form and wrong in kind or size.
fn strange(random: &mut Random) -> Value {
    match random.below(9) {
        0 => json!(u64::MAX),
        1 => json!(-1),
        2 => json!(1.5),
        3 => json!(4_294_967_295_u64),
        4 => json!(""),
        5 => json!("0xffffffffffffffff"),
        6 => json!([]),
        7 => Value::Null,
        _ => json!(random.below(200)),
    }
}

/// Changes one value somewhere in `value`.
fn disturb(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(list) if !list.is_empty() && random.below(8) > 0 => {
            let at = random.below(list.len());
            match random.below(12) {
                0 => {
                    let copy = list[at].clone();
                    list.insert(random.below(list.len()), copy);
                }
                1 => {
                    list.remove(at);
                }
                2 => {
                    let other = random.below(list.len());
                    list.swap(at, other);
                }
                _ => disturb(&mut list[at], random),
            }
        }
        Value::Object(fields) if !fields.is_empty() && random.below(30) > 0 => {
            let at = random.below(fields.len());
            let key = fields.keys().nth(at).expect("below the length").clone();
            if random.below(20) == 0 {
                fields.remove(&key);
            } else {
                disturb(&mut fields[&key], random);
            }
        }
        other => *other = strange(random),
    }
}

#[test]
fn values_changed_at_random() {
    let seeds: Vec<Value> = seeds()
        .iter()
        .map(|seed| serde_json::from_slice(seed).expect("JSON"))
        .collect();
    let mut random = Random(0x5eed_0002);
    let mut verdicts = 0;
    for _ in 0..700 {
        let mut file = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(4) {
            disturb(&mut file, &mut random);
        }
        verdicts += u32::from(survives(file.to_string().as_bytes()));
    }
    assert!(verdicts > 50, "{verdicts}");
}

#[test]
fn nesting_is_refused_before_the_stack_ends() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(200_000);
        assert!(!survives(deep.as_bytes()));
        // Also where the reader skips what it does not know.
        let inside = format!("{{\"format\":\"capture-dump-1\",\"more\":{deep}");
        assert!(!survives(inside.as_bytes()));
    }
}
