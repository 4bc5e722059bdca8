//! The report as one page in HTML: no scripts, no other files, light and dark. All text of a report is
//! escaped, because a report may come from anywhere, and the page forbids itself to load anything.

mod chart;
mod plots;
mod tables;

use super::Report;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Returns text as it must stand in HTML. Control characters are shown as their escapes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Characters that reorder text or have no picture would hide what a key is.
            c if c.is_control()
                || ('\u{200b}'..='\u{202e}').contains(&c)
                || ('\u{2060}'..='\u{206f}').contains(&c) =>
            {
                escaped.extend(c.escape_unicode());
            }
            c => escaped.push(c),
        }
    }
    escaped
}

impl Report {
    /// Returns the report as a page in HTML.
    pub(crate) fn html(&self) -> String {
        let mut html = String::new();
        self.write_page(&mut html).expect("a string takes all text");
        html
    }

    fn write_page(&self, html: &mut String) -> std::fmt::Result {
        let title = escape(&self.title);
        writeln!(
            html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
             <body><main><h1>{title}</h1>"
        )?;
        let processes = match self.processes.len() {
            1 => String::new(),
            count => format!(", {count} processes"),
        };
        writeln!(
            html,
            "<p class=\"soft\">{} on {}, {:.1} s measured after {:.1} s of warm-up, ended by {}{}. \
             Begun {}. {}.</p>",
            escape(&self.workload),
            self.settings.get("endpoint").map_or_else(String::new, |name| escape(name)),
            self.seconds,
            self.warm_up_seconds,
            escape(&self.ended),
            processes,
            escape(&self.started),
            escape(&self.program)
        )?;
        self.write_figures(html)?;
        self.write_statements(html)?;
        self.write_plots(html)?;
        self.write_tables(html)?;
        writeln!(html, "</main></body></html>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_shown_and_not_run() {
        let shown = escape("<script>\"x\"&'y'\n\u{202e}z\0é");
        let want = "&lt;script&gt;&quot;x&quot;&amp;&#39;y&#39;\\u{a}\\u{202e}z\\u{0}é";
        assert_eq!(shown, want);
    }
}
