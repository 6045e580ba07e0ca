//! Memory that is mapped into reserved addresses, which arenas grow by. A device
//! that has no such thing passes.

use super::rig::{BYTES, Check, Rig, equal};
use crate::driver::CaptureMode;

pub(super) fn pieces_of_a_range_are_used_as_one(rig: &Rig<'_>) -> Check {
    let (stream, function) = (rig.stream()?, rig.function()?);
    let Some((start, unit)) = rig.range(2)? else {
        return Ok(());
    };
    rig.map(start, unit)?;
    rig.map(start + unit, unit)?;
    let across = start + unit - BYTES / 2;
    rig.begin(stream)?;
    rig.fill(stream, across, 3)?;
    rig.add_one(stream, function, across, (BYTES / 4) as u32)?;
    let graph = rig.end(stream)?;
    rig.replay(graph, stream)?;
    rig.synchronize(stream)?;
    let mut words = [0; BYTES as usize];
    // SAFETY: live memory, and the replay has ended.
    unsafe { rig.driver.copy_to_host(&mut words, across) }?;
    let expected = 0x0303_0304_u32.to_ne_bytes();
    let right = words.chunks(4).all(|word| word == expected);
    equal("that the kernel wrote both pieces", true, right)
}

pub(super) fn a_range_grows_under_a_capture(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    let Some((start, unit)) = rig.range(2)? else {
        return Ok(());
    };
    rig.map(start, unit)?;
    rig.begin(stream)?;
    rig.fill(stream, start, 5)?;
    let former = rig.driver.capture_mode_exchange(CaptureMode::Relaxed)?;
    // SAFETY: a part of a live range in which nothing is mapped.
    let mapped = unsafe { rig.driver.mem_map(start + unit, unit) };
    rig.driver.capture_mode_exchange(former)?;
    mapped?;
    let outcome = fill_both(rig, (start, unit), stream);
    // SAFETY: mapped above, and whatever used it has ended.
    let unmapped = unsafe { rig.driver.mem_unmap(start + unit, unit) };
    outcome?;
    Ok(unmapped?)
}

/// Goes on with the capture and replays it.
fn fill_both(
    rig: &Rig<'_>,
    (start, unit): (u64, u64),
    stream: crate::driver::StreamHandle,
) -> Check {
    rig.fill(stream, start + unit, 6)?;
    let graph = rig.end(stream)?;
    rig.replay(graph, stream)?;
    rig.synchronize(stream)?;
    rig.holds(start, 5)?;
    rig.holds(start + unit, 6)
}

pub(super) fn a_piece_may_be_mapped_anew(rig: &Rig<'_>) -> Check {
    let stream = rig.stream()?;
    let Some((start, unit)) = rig.range(2)? else {
        return Ok(());
    };
    rig.map(start, unit)?;
    rig.map(start + unit, unit)?;
    rig.fill(stream, start, 1)?;
    rig.fill(stream, start + unit, 2)?;
    rig.synchronize(stream)?;
    rig.unmap(start + unit, unit)?;
    rig.holds(start, 1)?;
    rig.map(start + unit, unit)?;
    rig.fill(stream, start + unit, 7)?;
    rig.synchronize(stream)?;
    rig.holds(start, 1)?;
    rig.holds(start + unit, 7)
}
