//! The arms as a table.

use std::fmt;

use streamweir_integration::dsv4::{ArmReport, Exec, Matrix};

use crate::paint::Paint;

pub(super) struct Table<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) paint: Paint,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (matrix, paint) = (self.matrix, self.paint);
        let (config, load) = (&matrix.setup.config, &matrix.load);
        writeln!(
            f,
            "DeepSeek-V4 {} on {}: {} layers, {} index keys; {} sessions of {} rounds, {} tokens a round,\n\
             batches of up to {}. A session is wrong when its tokens or hidden states differ in any bit from\n\
             a run on one stream without graphs.\n",
            config.name,
            matrix.device,
            config.layers,
            matrix.setup.index_keys,
            load.sessions,
            load.rounds,
            load.steps,
            matrix.setup.capacity.rows,
        )?;
        let header = format!(
            "  {:<8} {:<7} {:<6} {:>9} {:>8} {:>12} {:>12} {:>10} {:>8}",
            "overlap",
            "pools",
            "exec",
            "wrong",
            "hazards",
            "reserved",
            "floor",
            "µs/step",
            "speedup"
        );
        writeln!(f, "{}", paint.bold(&header))?;
        let rule = "─".repeat(header.chars().count() - 2);
        writeln!(f, "  {}", paint.faint(rule))?;
        for report in &matrix.arms {
            self.row(f, report)?;
        }
        let graphs = matrix.arms.iter().filter(|arm| arm.arm.exec == Exec::Graph);
        if let Some(longest) = graphs.map(|arm| arm.start_up).max() {
            writeln!(
                f,
                "\n  All {} buckets of an arm are captured, proved and instantiated in {:.1} ms at the most.",
                matrix.setup.buckets.len(),
                longest.as_secs_f64() * 1e3,
            )?;
        }
        for report in &matrix.arms {
            let found = report.found.to_string();
            if !found.is_empty() {
                let (overlap, pools) = (report.arm.overlap.word(), report.arm.pools.word());
                let good = report.found.is_clean();
                let title = paint.judged(good, format!("overlap {overlap}, {pools} pools"));
                writeln!(f, "\n  {title}: {}", found.replace('\n', "\n  "))?;
            }
        }
        let found = matrix.arms.iter().find_map(|arm| arm.report.as_ref());
        if let Some(report) = found
            && let Some(hazard) = report.hazards.first()
        {
            let when = match matrix.arms.iter().any(|arm| arm.arm.exec == Exec::Graph) {
                true => "Before any replay",
                false => "After the runs",
            };
            writeln!(
                f,
                "\n{when} the verifier said of the shared pool, among {} others:\n\n{hazard}",
                report.hazards_total - 1
            )?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, report: &ArmReport) -> fmt::Result {
        let paint = self.paint;
        let (wrong, hazards) = (report.wrong_sessions, report.hazards);
        let time = match report.us_per_step {
            Some(us) => format!("{us:.1}"),
            None => "no clock".to_owned(),
        };
        let speedup = match self.matrix.speedup(report) {
            Some(ratio) => format!("{ratio:.2}x"),
            None => "-".to_owned(),
        };
        writeln!(
            f,
            "  {:<8} {:<7} {:<6} {:>9} {:>8} {:>12} {:>12} {time:>10} {speedup:>8}",
            report.arm.overlap.word(),
            report.arm.pools.word(),
            report.arm.exec.word(),
            paint.judged(wrong == 0, format!("{wrong} of {}", report.sessions)),
            paint.judged(hazards == 0, hazards),
            report.reserved,
            report.floor,
        )
    }
}
