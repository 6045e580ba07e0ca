//! Bytes that changed, and which of them may be filled with a pattern.

use streamweir_trace::ByteRange;

/// Runs closer than this are one element or vector of a kernel's output, whose
/// other bytes happened to stay what they were.
const HOLE: u64 = 16;

/// What written bytes are filled with before the second and third trial: each
/// word is a small positive number in half, bfloat, single and double, and not
/// one byte is the same in both.
pub(super) const PATTERNS: [u8; 2] = [0x3c, 0x2a];

/// Adds the bytes in which `after` differs from `before` to `changed`.
pub(super) fn difference(before: &[u8], after: &[u8], changed: &mut [bool]) {
    for ((old, new), changed) in before.iter().zip(after).zip(changed) {
        *changed |= old != new;
    }
}

/// The changed bytes as runs.
pub(super) fn runs(changed: &[bool]) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::new();
    for (at, _) in (0_u64..).zip(changed).filter(|(_, changed)| **changed) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(ByteRange::new(at, at + 1)),
        }
    }
    runs
}

/// The longest of `runs`, at most `most` of them, in order.
pub(super) fn longest(mut runs: Vec<ByteRange>, most: usize) -> Vec<ByteRange> {
    if runs.len() > most {
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        runs.truncate(most);
        runs.sort_unstable();
    }
    runs
}

/// The words (of 4 bytes, from the start of the block on) that may be filled:
/// those with a changed byte, or between two not far apart, whose value before
/// and after looks like neither an index nor, with a neighbour, an address.
pub(super) fn fillable(
    changed: &[bool],
    before: &[u8],
    after: &[u8],
    is_address: impl Fn(u64) -> bool,
) -> Vec<ByteRange> {
    let mut spans: Vec<ByteRange> = Vec::new();
    for run in runs(changed) {
        match spans.last_mut() {
            Some(span) if run.start < span.end + HOLE => span.end = run.end,
            _ => spans.push(run),
        }
    }
    let mut words: Vec<ByteRange> = Vec::new();
    for span in spans {
        for start in (span.start / 4 * 4..span.end).step_by(4) {
            let safe = |bytes: &[u8]| {
                let word = |at: u64, count: usize| -> Option<u64> {
                    let bytes = bytes.get(at as usize..at as usize + count)?;
                    let mut value = [0; 8];
                    value[..count].copy_from_slice(bytes);
                    Some(u64::from_le_bytes(value))
                };
                let index = word(start, 4).is_none_or(|value| is_index(value as u32));
                !index && !word(start / 8 * 8, 8).is_some_and(&is_address)
            };
            // A word is judged by what it holds: where it was zero before and
            // holds a number now, the number decides.
            let fresh = before
                .get(start as usize..start as usize + 4)
                .is_some_and(|word| word == [0; 4]);
            if safe(after) && (fresh || safe(before)) {
                match words.last_mut() {
                    Some(last) if last.end == start => last.end += 4,
                    _ => words.push(ByteRange::new(start, start + 4)),
                }
            }
        }
    }
    words
}

/// The words of a block that are numbers: neither indices nor, with a
/// neighbour, addresses.
pub(super) fn numbers(bytes: &[u8], is_address: impl Fn(u64) -> bool) -> Vec<ByteRange> {
    let mut words: Vec<ByteRange> = Vec::new();
    for (at, pair) in (0_u64..).step_by(8).zip(bytes.chunks(8)) {
        if <[u8; 8]>::try_from(pair).is_ok_and(|pair| is_address(u64::from_le_bytes(pair))) {
            continue;
        }
        for (start, word) in (at..).step_by(4).zip(pair.chunks_exact(4)) {
            let number =
                <[u8; 4]>::try_from(word).is_ok_and(|word| !is_index(u32::from_le_bytes(word)));
            match words.last_mut() {
                Some(last) if number && last.end == start => last.end += 4,
                _ if number => words.push(ByteRange::new(start, start + 4)),
                _ => {}
            }
        }
    }
    words
}

/// Whether a word could count something: small, or minus something small. No
/// normal number of any floating-point format but zero looks like that.
fn is_index(word: u32) -> bool {
    const SMALL: i32 = 1 << 22;
    (-SMALL..SMALL).contains(&word.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    fn fill(before: &[u32], after: &[u32]) -> Vec<(u64, u64)> {
        let (before, after) = (words(before), words(after));
        let mut changed = vec![false; before.len()];
        difference(&before, &after, &mut changed);
        let address = |value: u64| (0x7000_0000_0000..0x7000_0001_0000).contains(&value);
        let found = fillable(&changed, &before, &after, address);
        found.iter().map(|run| (run.start, run.end)).collect()
    }

    const ONE: u32 = 0x3f80_0000;
    const TWO: u32 = 0x4000_0000;

    #[test]
    fn numbers_are_filled_and_what_stayed_the_same_far_off_is_not() {
        let before = [ONE, ONE, ONE, TWO, TWO, TWO, TWO, TWO];
        let after = [TWO, ONE, TWO, TWO, TWO, TWO, TWO, TWO];
        assert_eq!(fill(&before, &after), [(0, 12)]);
        assert_eq!(fill(&[0, 0], &[ONE, 0]), [(0, 4)]);
    }

    #[test]
    fn indices_and_addresses_are_not() {
        assert_eq!(fill(&[0, 5], &[7, 6]), []);
        assert_eq!(fill(&[ONE], &[12]), []);
        assert_eq!(fill(&[12], &[ONE]), []);
        assert_eq!(fill(&[u32::MAX], &[ONE]), []);
        assert_eq!(fill(&[ONE, ONE], &[0x0000_1000, 0x0000_7000]), []);
        // An address whose lower half looks like a number.
        let moved = [0x0000_f000 | 0x4000_0000, 0x7000];
        let address = |value: u64| value >> 32 == 0x7000;
        let (before, after) = (words(&[ONE, ONE]), words(&moved));
        let found = fillable(&[true; 8], &before, &after, address);
        assert_eq!(found, []);
    }

    #[test]
    fn numbers_of_a_block_are_told_from_indices_and_addresses() {
        let block = words(&[ONE, TWO, 3, ONE, 0x4000_0000, 0x7000, TWO]);
        let found = numbers(&block, |value| value >> 32 == 0x7000);
        let range = ByteRange::new;
        assert_eq!(found, [range(0, 8), range(12, 16), range(24, 28)]);
    }

    #[test]
    fn runs_are_exact_and_the_longest_are_kept() {
        let changed = [true, false, true, true, true, false, true, true];
        let found = runs(&changed);
        let range = ByteRange::new;
        assert_eq!(found, [range(0, 1), range(2, 5), range(6, 8)]);
        assert_eq!(longest(found, 2), [range(2, 5), range(6, 8)]);
    }

    #[test]
    fn the_patterns_are_small_numbers_in_every_format() {
        for byte in PATTERNS {
            let single = f32::from_le_bytes([byte; 4]);
            let double = f64::from_le_bytes([byte; 8]);
            let half = half::f16::from_le_bytes([byte; 2]).to_f32();
            let bfloat = half::bf16::from_le_bytes([byte; 2]).to_f32();
            for value in [
                f64::from(single),
                double,
                f64::from(half),
                f64::from(bfloat),
            ] {
                assert!(value > 0.0 && value < 2.0, "{byte:#x} is {value}");
            }
        }
        assert_ne!(PATTERNS[0], PATTERNS[1]);
    }
}
