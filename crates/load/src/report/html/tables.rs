//! The figures and tables of a report.

use super::chart::number;
use super::escape;
use crate::report::{Report, Results, Summary};
use std::fmt::Write;

impl Report {
    /// Writes the few numbers that everybody looks for.
    pub(super) fn write_figures(&self, html: &mut String) -> std::fmt::Result {
        let total: f64 = self.operations.values().map(|results| results.per_second).sum();
        let worst = self.operations.values().map(|results| results.latency_us.p99).max();
        let (failed, wrong) = (self.failures(), self.wrong_answers());
        let class = |bad: bool| if bad { "bad" } else { "good" };
        writeln!(
            html,
            "<div class=\"figures\"><div><b>{}</b>operations a second</div>\
             <div><b>{} ms</b>p99 of the slowest kind</div>\
             <div><b class=\"{}\">{failed}</b>failed operations</div>\
             <div><b class=\"{}\">{wrong}</b>wrong answers in {} verified values</div></div>",
            number(total),
            number(worst.unwrap_or(0) as f64 / 1e3),
            class(failed > 0),
            class(wrong > 0),
            number(self.verification.values as f64)
        )
    }

    /// Writes whether the client was the bottleneck.
    pub(super) fn write_statements(&self, html: &mut String) -> std::fmt::Result {
        writeln!(html, "<section class=\"card\"><h2>What limited the run</h2>")?;
        for process in &self.processes {
            let name = match process.part.of {
                1 => String::new(),
                _ => format!("Process {}: ", process.part),
            };
            writeln!(html, "<p>{name}{}</p>", escape(&process.statement))?;
        }
        writeln!(html, "</section>")
    }

    pub(super) fn write_tables(&self, html: &mut String) -> std::fmt::Result {
        self.write_operations(html)?;
        self.write_errors(html)?;
        self.write_wrong(html)?;
        self.write_open_loop(html)?;
        let settings =
            self.settings.iter().map(|(name, value)| (format!("--{name}"), value.clone()));
        let data = [
            ("data set".to_owned(), self.data.clone()),
            ("seed".to_owned(), self.seed.to_string()),
        ];
        let fill = self.fill.as_ref().map(|fill| {
            (
                "written before the run".to_owned(),
                format!("{} rows in {:.1} s", fill.rows, fill.seconds),
            )
        });
        words(html, "Settings", data.into_iter().chain(fill).chain(settings))?;
        for process in &self.processes {
            let machine = &process.machine;
            let unknown = || "unknown".to_owned();
            let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
            let busy = |share: f64| format!("{:.0} %", share * 100.0);
            let rows = [
                ("system", machine.system.clone()),
                ("processor", machine.processor.clone().unwrap_or_else(unknown)),
                ("cores", machine.cores.to_string()),
                ("memory", machine.memory_bytes.map_or_else(unknown, gib)),
                ("CPU of the client", format!("{:.1} s", process.cpu.client_seconds)),
                ("CPU of the client by its cores", busy(process.cpu_share)),
                ("whole machine busy", process.cpu.machine_busy.map_or_else(unknown, busy)),
            ];
            let title = format!("Machine of the client, process {}", process.part);
            words(html, &title, rows.map(|(name, value)| (name.to_owned(), value)).into_iter())?;
        }
        Ok(())
    }

    fn write_operations(&self, html: &mut String) -> std::fmt::Result {
        writeln!(
            html,
            "<section class=\"card\"><h2>Operations</h2><div class=\"scroll\"><table><tr><th>operation\
             </th><th>count</th><th>ops/s</th><th>rows</th><th>failed</th><th>unanswered</th>{}</tr>",
            LATENCIES.map(|name| format!("<th>{name} ms</th>")).concat()
        )?;
        for (name, results) in &self.operations {
            let Results { count, per_second, unanswered, rows, latency_us, .. } = results;
            writeln!(
                html,
                "<tr><td>{}</td><td>{count}</td><td>{per_second:.0}</td><td>{rows}</td><td>{}</td><td>{unanswered}</td>{}</tr>",
                escape(name),
                results.failed(),
                latencies(latency_us)
            )?;
        }
        writeln!(html, "</table></div>")?;
        if self.operations.values().any(|results| results.unanswered > 0) {
            let text = "Operations without an answer (timed out, left out or not begun) are in the \
                        percentiles with the time that they waited.";
            writeln!(html, "<p class=\"soft\">{text}</p>")?;
        }
        writeln!(html, "</section>")
    }

    fn write_errors(&self, html: &mut String) -> std::fmt::Result {
        let errors = self.operations.iter().flat_map(|(name, results)| {
            let classes = results.errors.iter();
            classes.map(move |(class, count)| (format!("{name}: {class}"), count.to_string()))
        });
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() {
            return Ok(());
        }
        let messages = self.messages.iter();
        let messages = messages.map(|(class, message)| (format!("first {class}"), message.clone()));
        words(html, "Failed operations by class", errors.into_iter().chain(messages))
    }

    fn write_wrong(&self, html: &mut String) -> std::fmt::Result {
        if self.verification.examples.is_empty() {
            return Ok(());
        }
        writeln!(
            html,
            "<section class=\"card\"><h2 class=\"bad\">Wrong answers</h2><div class=\"scroll\">\
             <table class=\"words\"><tr><th>problem</th><th>row</th><th>detail</th></tr>"
        )?;
        for example in &self.verification.examples {
            writeln!(
                html,
                "<tr><td>{}</td><td><code>{}</code></td><td>{}</td></tr>",
                escape(&example.problem),
                escape(&example.row),
                escape(&example.detail)
            )?;
        }
        writeln!(html, "</table></div></section>")
    }

    fn write_open_loop(&self, html: &mut String) -> std::fmt::Result {
        let Some(open) = &self.open_loop else { return Ok(()) };
        writeln!(
            html,
            "<section class=\"card\"><h2>Open loop</h2><p>{} operations a second were wanted: {} became \
             due, {} were left out because the backlog was full, {} were not begun at the end. The \
             backlog was up to {}.</p><div class=\"scroll\"><table><tr><th>delay</th>{}</tr>\
             <tr><td>from due to begun</td>{}</tr><tr><td>by the client's pacer</td>{}</tr></table></div>\
             </section>",
            number(open.rate),
            open.due,
            open.left_out,
            open.not_begun,
            open.backlog_max,
            LATENCIES.map(|name| format!("<th>{name} ms</th>")).concat(),
            latencies(&open.delay_us),
            latencies(&open.pacer_us)
        )
    }
}

const LATENCIES: [&str; 7] = ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

/// Returns table cells in the order of [`LATENCIES`].
fn latencies(us: &Summary) -> String {
    let whole = [us.p50, us.p90, us.p99, us.p999, us.p9999, us.max].map(|micros| micros as f64);
    let cell = |micros: f64| format!("<td>{:.3}</td>", micros / 1e3);
    cell(us.mean) + &whole.map(cell).concat()
}

/// Writes a table of names and texts.
fn words(
    html: &mut String,
    title: &str,
    rows: impl Iterator<Item = (String, String)>,
) -> std::fmt::Result {
    let title = escape(title);
    writeln!(html, "<section class=\"card\"><h2>{title}</h2><table class=\"words\">")?;
    for (name, text) in rows {
        let (name, text) = (escape(&name), escape(&text));
        writeln!(html, "<tr><td class=\"soft\">{name}</td><td>{text}</td></tr>")?;
    }
    writeln!(html, "</table></section>")
}
