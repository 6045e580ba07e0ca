//! The result for programs.

use serde::Serialize;
use streamweir_integration::demo::{ArmReport, DemoReport};

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

pub(super) fn of(report: &DemoReport) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Demo {
        device: &report.device,
        size: report.size.word(),
        arms: report.arms.iter().map(Arm::of).collect(),
    })
}

impl Arm {
    fn of(result: &ArmReport) -> Self {
        Self {
            name: result.arm.name(),
            replays: result.replays,
            wrong: result.wrong,
            topk_differs: result.topk_differs,
            hazards: result.report.hazards_total,
            us_per_replay: result.us_per_replay.map(|us| (us * 10.0).round() / 10.0),
        }
    }
}
