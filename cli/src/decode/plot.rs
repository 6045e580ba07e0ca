//! How much faster the full overlap is, drawn over the batch.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use streamweir_integration::dsv4::Profile;

/// Why there is no drawing.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlotError {
    #[error("the profile could not be drawn: {0}")]
    Drawing(String),
    #[error("{}: the drawing could not be written: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

/// Writes the drawing as SVG: a line for each context.
pub(super) fn write(profile: &Profile, path: &Path) -> Result<(), PlotError> {
    let svg = draw(profile).map_err(|error| PlotError::Drawing(error.to_string()))?;
    fs::write(path, svg).map_err(|source| PlotError::Unwritable {
        path: path.to_owned(),
        source,
    })
}

fn draw(profile: &Profile) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 440)).into_drawing_area();
        area.fill(&WHITE)?;
        let buckets = &profile.setup.buckets;
        let speedups = profile.points.iter().map(|point| point.speedup());
        let top = speedups.fold(1.0, f64::max);
        let last = buckets.len().saturating_sub(1);
        let title = format!(
            "Overlap full against off: {}, {} layers, {} index keys, {}",
            profile.setup.config.name,
            profile.setup.config.layers,
            profile.setup.index_keys,
            profile.device,
        );
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 15))
            .margin(12)
            .x_label_area_size(38)
            .y_label_area_size(52)
            // The buckets stand side by side, whatever lies between them.
            .build_cartesian_2d(-0.2..last as f64 + 0.2, 1.0..(top - 1.0) * 1.15 + 1.0)?;
        let bucket = |x: &f64| match buckets.get(x.round() as usize) {
            Some(bucket) if (x - x.round()).abs() < 0.01 => bucket.to_string(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .x_labels(buckets.len())
            .x_label_formatter(&bucket)
            .x_desc("batch")
            .y_desc("times as fast")
            .label_style(("sans-serif", 13))
            .y_label_formatter(&|y| format!("{y:.2}"))
            .light_line_style(TRANSPARENT)
            .draw()?;
        let mut contexts: Vec<u32> = profile.points.iter().map(|point| point.context).collect();
        contexts.dedup();
        for (at, &context) in contexts.iter().enumerate() {
            let color = Palette99::pick(at).to_rgba();
            let points: Vec<(f64, f64)> = (profile.points.iter())
                .filter(|point| point.context == context)
                .filter_map(|point| {
                    let x = buckets.iter().position(|&bucket| bucket == point.bucket)?;
                    Some((x as f64, point.speedup()))
                })
                .collect();
            let line = LineSeries::new(points, color.stroke_width(2)).point_size(3);
            chart
                .draw_series(line)?
                .label(format!("{context} tokens"))
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2))
                });
        }
        chart
            .configure_series_labels()
            .label_font(("sans-serif", 13))
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::super::profile::example;
    use super::*;

    #[test]
    fn a_line_for_each_context_over_all_buckets() {
        let profile = example([
            (1, 2048, 100.0),
            (8, 2048, 110.0),
            (1, 65_536, 101.0),
            (8, 65_536, 112.0),
            (32, 65_536, 119.0),
        ]);
        let svg = draw(&profile).unwrap();
        for text in [
            "2048 tokens",
            "65536 tokens",
            "\n32\n",
            "times as fast",
            "fp8",
        ] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        // Two lines and their two signs.
        let thick = "stroke-width=\"2\" points=";
        assert_eq!(svg.matches(thick).count(), 4, "{svg}");
    }
}
