//! The result for programs.

use serde::Serialize;
use streamweir_integration::dsv4::{ArmReport, Matrix};

use super::instruments::Instruments;

#[derive(Serialize)]
struct Decode<'a> {
    device: &'a str,
    config: &'static str,
    arms: Vec<Arm>,
}

#[derive(Serialize)]
struct Arm {
    overlap: &'static str,
    pools: &'static str,
    index_k: &'static str,
    exec: &'static str,
    sessions: usize,
    wrong_sessions: usize,
    hazards: u64,
    reserved: u64,
    floor: u64,
    tokens_per_s: Option<f64>,
    us_per_step: Option<f64>,
    speedup: Option<f64>,
    /// To capture, prove and instantiate the graphs of all buckets.
    start_up_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruments: Option<Instruments>,
}

pub(super) fn of(matrix: &Matrix) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Decode {
        device: &matrix.device,
        config: matrix.setup.config.name,
        arms: matrix.arms.iter().map(|arm| Arm::of(matrix, arm)).collect(),
    })
}

impl Arm {
    fn of(matrix: &Matrix, report: &ArmReport) -> Self {
        let tenth = |value: f64| (value * 10.0).round() / 10.0;
        Self {
            overlap: report.arm.overlap.word(),
            pools: report.arm.pools.word(),
            index_k: matrix.setup.index_keys.word(),
            exec: report.arm.exec.word(),
            sessions: report.sessions,
            wrong_sessions: report.wrong_sessions,
            hazards: report.hazards,
            reserved: report.reserved,
            floor: report.floor,
            tokens_per_s: report.tokens_per_second.map(tenth),
            us_per_step: report.us_per_step.map(tenth),
            speedup: matrix
                .speedup(report)
                .map(|ratio| (ratio * 1000.0).round() / 1000.0),
            start_up_ms: tenth(report.start_up.as_secs_f64() * 1e3),
            instruments: Instruments::of(&report.found),
        }
    }
}
