//! Regular expressions as Bigtable means them: the RE2 dialect over raw bytes, matching the whole
//! text. `re2.rs` says what the dialect is and translates it.
//!
//! Most patterns of real filters are a literal, a few of them, or a literal and then anything.
//! They become comparisons, and tell the engine what to read. The others become automata, whose
//! states are made as texts need them.
//!
//! Invariants:
//! 1. All automata of a filter together have no more than [`PROGRAMS_BYTES_MAX`], and their caches of
//!    states about [`CACHES_BYTES_MAX`]: [`Patterns`] keeps the account.
//! 2. No automaton is larger than [`PATTERN_BYTES_MAX`].

use super::re2::{self, GROUPS_MAX, REPEAT_MAX};
use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::shape::Shape;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use std::fmt;

/// Most memory of one compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Most memory of all compiled patterns of a filter.
const PROGRAMS_BYTES_MAX: usize = 4 << 20;
/// Memory of all their caches of states.
const CACHES_BYTES_MAX: usize = 4 << 20;
/// Most memory of one cache.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of a translated pattern.
const NEST_MAX: u32 = 2 * GROUPS_MAX as u32;
/// A pattern without any of these is a literal.
const METACHARACTERS: &[u8] = br"\.+*?()|[]{}^$";

/// The account of the automata that one filter has.
#[derive(Debug)]
pub(crate) struct Patterns {
    /// Bytes that further automata may have.
    left: usize,
    cache_bytes: usize,
    automata: usize,
}

impl Patterns {
    /// Returns an account for at most `count` patterns.
    pub(crate) fn new(count: usize) -> Self {
        let cache_bytes = (CACHES_BYTES_MAX / count.max(1)).min(CACHE_BYTES_MAX);
        Self { left: PROGRAMS_BYTES_MAX, cache_bytes, automata: 0 }
    }

    /// Returns the number of automata so far.
    pub(crate) fn automata(&self) -> usize {
        self.automata
    }

    /// Compiles the automaton of `hir`; the error says which limit it is over.
    fn automaton(&mut self, hir: Hir, prefix: Vec<u8>) -> Result<Automaton, String> {
        let whole = Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
        let limit = self.left.min(PATTERN_BYTES_MAX);
        let config = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(limit));
        let built = NFA::compiler().configure(config).build_from_hir(&whole);
        let nfa = built.ok().filter(|nfa| nfa.memory_usage() <= limit).ok_or_else(|| {
            if limit == PATTERN_BYTES_MAX {
                format!("it needs more than {PATTERN_BYTES_MAX} bytes")
            } else {
                format!(
                    "the patterns of the filter need more than {PROGRAMS_BYTES_MAX} bytes together"
                )
            }
        })?;
        self.left -= nfa.memory_usage();
        let config = DFA::config().cache_capacity(self.cache_bytes).skip_cache_capacity_check(true);
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = dfa.map_err(|error| error.to_string())?;
        let at = self.automata;
        self.automata += 1;
        Ok(Automaton { dfa, prefix, at })
    }
}

/// A pattern as an automaton that reads texts byte by byte.
#[derive(Clone)]
pub(crate) struct Automaton {
    dfa: DFA,
    /// Every match starts with these bytes.
    prefix: Vec<u8>,
    /// The number of its cache of states.
    at: usize,
}

/// The states that the automata of a filter have come to, by number.
#[derive(Debug, Default)]
pub(crate) struct Caches(Vec<Option<Box<Cache>>>);

impl Caches {
    /// Returns empty caches of `automata`.
    pub(crate) fn new(automata: usize) -> Self {
        Self((0..automata).map(|_| None).collect())
    }
}

impl fmt::Debug for Automaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Automaton").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Automaton {
    fn matches(&self, text: &[u8], caches: &mut Caches) -> bool {
        if !text.starts_with(&self.prefix) {
            return false;
        }
        if caches.0.len() <= self.at {
            caches.0.resize_with(self.at + 1, || None);
        }
        let cache = caches.0[self.at].get_or_insert_with(|| Box::new(self.dfa.create_cache()));
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        // Without a byte that it quits at, and with a cache that is cleared when full, it has an
        // answer for every text.
        matches!(self.dfa.try_search_fwd(cache, &input), Ok(Some(_)))
    }
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    /// Every text.
    All,
    /// These texts, sorted; may be none.
    Exact(Vec<Vec<u8>>),
    /// Every text that starts so.
    Prefix(Vec<u8>),
    Regex(Box<Automaton>),
}

impl Matcher {
    /// Compiles `pattern`; `InvalidArgument` on `field` names the pattern if it cannot be.
    pub(crate) fn compile(
        field: &str,
        pattern: &[u8],
        shape: &Shape,
        patterns: &mut Patterns,
    ) -> Result<Self> {
        if is_literal(pattern) {
            return Ok(Self::Exact(vec![pattern.to_vec()]));
        }
        let refuse = |why: &dyn std::fmt::Display| {
            let shown = match std::str::from_utf8(pattern) {
                Ok(text) if !text.contains(char::is_control) => text.to_owned(),
                _ => pattern.escape_ascii().to_string(),
            };
            Error::invalid(field, format!("invalid RE2 pattern '{shown}': {why}"))
        };
        let translated = re2::translate(pattern).map_err(|why| refuse(&why))?;
        let hir = parse(&translated).map_err(|why| refuse(&why))?;
        if !repeats_fit(&hir, REPEAT_MAX) {
            return Err(refuse(&format!("repetitions in repetitions are over {REPEAT_MAX}")));
        }
        let (exact, prefix) = literals(&hir, shape);
        if let Some(exact) = exact {
            Mark::PatternExact.hit();
            return Ok(Self::Exact(exact));
        }
        if let Some(prefix) = open_prefix(&hir) {
            return Ok(if prefix.is_empty() { Self::All } else { Self::Prefix(prefix) });
        }
        let automaton = patterns.automaton(hir, prefix).map_err(|why| refuse(&why))?;
        Mark::PatternMatched.hit();
        Ok(Self::Regex(Box::new(automaton)))
    }

    /// Returns whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &[u8], caches: &mut Caches) -> bool {
        match self {
            Self::All => true,
            Self::Exact(texts) => texts.binary_search_by(|t| t.as_slice().cmp(text)).is_ok(),
            Self::Prefix(prefix) => text.starts_with(prefix),
            Self::Regex(automaton) => automaton.matches(text, caches),
        }
    }

    /// Returns bytes that every match starts with, if the matches are not known one by one.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        match self {
            Self::Prefix(prefix) => Some(prefix),
            Self::Regex(automaton) => Some(&automaton.prefix),
            Self::All | Self::Exact(_) => None,
        }
    }
}

/// Returns whether `pattern` matches itself and nothing else.
fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| METACHARACTERS.contains(byte))
}

/// Returns the work that it may be to compile `pattern`, in bytes of a pattern without counted
/// repetitions: no less than it is.
pub(crate) fn effort(pattern: &[u8]) -> usize {
    if is_literal(pattern) {
        return 0;
    }
    let counts = pattern.split(|byte| matches!(byte, b'{' | b',' | b'}')).filter_map(|part| {
        let digits = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        digits.then(|| std::str::from_utf8(part).ok()?.parse::<usize>().ok()).flatten()
    });
    counts.fold(pattern.len(), |all, count| all.saturating_mul(count.max(1)))
}

fn parse(translated: &str) -> Result<Hir, String> {
    regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .nest_limit(NEST_MAX)
        .build()
        .parse(translated)
        .map_err(|error| match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => "syntax error".to_owned(),
        })
}

/// Returns whether no counted repetitions, one in the other, come to more than `left` in all.
fn repeats_fit(hir: &Hir, left: u32) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let count = repetition.max.unwrap_or(repetition.min).max(1);
            left >= count && repeats_fit(&repetition.sub, left / count)
        }
        HirKind::Capture(capture) => repeats_fit(&capture.sub, left),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().all(|part| repeats_fit(part, left))
        }
        _ => true,
    }
}

/// All texts that match, if they are few; else the bytes that all of them start with.
fn literals(hir: &Hir, shape: &Shape) -> (Option<Vec<Vec<u8>>>, Vec<u8>) {
    let mut extractor = Extractor::new();
    extractor.limit_total(shape.exact_texts_max);
    extractor.limit_literal_len(shape.exact_text_bytes_max);
    let found = extractor.extract(hir);
    let Some(all) = found.literals() else { return (None, Vec::new()) };
    let anchored = !hir.properties().look_set().is_empty();
    if !anchored && all.iter().all(|literal| literal.is_exact()) {
        let mut texts: Vec<Vec<u8>> = all.iter().map(|l| l.as_bytes().to_vec()).collect();
        texts.sort();
        texts.dedup();
        return (Some(texts), Vec::new());
    }
    (None, found.longest_common_prefix().unwrap_or_default().to_vec())
}

/// The literal of a pattern that is a literal and then `\C*`.
fn open_prefix(hir: &Hir) -> Option<Vec<u8>> {
    let (literal, rest) = match hir.kind() {
        HirKind::Concat(parts) => match parts.as_slice() {
            [literal, rest] => match literal.kind() {
                HirKind::Literal(literal) => (literal.0.to_vec(), rest),
                _ => return None,
            },
            _ => return None,
        },
        _ => (Vec::new(), hir),
    };
    let HirKind::Repetition(repetition) = rest.kind() else { return None };
    let HirKind::Class(Class::Bytes(class)) = repetition.sub.kind() else { return None };
    let any = matches!(class.ranges(), [range] if range.start() == 0 && range.end() == 0xff);
    (any && repetition.min == 0 && repetition.max.is_none()).then_some(literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::bytes::RegexBuilder;

    fn compile(pattern: &[u8]) -> Result<Matcher> {
        Matcher::compile("value_regex_filter", pattern, &Shape::DEFAULT, &mut Patterns::new(1))
    }

    fn matcher(pattern: &[u8]) -> Matcher {
        compile(pattern).unwrap()
    }

    fn is_match(matcher: &Matcher, text: &[u8]) -> bool {
        matcher.matches(text, &mut Caches::default())
    }

    #[test]
    fn patterns_match_whole_texts_as_re2_does() {
        for (pattern, yes, no) in [
            (&b"abc"[..], &[&b"abc"[..]][..], &[&b"abcd"[..], b"xabc", b""][..]),
            (b"", &[b""], &[b"a"]),
            (b"a.c", &[b"abc", b"a\xffc"], &[b"a\nc", b"abbc"]),
            (b"a\\Cc", &[b"a\nc", b"a\xffc"], &[b"ac"]),
            (b"\\C*", &[b"", b"\n", b"\xff\x00"], &[]),
            (b".*", &[b"", b"abc\xff"], &[b"a\nb"]),
            (b"row\\C*", &[b"row", b"row\n1"], &[b"ro", b"xrow"]),
            (b"a|b", &[b"a", b"b"], &[b"ab", b"c"]),
            (b"\xc3\xa9", &[b"\xc3\xa9"], &[b"\xc3", b"\xe9"]),
            (b"[\xc3\xa9]", &[b"\xc3", b"\xa9"], &[b"\xc3\xa9"]),
            (b"\xff", &[b"\xff"], &[b"\xc3\xbf"]),
            (b"\\x{e9}", &[b"\xe9"], &[b"\xc3\xa9"]),
            (b"[^a]", &[b"b", b"\n", b"\xff"], &[b"a", b""]),
            (b"[a&&b]+", &[b"a&b"], &[b"c"]),
            (b"[[a]", &[b"[", b"a"], &[b"]"]),
            (b"[]a]", &[b"]", b"a"], &[b"b"]),
            (b"[a-]", &[b"-", b"a"], &[b"b"]),
            (b"[[:digit:]x]+", &[b"1x2"], &[b"y"]),
            (b"\\pN\\pL\\PL", &[b"1a1"], &[b"aaa"]),
            (b"\\p{Lu}", &[b"A", b"\xc9"], &[b"a"]),
            (b"\\s", &[b" ", b"\t"], &[b"\x0b"]),
            (b"\\Qa.b\\E.", &[b"a.bx"], &[b"axbx"]),
            (b"a{,2}", &[b"a{,2}"], &[b"aa"]),
            (b"a{2}", &[b"aa"], &[b"a"]),
            (b"\\101\\0", &[b"A\0"], &[b"A"]),
            (b"\\<", &[b"<"], &[b""]),
            (b"(?i)row", &[b"ROW", b"row"], &[b"ro"]),
            (b"(?s)a.b", &[b"a\nb"], &[b"ab"]),
            (b"(?P<n>a)(b)", &[b"ab"], &[b"a"]),
            (b"^a$", &[b"a"], &[b"a\n"]),
            (b"a#b c", &[b"a#b c"], &[b"a"]),
        ] {
            let matcher = matcher(pattern);
            let name = pattern.escape_ascii();
            for text in yes {
                assert!(is_match(&matcher, text), "{name} on {}", text.escape_ascii());
            }
            for text in no {
                assert!(!is_match(&matcher, text), "{name} on {}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn what_re2_refuses_is_refused_by_name() {
        for pattern in [
            &b"("[..],
            b")",
            b"[",
            b"[z-a]",
            b"a**",
            b"*",
            b"\\",
            b"\\8",
            b"\\1",
            b"a{2,1}",
            b"a{1001}",
            b"(?x)a",
            b"(?u)a",
            b"\\pX",
            b"[[:no:]]",
            b"\\xz",
            b"(?P<>a)",
            b"\\Z",
            b"\\E",
            b"\\x{263a}",
            b"((\\C{1000}){1000}){1000}",
        ] {
            let error = compile(pattern).unwrap_err().to_string();
            let named = format!("pattern '{}'", String::from_utf8_lossy(pattern));
            assert!(error.contains("value_regex_filter") && error.contains(&named), "{error}");
        }
        assert!(compile(&[b'('; 10_000]).is_err());
    }

    /// Bytes of a field of `testdata/re2/patterns.txt`.
    fn unescape(field: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut bytes = field.bytes();
        while let Some(byte) = bytes.next() {
            out.push(match (byte, (byte == b'\\').then(|| bytes.next().unwrap())) {
                (_, Some(b't')) => b'\t',
                (_, Some(b'n')) => b'\n',
                (_, Some(b'r')) => b'\r',
                (_, Some(b'x')) => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                (byte, escaped) => escaped.unwrap_or(byte),
            });
        }
        out
    }

    /// The single bytes that match, as that file has them.
    fn single_bytes(matcher: &Matcher) -> String {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| is_match(matcher, &[*byte])) {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == byte => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        let show = |&(low, high): &(u8, u8)| match low == high {
            true => format!("{low:02x}"),
            false => format!("{low:02x}-{high:02x}"),
        };
        ranges.iter().map(show).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn patterns_mean_what_re2_makes_of_them() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/re2/patterns.txt");
        let (mut texts, mut wrong, mut tried) = (Vec::new(), Vec::new(), 0);
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let mut fields = line.split('\t');
            let pattern = fields.next().unwrap();
            if pattern == "#texts" {
                texts = fields.clone().map(unescape).collect();
            }
            if pattern.starts_with('#') && texts.is_empty() || pattern == "#texts" {
                continue;
            }
            tried += 1;
            let expected: Vec<&str> = fields.collect();
            let found = match compile(&unescape(pattern)) {
                Err(_) => vec!["-".to_owned()],
                Ok(matcher) => {
                    let hits =
                        texts.iter().map(|text| u8::from(is_match(&matcher, text)).to_string());
                    vec![single_bytes(&matcher), hits.collect()]
                }
            };
            if found != expected {
                wrong.push(format!("{pattern}\n  RE2  {expected:?}\n  here {found:?}"));
            }
        }
        assert!(tried > 1_000, "{tried}");
        assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn simple_patterns_need_no_automaton() {
        assert!(matches!(matcher(b"\\C*"), Matcher::All));
        assert!(matches!(matcher(b"user#\\C*"), Matcher::Prefix(p) if p == b"user#"));
        assert!(matches!(matcher(b"a"), Matcher::Exact(t) if t == [b"a"]));
        assert!(matches!(matcher(b"b|a[xy]"), Matcher::Exact(t) if t == [&b"ax"[..], b"ay", b"b"]));
        assert!(matches!(matcher(b"user#[0-9]+"), Matcher::Regex(a) if a.prefix == b"user#"));
    }

    #[test]
    fn patterns_of_a_filter_share_one_budget() {
        // A filter of 20 KiB can hold so many. Short ones fit; large ones do not.
        let compile_all = |count: usize, pattern: &[u8]| {
            let mut patterns = Patterns::new(count);
            let compile =
                |_| Matcher::compile("f", pattern, &Shape::DEFAULT, &mut patterns).map(|_| ());
            (0..count).try_for_each(compile)
        };
        assert_eq!(compile_all(1_300, b"user.*[0-9]+x"), Ok(()));
        let error = compile_all(300, b"(a|[b-d]){900}x").unwrap_err().to_string();
        assert!(
            error.contains("patterns of the filter need more than 4194304 bytes together"),
            "{error}"
        );
        let large = format!("({}){{1000}}x", "[^d]*[^x]*[^z]*".repeat(10));
        let error = compile(large.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("it needs more than 1048576 bytes"), "{error}");
    }

    #[test]
    fn caches_of_a_filter_stay_within_their_budget() {
        let count = 300;
        let mut patterns = Patterns::new(count);
        let mut caches = Caches::new(count);
        // An automaton with more states than any cache holds.
        let pattern = b"[ab]*a[ab]{12}";
        let mut text = vec![b'b'; 4 << 10];
        for (at, byte) in text.iter_mut().enumerate() {
            if (at * at / 7) % 3 == 0 {
                *byte = b'a';
            }
        }
        for _ in 0..count {
            let matcher = Matcher::compile("f", pattern, &Shape::DEFAULT, &mut patterns).unwrap();
            let plain = text[text.len() - 13] == b'a';
            assert_eq!(matcher.matches(&text, &mut caches), plain);
        }
        let bytes: usize = caches.0.iter().flatten().map(|cache| cache.memory_usage()).sum();
        assert!(bytes <= 2 * CACHES_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn effort_is_no_less_than_the_pattern_unfolds_to() {
        assert_eq!(effort(b"user-1"), 0);
        assert_eq!(effort(b"user.*"), 6);
        assert_eq!(effort(b"a{3}{1000}"), 10 * 3 * 1_000);
        assert_eq!(effort(b"[0-9]{4,7}"), 10 * 4 * 7);
        assert_eq!(effort(b"a{99999999999999999999999}."), 27);
        assert_eq!(effort(b"a{9999999999}{9999999999}"), usize::MAX);
    }

    proptest! {
        #[test]
        fn shortcuts_agree_with_the_automaton(
            pattern in "([ab]|\\.|\\(a\\|b\\)|\\\\C|a\\*|\\(ab\\)\\?|\\^|\\$|\\\\b|\\[ab\\]){0,6}",
            text in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\n')], 0..6),
        ) {
            let translated = re2::translate(pattern.as_bytes()).unwrap();
            let whole = format!(r"\A(?:{translated})\z");
            let plain = RegexBuilder::new(&whole).unicode(false).build();
            let Ok(plain) = plain else { return Ok(()) };
            prop_assert_eq!(is_match(&matcher(pattern.as_bytes()), &text), plain.is_match(&text));
        }

        #[test]
        fn any_bytes_compile_or_are_refused(pattern in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(matcher) = compile(&pattern) {
                is_match(&matcher, &pattern);
            }
        }
    }
}
