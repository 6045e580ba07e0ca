//! The bytes of a tensor whose elements have gaps between them, and whether two
//! of those share one.
//!
//! A tensor is a run of bytes, repeated at a stride, and that again at another:
//! `start + i * s + j * t + ...`. From first to last byte two columns of a matrix
//! overlap and yet have no byte in common, so the question is decided on the runs
//! themselves. Runs are not listed: of two sets only the repetitions are split up
//! that still overlap from end to end, and what was found for a distance between
//! two parts holds for every other pair of them at that distance. Sets of one
//! shape, as two views of one tensor are, take a handful of steps whatever their
//! size. Sets made to be hard may take more than is allowed; then nothing is said.

use std::collections::HashSet;

use streamweir_trace::ByteRange;
use streamweir_trace::dump::View;

/// The most parts that are compared for one pair.
const MOST_STEPS: u32 = 1 << 17;

/// A set of bytes with gaps, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    start: u64,
    /// From the outermost: how often, at which stride, and how many bytes lie
    /// between the first and the last of all that is inside.
    dims: Vec<Dim>,
    /// The bytes of a run.
    run: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim {
    count: u64,
    stride: u64,
    inner: u64,
}

impl Strided {
    /// All bytes of a range.
    pub(super) fn dense(range: ByteRange) -> Self {
        Self {
            start: range.start,
            dims: Vec::new(),
            run: range.len(),
        }
    }

    /// The elements of a view that begins at `start`, which are not none and end
    /// within the address space.
    pub(super) fn of(start: u64, view: &View) -> Self {
        let mut dims: Vec<(u64, u64)> = view.dims.to_vec();
        dims.retain(|&(count, stride)| count > 1 && stride > 0);
        dims.sort_unstable_by_key(|&(_, stride)| stride);
        let mut run = view.element;
        let mut inner = run;
        let mut nested: Vec<Dim> = Vec::new();
        for (count, stride) in dims {
            match nested.last_mut() {
                // Neighbours touch or overlap: one longer run.
                None if stride <= run => run += (count - 1) * stride,
                // One repetition goes on where the last one ends.
                Some(last) if last.stride.checked_mul(last.count) == Some(stride) => {
                    last.count = last.count.saturating_mul(count);
                }
                _ => nested.push(Dim {
                    count,
                    stride,
                    inner,
                }),
            }
            inner += (count - 1) * stride;
        }
        nested.reverse();
        Self {
            start,
            dims: nested,
            run,
        }
    }

    /// Whether there are no gaps.
    pub(super) fn is_dense(&self) -> bool {
        self.dims.is_empty()
    }

    /// Whether the two sets share a byte; `None` when that takes too long to find
    /// out.
    pub(super) fn meets(&self, other: &Self) -> Option<bool> {
        let one = self.aligned(other);
        let other = other.aligned(&one);
        let mut search = Search {
            sets: [&one, &other],
            apart: HashSet::new(),
            left: MOST_STEPS,
        };
        search.meet([0, 0], i128::from(other.start) - i128::from(one.start))
    }

    /// The same set with its repetitions cut where those of another repeat, as far
    /// as they can be: a matrix without gaps between its rows has rows again beside
    /// one that has such gaps.
    fn aligned(&self, other: &Self) -> Self {
        let mut dims = Vec::with_capacity(self.dims.len());
        for &dim in &self.dims {
            let mut rest = dim;
            // From the largest stride down, each a part of what is left.
            for of_other in &other.dims {
                let times = of_other.stride / rest.stride;
                let fits =
                    of_other.stride % rest.stride == 0 && rest.count.is_multiple_of(times.max(1));
                if times > 1 && fits && rest.count > times {
                    let inner = (times - 1) * rest.stride + rest.inner;
                    dims.push(Dim {
                        count: rest.count / times,
                        stride: of_other.stride,
                        inner,
                    });
                    rest.count = times;
                }
            }
            dims.push(rest);
        }
        Self {
            dims,
            ..self.clone()
        }
    }

    /// From the first to the last byte of what is at a level of the nest.
    fn span(&self, level: usize) -> i128 {
        let span = match self.dims.get(level) {
            Some(dim) => (dim.count - 1) * dim.stride + dim.inner,
            None => self.run,
        };
        i128::from(span)
    }
}

struct Search<'a> {
    sets: [&'a Strided; 2],
    /// Levels and distances of parts that share nothing.
    apart: HashSet<([usize; 2], i128)>,
    left: u32,
}

impl Search<'_> {
    /// Whether two parts meet of which the second begins `distance` bytes after the
    /// first.
    fn meet(&mut self, levels: [usize; 2], distance: i128) -> Option<bool> {
        let [a, b] = self.sets;
        let spans = [a.span(levels[0]), b.span(levels[1])];
        if distance >= spans[0] || -distance >= spans[1] {
            return Some(false);
        }
        let dims = [a.dims.get(levels[0]), b.dims.get(levels[1])];
        let split = match dims {
            [None, None] => return Some(true),
            [Some(a), Some(b)] => usize::from(a.stride < b.stride),
            [_, b] => usize::from(b.is_some()),
        };
        if self.apart.contains(&(levels, distance)) {
            return Some(false);
        }
        self.left = self.left.checked_sub(1)?;
        if let [Some(a), Some(b)] = dims
            && a.stride == b.stride
        {
            // Only how far apart two repetitions are makes a difference.
            let (stride, inner) = (i128::from(a.stride), [a.inner, b.inner].map(i128::from));
            let from = (-inner[1] - distance).div_euclid(stride) + 1;
            let to = (inner[0] - 1 - distance).div_euclid(stride);
            let (from, to) = (
                from.max(1 - i128::from(a.count)),
                to.min(i128::from(b.count) - 1),
            );
            let inside = levels.map(|level| level + 1);
            for apart in from..=to {
                if self.meet(inside, distance + apart * stride)? {
                    return Some(true);
                }
            }
            self.apart.insert((levels, distance));
            return Some(false);
        }
        let Dim {
            count,
            stride,
            inner,
        } = *dims[split]?;
        let (stride, inner) = (i128::from(stride), i128::from(inner));
        // The repetitions that overlap the other part from end to end. Seen from
        // the one that is split the other begins at `begin`.
        let begin = if split == 0 { distance } else { -distance };
        let from = ((begin - inner).div_euclid(stride) + 1).max(0);
        let to = (begin + spans[1 - split] - 1)
            .div_euclid(stride)
            .min(i128::from(count) - 1);
        let mut inside = levels;
        inside[split] += 1;
        for at in from..=to {
            let moved = begin - at * stride;
            let moved = if split == 0 { moved } else { -moved };
            if self.meet(inside, moved)? {
                return Some(true);
            }
        }
        self.apart.insert((levels, distance));
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use streamweir_trace::Dump;

    use super::*;

    /// A view as a dump gives it, from sizes and strides in elements.
    fn view(sizes: &[u64], strides: &[u64], element: u64) -> View {
        let dims = sizes.iter().zip(strides);
        let extent = if sizes.contains(&0) {
            0
        } else {
            dims.map(|(size, stride)| (size - 1) * stride).sum::<u64>() * element + element
        };
        let file = format!(
            r#"{{"format":"capture-dump-1","nodes":[],"edges":[],"ops":[{{"op":"o","stream":1,"nodes":[0,0],
            "tensors":[[4096,{extent},4096,{extent},true,{sizes:?},{strides:?},{element}]]}}]}}"#
        );
        let dump = Dump::from_json(file.as_bytes()).expect("valid");
        dump.operators[0].tensors[0].view.clone().expect("given")
    }

    fn bytes(start: u64, view: &View) -> BTreeSet<u64> {
        let mut starts = vec![start];
        for &(count, stride) in &view.dims {
            let all = starts
                .iter()
                .flat_map(|at| (0..count).map(move |i| at + i * stride));
            starts = all.collect();
        }
        let elements = starts.into_iter();
        elements.flat_map(|at| at..at + view.element).collect()
    }

    prop_compose! {
        fn any_view()(
            dims in prop::collection::vec((1_u64..5, 0_u64..20), 0..4),
            element in 1_u64..5,
        ) -> View {
            let (sizes, strides): (Vec<u64>, Vec<u64>) = dims.into_iter().unzip();
            view(&sizes, &strides, element)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn as_all_bytes_listed(a in any_view(), b in any_view(), at in 0_u64..200, by in 0_u64..200) {
            let shared = !bytes(at, &a).is_disjoint(&bytes(by, &b));
            let (one, other) = (Strided::of(at, &a), Strided::of(by, &b));
            prop_assert_eq!(one.meets(&other), Some(shared));
            prop_assert_eq!(other.meets(&one), Some(shared));
            let all = bytes(at, &a);
            let hull = all.last().expect("not empty") - at + 1;
            if one.is_dense() {
                prop_assert_eq!(all.len() as u64, hull);
            }
        }
    }

    #[test]
    fn columns_of_a_large_matrix_take_few_steps() {
        // 2^20 rows of 2^20 elements, every second one.
        let columns = view(&[1 << 20, 1 << 19], &[1 << 20, 2], 2);
        let even = Strided::of(4096, &columns);
        assert_eq!(even.meets(&Strided::of(4098, &columns)), Some(false));
        assert_eq!(even.meets(&Strided::of(4100, &columns)), Some(true));
        assert_eq!(
            even.meets(&Strided::dense(ByteRange::new(4098, 4100))),
            Some(false)
        );
        assert_eq!(
            even.meets(&Strided::dense(ByteRange::new(4098, 4101))),
            Some(true)
        );
    }

    #[test]
    fn a_column_beside_every_second_one() {
        let rows = 1 << 20;
        let column = view(&[rows], &[2048], 2);
        let even = Strided::of(4096, &view(&[rows, 1024], &[2048, 2], 2));
        for (at, shared) in [
            (0, true),
            (2, false),
            (4, true),
            (2046 * 2, true),
            (2047 * 2, false),
        ] {
            assert_eq!(
                even.meets(&Strided::of(4096 + at, &column)),
                Some(shared),
                "{at}"
            );
        }
    }

    #[test]
    fn what_takes_too_long_is_not_said() {
        let primes =
            |at: u64, strides: [u64; 3]| Strided::of(at, &view(&[4001, 4001, 4001], &strides, 1));
        let one = primes(4096, [6_000_011_000, 30_011_000, 9973]);
        let other = primes(4097, [6_000_013_000, 30_013_000, 9967]);
        // Either it is found out or it is not; it does end.
        let _ = one.meets(&other);
    }
}
