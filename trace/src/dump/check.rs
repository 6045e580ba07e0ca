//! Whether the tables of a dump fit together: no memory is in two places at
//! once, nothing is freed twice.

use std::collections::BTreeMap;

use super::error::DumpError;
use super::model::{AllocAction, Dump};
use crate::range::ByteRange;

impl Dump {
    pub(super) fn check(&self) -> Result<(), DumpError> {
        if let Some(&(node, _)) = self.edges.iter().find(|(from, to)| from == to) {
            return Err(DumpError::SelfEdge(node));
        }
        self.check_segments()?;
        self.check_events()
    }

    fn check_segments(&self) -> Result<(), DumpError> {
        let mut segments: Vec<ByteRange> = self.known_segments().iter().map(|s| s.range).collect();
        disjoint(&mut segments, "segment")?;
        for segment in self.known_segments() {
            let mut blocks: Vec<ByteRange> = segment.blocks.iter().map(|b| b.range).collect();
            if let Some(&block) = blocks.iter().find(|block| !segment.range.contains(block)) {
                let segment = segment.range;
                return Err(DumpError::OutsideSegment { block, segment });
            }
            disjoint(&mut blocks, "block")?;
        }
        Ok(())
    }

    /// Plays the allocator's events. A block that is freed without having been
    /// given out was given out before the capture.
    fn check_events(&self) -> Result<(), DumpError> {
        let mut held: BTreeMap<u64, ByteRange> = BTreeMap::new();
        let mut freed: BTreeMap<u64, ()> = BTreeMap::new();
        for (at, event) in self.known_events().iter().enumerate() {
            match event.action {
                AllocAction::Alloc => {
                    // Blocks of no bytes are in nobody's way.
                    let below = held.range(..event.range.end).next_back();
                    if let Some((_, &other)) = below
                        && other.overlaps(&event.range)
                    {
                        return Err(DumpError::Overlap {
                            what: format!("allocator event {at} gives out"),
                            range: event.range,
                            other,
                        });
                    }
                    freed.remove(&event.range.start);
                    held.insert(event.range.start, event.range);
                }
                AllocAction::FreeCompleted => {
                    held.remove(&event.range.start);
                    if freed.insert(event.range.start, ()).is_some() {
                        let range = event.range;
                        return Err(DumpError::FreedTwice { at, range });
                    }
                }
                AllocAction::FreeRequested | AllocAction::Other => {}
            }
        }
        Ok(())
    }
}

fn disjoint(ranges: &mut [ByteRange], what: &str) -> Result<(), DumpError> {
    ranges.sort_unstable();
    let overlapping = ranges.windows(2).find(|pair| pair[0].overlaps(&pair[1]));
    match overlapping {
        Some(pair) => Err(DumpError::Overlap {
            what: what.to_owned(),
            range: pair[1],
            other: pair[0],
        }),
        None => Ok(()),
    }
}
