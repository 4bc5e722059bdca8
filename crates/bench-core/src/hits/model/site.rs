//! The sites that the counters stand on, with their pages. A page is a number; its address and title
//! are functions of site and page, so no table of them is kept.
//!
//! Page 0 is the home page, page 1 the front page of a section that is shown most often. The names of
//! sites end in `.example`, so no real site is named.

use super::draw::{chance, generator, ranked};
use super::words::{Script, Vocabulary};
use crate::random::SplitMix64;
use std::fmt::Write as _;

const KIND_SITE: u64 = 0x7369_7465;
const KIND_PAGE: u64 = 0x7061_6765;

/// The page at the root of a site.
pub(super) const HOME: u64 = 0;

/// The page of a site that is shown most often.
pub(super) const FRONT: u64 = 1;

/// The form of the addresses of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Words in folders, as in `section/word/some-words-123.html`.
    Words,
    /// Words in a query, as in `index.php?topic=word&id=123`.
    Query,
    /// Words as folders, as in `word/word/123/?page=2`.
    Folders,
}

/// A site, by the number of its counter.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) counter: u32,
    /// True if the pages are in UTF-8; else they are in windows-1251.
    pub(crate) utf8: bool,
    names: SplitMix64,
    style: Style,
    pages: u64,
}

impl Site {
    /// Returns the site of a counter.
    pub(crate) fn of(counter: u32) -> Self {
        let mut random = generator(KIND_SITE, counter.into());
        let style = [Style::Words, Style::Query, Style::Folders][random.below(3) as usize];
        let (pages, utf8) = (40 << random.below(10), chance(&mut random, 6_500));
        Self { counter, utf8, names: random, style, pages }
    }

    /// Draws a page of the site.
    pub(super) fn draw_page(&self, random: &mut SplitMix64) -> u64 {
        match random.below(100) {
            0..8 => HOME,
            8..35 => FRONT,
            _ => 2 + ranked(random, self.pages),
        }
    }

    /// Appends the address of the home page, `http://` and a slash at the end included.
    fn append_root(&self, words: &Vocabulary, out: &mut String) {
        let mut names = self.names.clone();
        out.push_str(if chance(&mut names, 4_000) { "http://www." } else { "http://" });
        let count = 1 + names.below(2);
        words.append_words((Script::Latin, '-'), count, &mut names, out);
        // The number tells sites with the same words apart.
        let _ = write!(out, "{}.example/", self.counter % 1_000);
    }

    /// Appends the address of a page.
    pub(crate) fn append_url(&self, words: &Vocabulary, page: u64, out: &mut String) {
        self.append_root(words, out);
        if page == HOME {
            return;
        }
        let mut random = self.page(page);
        let count = 2 + random.below(5);
        let mut append = |separator, count, out: &mut String| {
            words.append_words((Script::Latin, separator), count, &mut random, out);
        };
        let _ = match self.style {
            Style::Words => {
                append('/', 2, out);
                out.push('/');
                append('-', count, out);
                write!(out, "-{page}.html")
            }
            Style::Query => {
                out.push_str("index.php?topic=");
                append('_', count, out);
                out.push_str("&section=");
                append('_', 1, out);
                write!(out, "&id={page}&lang=ru")
            }
            Style::Folders => {
                append('/', count, out);
                write!(out, "/{page}/?page={}&sort=date&view=list", page % 20)
            }
        };
        if chance(&mut self.page(page), 15) {
            out.push_str("#from=google");
        }
    }

    /// Appends the title of a page, which may be empty.
    pub(crate) fn append_title(&self, words: &Vocabulary, page: u64, out: &mut String) {
        let mut random = generator(KIND_PAGE, !self.page_number(page));
        let kind = random.below(1_000);
        if kind < 50 && page > FRONT {
            return;
        }
        out.push_str(match kind {
            50..58 => "Google Chrome: ",
            58..62 => "C:\\Windows\\",
            62 => "\t",
            63 => "1 < 2\n",
            64..70 => "\"100%\" ",
            _ => "",
        });
        let script = if kind >= 900 { Script::Latin } else { Script::Cyrillic };
        let count = 3 + random.below(5) + random.below(5);
        words.append_words((script, ' '), count, &mut random, out);
        out.push_str(if kind.is_multiple_of(2) { " | " } else { " - " });
        words.append_words((Script::Cyrillic, ' '), 1 + kind % 3, &mut self.names.clone(), out);
    }

    fn page(&self, page: u64) -> SplitMix64 {
        generator(KIND_PAGE, self.page_number(page))
    }

    fn page_number(&self, page: u64) -> u64 {
        (u64::from(self.counter) << 32) | page
    }
}
