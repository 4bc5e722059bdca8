//! A flame graph: one self-contained SVG, in which a wide box is a function with much CPU time, or that
//! allocated much memory.
//!
//! Above each function are the functions that it called. A CPU profile has the names of threads at the
//! bottom. A pointer over a box shows its whole name and its part of the whole. There is no script in it.

use crate::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1_200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 46.0;
/// Width of a letter, about.
const LETTER: f64 = 6.6;
/// Boxes that are narrower are not drawn.
const BOX_WIDTH_MIN: f64 = 0.5;

/// A function, and the functions that it called.
#[derive(Debug, Default)]
pub(crate) struct Node {
    count: u64,
    called: BTreeMap<String, Node>,
}

impl Node {
    /// Returns what was counted of the node and what it called.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Counts samples or bytes of a stack, whose names begin with the outermost.
    pub(crate) fn add(&mut self, names: impl Iterator<Item = String>, count: u64) {
        self.count += count;
        let mut node = self;
        for name in names {
            node = node.called.entry(name).or_default();
            node.count += count;
        }
    }

    /// Returns the number of rows that are drawn of this node and what it called.
    fn rows(&self, scale: f64) -> usize {
        let wide = self.called.values().filter(|node| node.count as f64 * scale >= BOX_WIDTH_MIN);
        1 + wide.map(|node| node.rows(scale)).max().unwrap_or(0)
    }
}

impl Profile {
    /// Returns the profile as a flame graph in SVG.
    pub fn to_svg(&self) -> String {
        let mut root = Node::default();
        for (stack, count) in self.stacks.counts() {
            let functions = stack.frames.iter().rev();
            let names = functions.flat_map(|at| self.symbols.names(*at).into_iter().rev());
            root.add(std::iter::once(stack.thread.to_string()).chain(names), count);
        }
        let seconds = self.interval.as_secs_f64() * root.count as f64;
        let length = self.length.as_secs_f64();
        let about = format!("{seconds:.2} s of CPU time in {length:.2} s");
        draw(&root, &Legend { title: "CPU profile", about: &about, amount: samples })
    }
}

/// The words of a drawing.
pub(crate) struct Legend<'a> {
    pub(crate) title: &'a str,
    /// A line below the title.
    pub(crate) about: &'a str,
    /// Returns a count with its unit.
    pub(crate) amount: fn(u64) -> String,
}

/// Returns a number of samples as a text.
pub(crate) fn samples(count: u64) -> String {
    format!("{count} samples")
}

/// Returns a number of bytes as a text.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..0x10_0000 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / (1 << 20) as f64),
    }
}

/// Returns the drawing of a tree.
pub(crate) fn draw(root: &Node, legend: &Legend<'_>) -> String {
    let scale = if root.count == 0 { 0.0 } else { WIDTH / root.count as f64 };
    let height = HEAD + ROW * root.rows(scale) as f64 + MARGIN;
    let width = WIDTH + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"15\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"37\">{}</text>\n",
        escaped(legend.title),
        escaped(legend.about)
    );
    let (total, amount, bottom) = (root.count, legend.amount, height - MARGIN);
    let mut pen = Pen { svg: &mut svg, total, amount, scale, bottom };
    pen.node("all", root, MARGIN, 0);
    svg.push_str("</svg>\n");
    svg
}

struct Pen<'a> {
    svg: &'a mut String,
    total: u64,
    amount: fn(u64) -> String,
    scale: f64,
    bottom: f64,
}

impl Pen<'_> {
    /// Draws a node and what it called, as a column from `x` on.
    fn node(&mut self, name: &str, node: &Node, mut x: f64, row: usize) {
        let width = node.count as f64 * self.scale;
        if width < BOX_WIDTH_MIN {
            return;
        }
        let y = self.bottom - ROW * (row + 1) as f64;
        let part = 100.0 * node.count as f64 / self.total as f64;
        let (full, short) = (escaped(name), escaped(&cut(name, width)));
        let (colour, inner) = (colour(name), ROW - 1.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.svg,
            "<g><title>{full}: {part:.2} %, {}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{inner}\" rx=\"1\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{short}</text></g>",
            (self.amount)(node.count),
            x + 3.0,
            y + 12.0,
        );
        for (name, called) in &node.called {
            self.node(name, called, x, row + 1);
            x += called.count as f64 * self.scale;
        }
    }
}

/// Returns as much of a name as a box has room for.
fn cut(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    match name.chars().count() {
        letters if letters <= room => name.to_owned(),
        _ if room < 3 => String::new(),
        _ => name.chars().take(room - 2).chain("..".chars()).collect(),
    }
}

/// Returns a warm colour that is the same for the same name.
fn colour(name: &str) -> String {
    let mix = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
    let hash = name.bytes().fold(7, mix);
    format!("hsl({} {}% 68%)", 12 + hash % 42, 75 + (hash >> 8) % 20)
}

/// Returns a text as XML has it. Characters that XML cannot have become question marks.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('?'),
            _ if letter.is_control() => safe.push('?'),
            _ => safe.push(letter),
        }
    }
    safe
}
