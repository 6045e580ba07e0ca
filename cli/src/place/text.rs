//! The answer of `place` for people.

use std::fmt;

use streamweir::trace::{Count, shown};

use super::judge::{Placed, Untouched};

/// The file's name and its layout.
pub(super) struct Text<'a>(pub(super) &'a str, pub(super) &'a Placed);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, placed) = self;
        let (mode, policy) = (placed.mode.word(), placed.policy);
        writeln!(f, "{}", shown(name))?;
        writeln!(
            f,
            "  {}, {}, {mode}, {policy}",
            Count::of(placed.buffers.len() as u64, "buffer"),
            Count::of(placed.streams.into(), "stream"),
        )?;
        writeln!(
            f,
            "  {} bytes, {:.4} of the floor of {} ({})",
            placed.height,
            placed.ratio(),
            placed.floor.bytes,
            placed.floor_kind()
        )?;
        if placed.valid {
            writeln!(f, "  the verifier finds no hazard")?;
        } else {
            writeln!(f, "  NOT VALID: {}", Count::of(placed.hazards, "hazard"))?;
        }
        let Untouched { buffers, bytes } = placed.untouched;
        if buffers > 0 {
            let (are, their) = if buffers == 1 {
                ("buffer is", "its")
            } else {
                ("buffers are", "their")
            };
            writeln!(
                f,
                "  {buffers} {are} touched by no kernel ({bytes} bytes): counted in the height, and nothing checks {their} place"
            )?;
        }
        write!(
            f,
            "  {:.1} ms, {:.0} ns for each of {}",
            placed.took.as_secs_f64() * 1e3,
            placed.ns_per_op(),
            placed.operations
        )?;
        for waste in &placed.waste {
            write!(
                f,
                "\n  stream {}: peak {}, reserved {}, floor {}, {:.1} % above it; most cost",
                waste.pool,
                waste.peak,
                waste.reserved,
                waste.floor.bytes,
                waste.fragmentation() * 100.0
            )?;
            for (at, costly) in waste.costliest.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let buffer = shown(&placed.buffers[costly.buffer.index()]);
                let (bytes, events) = (costly.bytes, costly.events);
                write!(f, "{comma} {buffer} ({bytes} bytes over {events} events)")?;
            }
        }
        Ok(())
    }
}
