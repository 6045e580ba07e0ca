//! The result for programs.

use serde::Serialize;
use streamweir_integration::dsv4::{RepeatedArm, Repetition};

use super::Way;

#[derive(Serialize)]
struct Demo<'a> {
    device: &'a str,
    size: &'a str,
    arms: Vec<Arm>,
}

#[derive(Serialize)]
struct Arm {
    name: &'static str,
    replays: u32,
    wrong: u32,
    topk_differs: u32,
    hazards: u64,
    us_per_replay: Option<f64>,
}

pub(super) fn of(found: &Repetition) -> serde_json::Result<String> {
    let arms = Way::ALL
        .into_iter()
        .filter_map(|way| Some(Arm::of(way, found.arm(way.arm())?)));
    serde_json::to_string_pretty(&Demo {
        device: &found.device,
        size: found.setup.config.name,
        arms: arms.collect(),
    })
}

impl Arm {
    fn of(way: Way, result: &RepeatedArm) -> Self {
        Self {
            name: way.name(),
            replays: result.replays,
            wrong: result.wrong,
            topk_differs: result.selected_differs,
            hazards: result.report.hazards_total,
            us_per_replay: result.us_per_replay.map(|us| (us * 10.0).round() / 10.0),
        }
    }
}
