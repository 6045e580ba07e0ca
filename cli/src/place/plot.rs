//! A layout as a drawing: time to the right, addresses upwards, a rectangle for each buffer.

use plotters::prelude::*;
use streamweir::trace::{AllocLog, ByteRange, Count, LogEvent};

use super::judge::Placed;

/// More rectangles than these are more than anybody can look at.
const MOST_DRAWN: usize = 20_000;

/// A buffer: its first and last event, its bytes, and its stream.
struct Drawn {
    from: usize,
    to: usize,
    range: ByteRange,
    stream: usize,
}

/// The buffers by when kernels use them; those that none uses by when they are held.
fn lives(log: &AllocLog, placed: &Placed) -> Vec<Drawn> {
    let mut held: Vec<Option<(usize, usize)>> = vec![None; log.buffers.len()];
    let mut used = held.clone();
    let reach = |life: &mut Option<(usize, usize)>, at: usize| {
        life.get_or_insert((at, at)).1 = at;
    };
    for (at, event) in log.events.iter().enumerate() {
        match event {
            LogEvent::Join { .. } => {}
            LogEvent::Alloc(buffer) | LogEvent::Free(buffer) => {
                reach(&mut held[buffer.index()], at);
            }
            LogEvent::Kernel { reads, writes, .. } => {
                for buffer in reads.iter().chain(writes) {
                    reach(&mut used[buffer.index()], at);
                }
            }
        }
    }
    let lives = used.into_iter().zip(held).map(|(used, held)| used.or(held));
    let all = lives.zip(&placed.ranges).zip(&log.buffers);
    let drawn = all.filter_map(|((life, &range), buffer)| {
        let (from, to) = life?;
        Some(Drawn {
            from,
            to: to + 1,
            range,
            stream: buffer.stream.index(),
        })
    });
    let mut drawn: Vec<Drawn> = drawn.collect();
    drawn.sort_by_key(|buffer| std::cmp::Reverse(buffer.range.len()));
    drawn
}

/// The drawing as SVG.
pub(super) fn draw(log: &AllocLog, placed: &Placed) -> Result<String, Box<dyn std::error::Error>> {
    const MIB: f64 = (1 << 20) as f64;
    let mut drawn = lives(log, placed);
    let all = drawn.len();
    drawn.truncate(MOST_DRAWN);
    let base = placed.ranges.iter().map(|range| range.start).min();
    let base = base.unwrap_or(0);
    let mib = |address: u64| (address - base) as f64 / MIB;
    let (height, floor) = (placed.height as f64 / MIB, placed.floor.bytes as f64 / MIB);
    let left_out = match all - drawn.len() {
        0 => String::new(),
        some => format!(", {some} small ones left out"),
    };
    let title = format!(
        "{} bytes, {:.4} of the floor: {}, {}, {}, {}{left_out}",
        placed.height,
        placed.ratio(),
        Count::of(placed.buffers.len() as u64, "buffer"),
        Count::of(placed.streams.into(), "stream"),
        placed.mode.word(),
        placed.policy,
    );
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (1200, 700)).into_drawing_area();
        area.fill(&WHITE)?;
        let last = log.events.len().max(1);
        let top = (height.max(floor) * 1.04).max(1.0 / MIB);
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 15))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(70)
            .build_cartesian_2d(0..last, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("event")
            .y_desc("MiB")
            .label_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .draw()?;
        chart.draw_series(drawn.iter().map(|buffer| {
            let corners = [
                (buffer.from, mib(buffer.range.start)),
                (buffer.to, mib(buffer.range.end)),
            ];
            Rectangle::new(corners, Palette99::pick(buffer.stream).mix(0.55).filled())
        }))?;
        let edges = drawn.iter().filter(|_| drawn.len() <= MOST_DRAWN / 10);
        chart.draw_series(edges.map(|buffer| {
            let corners = [
                (buffer.from, mib(buffer.range.start)),
                (buffer.to, mib(buffer.range.end)),
            ];
            Rectangle::new(corners, BLACK.mix(0.4).stroke_width(1))
        }))?;
        let line = [(0, floor), (last, floor)];
        chart.draw_series(LineSeries::new(line, BLACK.stroke_width(2)))?;
        area.present()?;
    }
    Ok(svg)
}
