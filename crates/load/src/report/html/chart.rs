//! Line charts as SVG. A chart is drawn for a width of 400 pixels, so that it is readable on a phone,
//! and scales up. Lines differ by dashes as well as by colour.

use super::escape;
use std::fmt::Write;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
/// Bounds of the values that are drawn; a report from elsewhere may have any.
const GREATEST: f64 = 1e15;
const LEAST: f64 = 1e-6;
/// Colours of the style sheet.
const COLOURS: usize = 7;
/// Patterns of lines, from one to the next.
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "9 3 2 3"];

/// Scale of the vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From 0 on, in equal steps.
    Linear,
    Logarithmic,
}

/// A named line through points.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of some lines over one horizontal axis.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x_label: &'static str,
    pub(super) y_label: &'static str,
    pub(super) scale: Scale,
    /// Marks of the horizontal axis; by default equal steps.
    pub(super) x_marks: Option<Vec<(f64, String)>>,
    /// End of the shaded part at the left.
    pub(super) shaded: f64,
    pub(super) lines: Vec<Line>,
}

/// Translation of values into places.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    scale: Scale,
}

impl Chart {
    /// Returns the chart with its title and legend. Points that cannot be drawn are left out.
    pub(super) fn html(mut self) -> String {
        let y_min = if self.scale == Scale::Logarithmic { LEAST } else { -GREATEST };
        let can_be_drawn = |(x, y): &(f64, f64)| {
            (-GREATEST..=GREATEST).contains(x) && (y_min..=GREATEST).contains(y)
        };
        self.lines.iter_mut().for_each(|line| line.points.retain(can_be_drawn));
        let mut html = String::new();
        self.write(&mut html).expect("a string takes all text");
        html
    }

    fn write(&self, html: &mut String) -> std::fmt::Result {
        let title = escape(&self.title);
        writeln!(
            html,
            "<section class=\"card\"><h2>{title} <small>{}</small></h2>",
            escape(self.y_label)
        )?;
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return writeln!(html, "<p class=\"soft\">Nothing was measured.</p></section>");
        }
        let frame = Frame::around(self);
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let label = format!(
            "{}: {} by {}. Lines: {}",
            self.title,
            self.y_label,
            self.x_label,
            names.join(", ")
        );
        writeln!(
            html,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&label)
        )?;
        self.write_axes(html, &frame)?;
        for (number, line) in self.lines.iter().enumerate() {
            write_line(html, number, line, &frame)?;
        }
        writeln!(html, "</svg><ul class=\"legend\">")?;
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(
                html,
                "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"curve\" {} \
                 d=\"M1 4H23\"/></svg>{}</li>",
                stroke(number),
                escape(&line.name)
            )?;
        }
        writeln!(html, "</ul></section>")
    }

    fn write_axes(&self, html: &mut String, frame: &Frame) -> std::fmt::Result {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        if self.shaded > frame.x.0 {
            let width = (frame.left(self.shaded.min(frame.x.1)) - LEFT).max(0.0);
            let height = bottom - TOP;
            writeln!(
                html,
                "<rect class=\"shade\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{width:.1}\" \
                 height=\"{height}\"/>"
            )?;
        }
        for (value, text) in frame.y_marks() {
            let y = frame.top(value);
            writeln!(
                html,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{text}</text>",
                LEFT - 5.0,
                y + 4.0
            )?;
        }
        let marks = self.x_marks.clone().unwrap_or_else(|| linear_marks(frame.x, 6));
        for (value, text) in marks {
            if value < frame.x.0 || value > frame.x.1 {
                continue;
            }
            let x = frame.left(value);
            writeln!(
                html,
                "<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/><text x=\"{x:.1}\" y=\"{}\" \
                 text-anchor=\"middle\">{}</text>",
                bottom + 15.0,
                escape(&text)
            )?;
        }
        let middle = (LEFT + right) / 2.0;
        writeln!(
            html,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/><text x=\"{middle}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            HEIGHT - 4.0,
            escape(self.x_label)
        )
    }
}

fn stroke(number: usize) -> String {
    let (colour, dash) = (number % COLOURS, DASHES[number % DASHES.len()]);
    format!("stroke=\"var(--c{colour})\" stroke-dasharray=\"{dash}\"")
}

fn write_line(html: &mut String, number: usize, line: &Line, frame: &Frame) -> std::fmt::Result {
    let mut path = String::new();
    for (at, (x, y)) in line.points.iter().enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        write!(path, "{command}{:.1} {:.1}", frame.left(*x), frame.top(*y))?;
    }
    if let [(x, y)] = line.points[..] {
        // A single point shows as a dot.
        write!(path, "L{:.1} {:.1}", frame.left(x) + 0.1, frame.top(y))?;
    }
    writeln!(
        html,
        "<path class=\"curve\" {} d=\"{path}\"><title>{}</title></path>",
        stroke(number),
        escape(&line.name)
    )
}

impl Frame {
    /// Returns the frame around all points of a chart, of which there is at least one.
    fn around(chart: &Chart) -> Self {
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let (left, right) = range(&mut points().map(|(x, _)| *x));
        let x = (left.min(0.0), right);
        let (low, high) = range(&mut points().map(|(_, y)| *y));
        let y = match chart.scale {
            Scale::Linear => (0.0, if high > 0.0 { high * 1.08 } else { 1.0 }),
            Scale::Logarithmic => {
                let (low, high) = (low.log10().floor(), high.log10().ceil());
                (low, if high > low { high } else { low + 1.0 })
            }
        };
        let x = if x.1 > x.0 { x } else { (x.0, x.0 + 1.0) };
        Self { x, y, scale: chart.scale }
    }

    fn left(&self, x: f64) -> f64 {
        LEFT + (x - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, y: f64) -> f64 {
        let y = if self.scale == Scale::Logarithmic { y.log10() } else { y };
        let share = (y - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }

    fn y_marks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => linear_marks(self.y, 5),
            Scale::Logarithmic => {
                // Between few powers of ten there is room for two more lines.
                let few = self.y.1 - self.y.0 <= 2.0;
                let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (self.y.0 as i32..=self.y.1 as i32).map(|power| 10f64.powi(power));
                let values = powers.flat_map(|power| steps.iter().map(move |step| step * power));
                let inside = values.filter(|value| value.log10() <= self.y.1 + 1e-9);
                inside.map(|value| (value, number(value))).collect()
            }
        }
    }
}

/// Returns about `count` round values of a range.
fn linear_marks((low, high): (f64, f64), count: usize) -> Vec<(f64, String)> {
    let raw = (high - low) / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= raw).unwrap_or(10.0);
    let step = step * power;
    let first = (low / step).ceil();
    let marks = (0..=count * 2).map(|mark| (first + mark as f64) * step);
    marks.take_while(|value| *value <= high).map(|value| (value, number(value))).collect()
}

/// Returns a short text for a number.
pub(super) fn number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        1e12.. => (value / 1e12, "T"),
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, points: Vec<(f64, f64)>) -> String {
        let line = Line { name: "<a>&\"".to_owned(), points };
        let chart = Chart {
            title: "<t>".to_owned(),
            x_label: "seconds",
            y_label: "ms",
            scale,
            x_marks: None,
            shaded: 2.0,
            lines: vec![line],
        };
        chart.html()
    }

    #[test]
    fn values_become_places() {
        let html = chart(Scale::Linear, vec![(0.0, 0.0), (10.0, 100.0)]);
        assert!(html.contains("d=\"M48.0 196.0L390.0 23.8\""), "{html}");
        assert!(html.contains("width=\"68.4\""), "the shaded part: {html}");
        assert!(html.contains("&lt;a&gt;&amp;&quot;") && !html.contains("<a>"), "{html}");
        let html = chart(Scale::Logarithmic, vec![(0.0, 1.0), (1.0, 10.0), (2.0, 100.0)]);
        assert!(html.contains("d=\"M48.0 196.0L219.0 103.0L390.0 10.0\""), "{html}");
    }

    #[test]
    fn impossible_values_never_reach_the_page() {
        for points in [
            vec![],
            vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)],
            vec![(1.0, 0.0)],
            vec![(1.0, -5.0), (1.0, -7.0)],
            vec![(1.0, 1e300), (2.0, 1e-300)],
            vec![(-1e308, 1.0), (1e308, 1.0)],
        ] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let html = chart(scale, points.clone());
                assert!(!html.contains("NaN") && !html.contains("inf"), "{points:?}: {html}");
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (3.0, "3"),
            (100.0, "100"),
            (1500.0, "1500"),
            (20_000.0, "20k"),
            (1.25e6, "1.25M"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
