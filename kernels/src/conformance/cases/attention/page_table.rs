//! The look over page tables.

use super::super::super::bench::{Bench, arg, equal};
use super::super::{Outcome, lengths};
use crate::conformance::{Case, Size};
use crate::dsv4::{self, PageFaults};

pub(super) const CHECK: Case = Case {
    name: "check_page_table",
    body: check,
};

fn check(bench: &mut Bench<'_>, size: Size) -> Outcome {
    const PAGES: u32 = 50;
    let (stride, per_page) = (size.entries.div_ceil(64), 64);
    let tokens = size.tokens;
    let mut table: Vec<i32> = (0..tokens * stride)
        .map(|_| bench.below(PAGES) as i32)
        .collect();
    let lens = lengths(bench, size);
    let used = |token: u32| {
        let len = lens[token as usize].clamp(0, (stride * per_page) as i32) as u32;
        len.div_ceil(per_page)
    };
    // One table that is right as far as the lengths reach, one that is not.
    for token in 0..tokens {
        for column in used(token)..stride {
            table[(token * stride + column) as usize] = -7;
        }
    }
    let mut wrong = table.clone();
    let mut expected = PageFaults {
        count: 0,
        first: None,
    };
    for token in (0..tokens).rev().filter(|&token| used(token) > 0) {
        let column = bench.below(used(token));
        wrong[(token * stride + column) as usize] =
            [PAGES as i32, -1, i32::MAX][token as usize % 3];
        expected.count += 1;
        expected.first = Some((token, column));
    }
    let shape = dsv4::check_page_table::shape(tokens, stride, per_page)?;
    let lens_at = bench.upload(&lens)?;
    for (table, expected) in [
        (&table, PageFaults::read(PageFaults::NONE, stride)),
        (&wrong, expected),
    ] {
        let found = bench.upload(&PageFaults::NONE)?;
        let args = vec![
            arg(bench.upload(table)?),
            arg(lens_at),
            arg(found),
            arg(tokens),
            arg(stride),
            arg(per_page),
            arg(PAGES),
        ];
        bench.launch::<dsv4::check_page_table>(shape, args)?;
        let found = bench.download::<u32>(found, PageFaults::LEN)?;
        equal(
            &[PageFaults::read([found[0], found[1]], stride)],
            &[expected],
        )?;
    }
    Ok(())
}
