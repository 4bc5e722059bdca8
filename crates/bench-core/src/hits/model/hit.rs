//! A hit: one page that a visitor of a visit sees, and the page before it.

use super::draw::{chance, ranked};
use super::phrase::append_latin_phrase;
use super::site::{HOME, Site};
use super::visit::{Source, Visit};
use super::visitor::Visitor;
use super::words::{Script, Vocabulary};
use crate::random::SplitMix64;
use std::fmt::Write as _;

/// The code of the search engine Google.
const GOOGLE: i16 = 3;

/// The page before a hit.
#[derive(Debug, Clone)]
enum Referer {
    None,
    /// A page of a site.
    Page(Site, u64),
    /// The result page of a search engine.
    Results,
    /// A page of a social network.
    Social,
}

/// The end of an address, behind the address of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    /// A number of the session, so the address is seen once.
    Session,
    /// The tags of a campaign of Google.
    Campaign,
    /// The page was translated by a service of Google.
    Translated,
}

/// One row before it has its columns.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) visit: Visit,
    pub(crate) visitor: Visitor,
    pub(crate) site: Site,
    pub(crate) page: u64,
    /// True if the visitor came from outside, false if from a page of the same site.
    pub(crate) entry: bool,
    pub(crate) refresh: bool,
    /// True if the hit tells of a click on a link to another site.
    pub(crate) link: bool,
    referer: Referer,
    suffix: Suffix,
    session: u64,
    /// Draws of columns that depend on nothing else.
    pub(crate) random: SplitMix64,
}

impl Hit {
    /// Draws a hit of a visit.
    pub(super) fn of(visit: Visit, mut random: SplitMix64) -> Self {
        let draws = &mut random;
        let site = Site::of(visit.counter);
        let page = site.draw_page(draws);
        let entry = chance(draws, 4_000);
        let referer = if entry { outer(&visit, draws) } else { inner(&site, draws) };
        let (refresh, link) = (chance(draws, 1_000), chance(draws, 550));
        let suffix = suffix(entry && visit.engine == GOOGLE, page, draws);
        let (visitor, session) = (Visitor::of(visit.visitor), draws.next_u64());
        Self { visit, visitor, site, page, entry, refresh, link, referer, suffix, session, random }
    }

    /// Returns the code of the way by which the visitor came to the page.
    pub(crate) fn source_code(&self) -> i16 {
        if !self.entry {
            return -1;
        }
        match self.visit.source {
            Source::Direct => 0,
            Source::Link => 1,
            Source::Search => 2,
            Source::Ad => 3,
            Source::Saved => 6,
            Source::Social => 8,
        }
    }

    /// Returns the counter of the site that the page before belongs to, if it is a page of a site.
    pub(crate) fn referer_counter(&self) -> Option<u32> {
        match &self.referer {
            Referer::Page(site, _) => Some(site.counter),
            Referer::None | Referer::Results | Referer::Social => None,
        }
    }

    /// Returns true if the visitor came from a search engine.
    pub(crate) fn searched(&self) -> bool {
        self.entry && self.visit.source == Source::Search
    }

    /// Returns true if the visitor came by a campaign of Google.
    pub(crate) fn campaign(&self) -> bool {
        self.suffix == Suffix::Campaign
    }

    /// Appends the address of the page.
    pub(crate) fn append_url(&self, words: &Vocabulary, out: &mut String) {
        if self.suffix == Suffix::Translated {
            out.push_str("http://translate.google.example/translate?sl=ru&tl=en&u=");
        }
        let start = out.len();
        self.site.append_url(words, self.page, out);
        let separator = if out[start..].contains('?') { '&' } else { '?' };
        let _ = match self.suffix {
            Suffix::None | Suffix::Translated => Ok(()),
            Suffix::Session => write!(out, "{separator}_sid={:012x}", self.session >> 16),
            Suffix::Campaign => write!(out, "{separator}utm_source=google&utm_medium=cpc"),
        };
        if self.link {
            let _ = write!(out, "#to=http://out{}.example/", self.session % 50_000);
        }
    }

    /// Appends the address of the page before; nothing if the visitor came from no page.
    pub(crate) fn append_referer(&self, words: &Vocabulary, out: &mut String) {
        match &self.referer {
            Referer::None => {}
            Referer::Page(site, page) => site.append_url(words, *page, out),
            Referer::Results => {
                out.push_str(match self.visit.engine {
                    2 => "http://poisk.example/yandsearch?lr=213&text=",
                    GOOGLE => "http://www.google.example/search?hl=ru&ie=UTF-8&q=",
                    4 => "http://go.mail.example/search?q=",
                    _ => "http://search.example/?query=",
                });
                append_latin_phrase(words, self.visit.phrase, out);
            }
            Referer::Social => {
                let _ = write!(out, "http://social.example/away.php?to={}", self.session >> 32);
            }
        }
    }

    /// Appends the parameters that the page gave to its counter.
    pub(crate) fn append_params(&self, words: &Vocabulary, out: &mut String) {
        let mut random = SplitMix64(self.session);
        out.push_str("{\"group\":\"");
        words.append_words((Script::Latin, ' '), 2, &mut random, out);
        let _ = write!(out, "\",\"number\":{}}}", random.below(1_000_000));
    }
}

fn outer(visit: &Visit, random: &mut SplitMix64) -> Referer {
    match visit.source {
        Source::Direct | Source::Saved => Referer::None,
        Source::Search => Referer::Results,
        Source::Social => Referer::Social,
        Source::Link | Source::Ad => {
            let site = Site::of(visit.from_counter);
            let page = site.draw_page(random);
            Referer::Page(site, page)
        }
    }
}

fn inner(site: &Site, random: &mut SplitMix64) -> Referer {
    match ranked(random, 100) {
        0..10 if chance(random, 2_600) => Referer::None,
        10..30 => Referer::Page(site.clone(), HOME),
        _ => Referer::Page(site.clone(), site.draw_page(random)),
    }
}

fn suffix(from_google: bool, page: u64, random: &mut SplitMix64) -> Suffix {
    let draw = random.below(10_000);
    if from_google && draw >= 9_500 {
        return Suffix::Campaign;
    }
    match draw {
        0..3 => Suffix::Translated,
        3..1_000 if page > super::site::FRONT => Suffix::Session,
        _ => Suffix::None,
    }
}
