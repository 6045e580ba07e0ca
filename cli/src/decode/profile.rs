//! `streamweir decode --profile`: how fast each bucket is at each context.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use indicatif::ProgressBar;
use serde::Serialize;
use streamweir::Device;
use streamweir_integration::dsv4::{Overlap, Point, Profile, ProfileOptions, Setup};

use super::plot;
use crate::exit::{self, Failure};
use crate::paint::Paint;

/// Kernels that the table of shares has at the most.
const MOST_ROLES: usize = 12;

/// What is made of a profile.
pub(super) struct Output<'a> {
    /// JSON instead of a table.
    pub(super) json: bool,
    /// A file to draw into.
    pub(super) plot: Option<&'a Path>,
    /// A file for the trace of the last step.
    pub(super) chrome: Option<&'a Path>,
}

pub(super) fn run(
    device: &Device,
    setup: Setup,
    options: &ProfileOptions,
    output: Output<'_>,
) -> Result<ExitCode, Failure> {
    let bar = ProgressBar::new((setup.buckets.len() * options.contexts.len()) as u64);
    let profile = Profile::run(device, setup, options, |_| bar.inc(1))?;
    bar.finish_and_clear();
    if let Some(path) = output.plot {
        plot::write(&profile, path)?;
    }
    let last = profile
        .points
        .last()
        .and_then(|point| point.chrome.as_ref());
    if let (Some(path), Some(events)) = (output.chrome, last) {
        std::fs::write(path, events)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    if output.json {
        exit::print(json(&profile)?)?;
    } else {
        exit::print(Table {
            profile: &profile,
            paint: Paint::for_stdout(),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Table<'a> {
    profile: &'a Profile,
    paint: Paint,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile {
            device,
            setup,
            bandwidth,
            points,
        } = self.profile;
        writeln!(
            f,
            "DeepSeek-V4 {} on {device}: {} layers, {} index keys, tagged pools. µs of a step, medians of replays\n\
             in turn. The limit is the longest path of kernels by themselves and their edges, or the bytes of a\n\
             step over {:.2} TB/s, whichever is more.\n",
            setup.config.name,
            setup.config.layers,
            setup.index_keys,
            bandwidth / 1e12,
        )?;
        let header = format!(
            "  {:>5} {:>8} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>6}",
            "batch",
            "context",
            "off",
            "indexer",
            "full",
            "speedup",
            "path",
            "bytes",
            "of limit",
            "lanes"
        );
        writeln!(f, "{}", self.paint.bold(&header))?;
        let rule = "─".repeat(header.chars().count() - 2);
        writeln!(f, "  {}", self.paint.faint(rule))?;
        for point in points {
            writeln!(
                f,
                "  {:>5} {:>8} {:>9.1} {:>9.1} {:>9.1} {:>7.3}x {:>9.1} {:>9.1} {:>8.1}% {:>6}",
                point.bucket,
                point.context,
                point.us(Overlap::Off),
                point.us(Overlap::IndexerOnly),
                point.us(Overlap::Full),
                point.speedup(),
                point.critical_path,
                point.bytes as f64 / bandwidth * 1e6,
                point.limit(*bandwidth) / point.us(Overlap::Full) * 100.0,
                point.lanes(Overlap::Full),
            )?;
        }
        match points.last() {
            Some(point) => self.shares(f, point),
            None => Ok(()),
        }
    }
}

impl Table<'_> {
    fn shares(&self, f: &mut fmt::Formatter<'_>, point: &Point) -> fmt::Result {
        writeln!(
            f,
            "\nKernels by themselves, batch {} at {} tokens:\n",
            point.bucket, point.context
        )?;
        let what_if = point.path_alone.is_some();
        let saves = if what_if { "    saves" } else { "" };
        let header = format!(
            "  {:<24} {:<22} {:>6} {:>9} {:>9}{saves}",
            "place", "kernel", "nodes", "µs", "in all"
        );
        writeln!(f, "{}", self.paint.bold(header))?;
        for role in point.roles.iter().take(MOST_ROLES) {
            let saves = role.saves.map_or(String::new(), |us| format!("{us:>9.1}"));
            let kernel = match role.call {
                0 => role.kernel.clone(),
                call => format!("{} ({})", role.kernel, call + 1),
            };
            writeln!(
                f,
                "  {:<24} {:<22} {:>6} {:>9.2} {:>9.1}{saves}",
                role.place,
                kernel,
                role.nodes,
                role.us,
                role.us * role.nodes as f64,
            )?;
        }
        if let Some(alone) = point.path_alone {
            let (full, path) = (point.us(Overlap::Full), point.critical_path);
            writeln!(
                f,
                "\nThe step with the full overlap takes {full:.1} µs. When its longest path alone does anything it \
                 takes\n{alone:.1}: {:.1} for forks and joins, and the work beside the path costs it {:.1}. What \
                 the step\nsaves without a kernel is in the last column.",
                alone - path,
                full - alone,
            )?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Json<'a> {
    device: &'a str,
    config: &'static str,
    layers: u32,
    index_k: &'static str,
    bandwidth: f64,
    points: Vec<JsonPoint<'a>>,
}

#[derive(Serialize)]
struct JsonPoint<'a> {
    bucket: u32,
    context: u32,
    off: f64,
    indexer: f64,
    full: f64,
    speedup: f64,
    edge: f64,
    critical_path: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_alone: Option<f64>,
    bytes: u64,
    limit: f64,
    lanes: usize,
    roles: Vec<JsonRole<'a>>,
}

#[derive(Serialize)]
struct JsonRole<'a> {
    place: &'a str,
    kernel: &'a str,
    call: usize,
    nodes: usize,
    us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    saves: Option<f64>,
}

fn json(profile: &Profile) -> serde_json::Result<String> {
    let point = |point| JsonPoint::of(point, profile.bandwidth);
    serde_json::to_string_pretty(&Json {
        device: &profile.device,
        config: profile.setup.config.name,
        layers: profile.setup.config.layers,
        index_k: profile.setup.index_keys.word(),
        bandwidth: profile.bandwidth,
        points: profile.points.iter().map(point).collect(),
    })
}

impl<'a> JsonPoint<'a> {
    fn of(point: &'a Point, bandwidth: f64) -> Self {
        let round = |value: f64| (value * 100.0).round() / 100.0;
        Self {
            bucket: point.bucket,
            context: point.context,
            off: round(point.us(Overlap::Off)),
            indexer: round(point.us(Overlap::IndexerOnly)),
            full: round(point.us(Overlap::Full)),
            speedup: (point.speedup() * 1000.0).round() / 1000.0,
            edge: round(point.edge),
            critical_path: round(point.critical_path),
            path_alone: point.path_alone.map(round),
            bytes: point.bytes,
            limit: round(point.limit(bandwidth)),
            lanes: point.lanes(Overlap::Full),
            roles: (point.roles.iter())
                .map(|role| JsonRole {
                    place: &role.place,
                    kernel: &role.kernel,
                    call: role.call,
                    nodes: role.nodes,
                    us: round(role.us),
                    saves: role.saves.map(round),
                })
                .collect(),
        }
    }
}

/// Points by bucket, context and microseconds with the full overlap, of 120 without
/// and a longest path of 90.
#[cfg(test)]
pub(super) fn example<const N: usize>(points: [(u32, u32, f64); N]) -> Profile {
    use streamweir_integration::dsv4::{Capacity, Config, IndexKeys, Packing};

    Profile {
        device: "cuda:0 card".to_owned(),
        setup: Setup {
            config: Config::FLASH,
            index_keys: IndexKeys::Fp8,
            buckets: vec![1, 8, 32],
            capacity: Capacity {
                sequences: 32,
                pages: 1,
                rows: 32,
            },
            packing: Packing::Planned,
            programmatic: true,
            seed: 1,
        },
        bandwidth: 3e12,
        points: points
            .map(|(bucket, context, full)| Point {
                bucket,
                context,
                steps: vec![(Overlap::Off, 120.0, 1), (Overlap::Full, full, 6)],
                edge: 1.0,
                critical_path: 90.0,
                path_alone: None,
                bytes: 1 << 20,
                roles: Vec::new(),
                chrome: None,
            })
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use streamweir_integration::dsv4::Role;

    use super::*;

    #[test]
    fn what_keeps_a_step_from_its_limit_is_said_where_it_was_measured() {
        let mut profile = example([(8, 2048, 100.0)]);
        profile.points[0].roles.push(Role {
            place: "c4/compressor".to_owned(),
            kernel: "gemm".to_owned(),
            call: 0,
            nodes: 3,
            us: 9.0,
            saves: None,
        });
        let table = |profile: &Profile| {
            let paint = Paint::none();
            Table { profile, paint }.to_string()
        };
        let text = table(&profile);
        assert!(text.contains("90.0%"), "{text}");
        assert!(!text.contains("saves"), "{text}");

        let point = &mut profile.points[0];
        point.path_alone = Some(92.5);
        point.roles[0].saves = Some(5.5);
        let text = table(&profile);
        for says in [
            "c4/compressor            gemm                        3      9.00      27.0      5.5",
            "overlap takes 100.0 µs",
            "92.5: 2.5 for forks and joins, and the work beside the path costs it 7.5.",
        ] {
            assert!(text.contains(says), "no {says:?} in {text}");
        }
        let json = json(&profile).unwrap();
        for says in [r#""path_alone": 92.5"#, r#""saves": 5.5"#] {
            assert!(json.contains(says), "no {says} in {json}");
        }
    }
}
