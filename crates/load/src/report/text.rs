//! The summary of a report for terminals.

use super::Report;
use std::fmt::Write;

impl Report {
    /// Returns the summary: a line for each kind of operation, errors, verification, and the client.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        self.write_summary(&mut text).expect("a string takes all text");
        text
    }

    fn write_summary(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{} of data set {} (seed {}): {:.1} s measured, ended by {}",
            self.workload.escape_debug(),
            self.data.escape_debug(),
            self.seed,
            self.seconds,
            self.ended.escape_debug()
        )?;
        if let Some(fill) = &self.fill {
            writeln!(text, "  wrote {} rows in {:.1} s before the run", fill.rows, fill.seconds)?;
        }
        writeln!(
            text,
            "  {:<18} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "operation",
            "count",
            "ops/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "mean ms",
            "failed"
        )?;
        for (name, results) in &self.operations {
            let us = &results.latency_us;
            let ms = |micros: u64| format!("{:.3}", micros as f64 / 1e3);
            writeln!(
                text,
                "  {:<18} {:>10} {:>10.0} {:>9} {:>9} {:>9} {:>9} {:>9.3} {:>8}",
                name.escape_debug().to_string(),
                results.count,
                results.per_second,
                ms(us.p50),
                ms(us.p99),
                ms(us.p999),
                ms(us.max),
                us.mean / 1e3,
                results.failed()
            )?;
        }
        self.write_troubles(text)?;
        for process in &self.processes {
            let name = match process.part.of {
                1 => String::new(),
                _ => format!("process {}: ", process.part),
            };
            writeln!(text, "  {name}{}", process.statement.escape_debug())?;
        }
        Ok(())
    }

    fn write_troubles(&self, text: &mut String) -> std::fmt::Result {
        for (name, results) in self.operations.iter().filter(|(_, results)| results.unanswered > 0)
        {
            writeln!(
                text,
                "  {} x {} without an answer, in the percentiles with the time that they waited",
                results.unanswered,
                name.escape_debug()
            )?;
        }
        for (name, results) in &self.operations {
            for (class, count) in &results.errors {
                let (name, class) = (name.escape_debug(), class.escape_debug());
                writeln!(text, "  {count} x {name} failed: {class}")?;
            }
        }
        if let Some(open) = &self.open_loop {
            writeln!(
                text,
                "  open loop at {} a second: {} due, {} left out, {} not begun at the end, backlog up \
                 to {}; begun late by p50 {:.3} ms, p99 {:.3} ms",
                open.rate,
                open.due,
                open.left_out,
                open.not_begun,
                open.backlog_max,
                open.delay_us.p50 as f64 / 1e3,
                open.delay_us.p99 as f64 / 1e3
            )?;
        }
        let (values, wrong) = (self.verification.values, self.wrong_answers());
        if wrong == 0 {
            return writeln!(text, "  verified {values} values: all right");
        }
        writeln!(text, "  verified {values} values: {wrong} WRONG ANSWERS")?;
        for (problem, count) in &self.verification.wrong {
            writeln!(text, "    {count} x {}", problem.escape_debug())?;
        }
        Ok(())
    }
}
