//! Regular expressions as Bigtable means them: the RE2 dialect over raw bytes, matching the whole
//! text.
//!
//! RE2 runs in Latin-1 mode there: each byte of pattern and text is one character. So a UTF-8
//! letter outside a class matches itself, byte by byte; in a class it stands for its single
//! bytes; `.` is any one byte but newline, and `\C` any one byte. The pattern is translated to
//! the syntax of crate `regex` (byte mode), which has the same linear-time automata but another
//! notation: set operations in classes, `\<`, other flags, `{` as an error. Translation writes
//! every byte as `\xHH`, so that nothing of that notation can leak in.
//!
//! Two differences are left: `(?i)` folds ASCII letters only, and captures are not kept.

use crate::error::{Error, Result};
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind};
use std::fmt::Write as _;

/// Most memory of one compiled pattern, and of its cache of states.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Most texts that a pattern is resolved into, and the longest of them.
const EXACT_MAX: usize = 64;
const EXACT_LEN_MAX: usize = 4 << 10;
/// RE2's limit on counted repetition.
const REPEAT_MAX: u32 = 1_000;
/// Deepest nesting of groups.
const GROUPS_MAX: u32 = 100;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    /// Every text.
    All,
    /// These texts, sorted; may be none.
    Exact(Vec<Vec<u8>>),
    /// Every text that starts so.
    Prefix(Vec<u8>),
    /// What the automaton says; every match starts with these bytes.
    Regex(Regex, Vec<u8>),
}

impl Matcher {
    /// Compiles `pattern`; `InvalidArgument` on `field` names the pattern if it cannot be.
    pub(crate) fn compile(field: &str, pattern: &[u8]) -> Result<Self> {
        let refuse = |why: &dyn std::fmt::Display| {
            let shown = match std::str::from_utf8(pattern) {
                Ok(text) if !text.contains(char::is_control) => text.to_owned(),
                _ => pattern.escape_ascii().to_string(),
            };
            Error::invalid(field, format!("invalid RE2 pattern '{shown}': {why}"))
        };
        let translated = translate(pattern).map_err(|why| refuse(&why))?;
        let hir = parse(&translated).map_err(|why| refuse(&why))?;
        let (exact, prefix) = literals(&hir);
        if let Some(exact) = exact {
            return Ok(Self::Exact(exact));
        }
        if let Some(prefix) = open_prefix(&hir) {
            return Ok(if prefix.is_empty() { Self::All } else { Self::Prefix(prefix) });
        }
        let regex = RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
            .unicode(false)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .nest_limit(2 * GROUPS_MAX + 10)
            .build()
            .map_err(|_| refuse(&format!("it needs more than {PATTERN_BYTES_MAX} bytes")))?;
        Ok(Self::Regex(regex, prefix))
    }

    /// Whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Exact(texts) => texts.binary_search_by(|t| t.as_slice().cmp(text)).is_ok(),
            Self::Prefix(prefix) => text.starts_with(prefix),
            Self::Regex(regex, prefix) => text.starts_with(prefix) && regex.is_match(text),
        }
    }
}

fn parse(translated: &str) -> Result<Hir, String> {
    regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .nest_limit(2 * GROUPS_MAX)
        .build()
        .parse(translated)
        .map_err(|error| match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => "syntax error".to_owned(),
        })
}

/// All texts that match, if they are few; else the bytes that all of them start with.
fn literals(hir: &Hir) -> (Option<Vec<Vec<u8>>>, Vec<u8>) {
    let mut extractor = Extractor::new();
    extractor.limit_total(EXACT_MAX).limit_literal_len(EXACT_LEN_MAX);
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

/// The pattern in the notation of crate `regex`, or why RE2 would refuse it.
fn translate(pattern: &[u8]) -> Result<String, String> {
    let out = String::with_capacity(pattern.len() * 4);
    let mut translator = Translator { rest: pattern, out, groups: 0, repeated: false };
    while let Some(byte) = translator.take() {
        translator.item(byte)?;
    }
    if translator.groups > 0 {
        return Err("missing closing )".into());
    }
    Ok(translator.out)
}

struct Translator<'a> {
    rest: &'a [u8],
    out: String,
    /// Open groups.
    groups: u32,
    /// Whether the last item was a repetition: RE2 does not stack them.
    repeated: bool,
}

impl Translator<'_> {
    fn take(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn take_if(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn item(&mut self, byte: u8) -> Result<(), String> {
        let repeated = std::mem::take(&mut self.repeated);
        match byte {
            b'*' | b'+' | b'?' => self.repeat(repeated, &char::from(byte).to_string()),
            b'{' => match self.counts()? {
                Some(counts) => self.repeat(repeated, &counts),
                None => self.literal(b'{'),
            },
            b'(' => self.open_group(),
            b')' if self.groups == 0 => Err("unexpected )".into()),
            b')' => {
                self.groups -= 1;
                self.emit(")")
            }
            b'|' | b'^' | b'$' | b'.' => self.emit(char::from(byte).encode_utf8(&mut [0; 4])),
            b'[' => self.class(),
            b'\\' => self.escape(),
            byte => self.literal(byte),
        }
    }

    fn emit(&mut self, text: &str) -> Result<(), String> {
        self.out.push_str(text);
        Ok(())
    }

    fn literal(&mut self, byte: u8) -> Result<(), String> {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "\\x{byte:02X}");
        Ok(())
    }

    fn repeat(&mut self, repeated: bool, operator: &str) -> Result<(), String> {
        if repeated {
            return Err(format!("bad repetition operator: {operator}"));
        }
        self.repeated = true;
        self.out.push_str(operator);
        if self.take_if(b"?") {
            self.out.push('?');
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}` after its brace; anything else is no repetition.
    fn counts(&mut self) -> Result<Option<String>, String> {
        let Some(end) = self.rest.iter().take(16).position(|byte| *byte == b'}') else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(&self.rest[..end]) else { return Ok(None) };
        let (min, max) = text.split_once(',').map_or((text, None), |(min, max)| (min, Some(max)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(min) || max.is_some_and(|max| !max.is_empty() && !digits(max)) {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= REPEAT_MAX);
        let bounded = max.is_none_or(|max| max.is_empty() || number(max) >= number(min));
        if number(min).is_none()
            || !bounded
            || max.is_some_and(|m| digits(m) && number(m).is_none())
        {
            return Err(format!("bad repetition count {{{text}}}, the limit is {REPEAT_MAX}"));
        }
        let counts = format!("{{{text}}}");
        self.rest = &self.rest[end + 1..];
        Ok(Some(counts))
    }

    fn open_group(&mut self) -> Result<(), String> {
        if !self.take_if(b"?") {
            return self.group("(?:");
        }
        if self.take_if(b"P<") || self.take_if(b"<") {
            let end = self.rest.iter().position(|byte| *byte == b'>');
            let name = end.map(|end| &self.rest[..end]).unwrap_or_default();
            if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                return Err("bad named group".into());
            }
            self.rest = &self.rest[name.len() + 1..];
            return self.group("(?:");
        }
        let mut flags = String::from("(?");
        loop {
            match self.take() {
                Some(flag @ (b'i' | b'm' | b's' | b'U' | b'-')) => flags.push(char::from(flag)),
                Some(b':') => {
                    flags.push(':');
                    return self.group(&flags);
                }
                Some(b')') => {
                    flags.push(')');
                    return self.emit(&flags);
                }
                _ => return Err("invalid group flags".into()),
            }
        }
    }

    fn group(&mut self, open: &str) -> Result<(), String> {
        self.groups += 1;
        if self.groups > GROUPS_MAX {
            return Err(format!("groups nest deeper than {GROUPS_MAX}"));
        }
        self.emit(open)
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest.first() {
            Some(b'C') => {
                self.take();
                self.emit("(?s:.)")
            }
            Some(b'Q') => {
                self.take();
                while !self.rest.is_empty() && !self.take_if(b"\\E") {
                    let byte = self.take().unwrap_or_default();
                    self.literal(byte)?;
                }
                Ok(())
            }
            Some(b'E') => self.take().map_or(Ok(()), |_| Ok(())),
            Some(byte @ (b'A' | b'z' | b'b' | b'B')) => {
                let text = format!("(?:\\{})", char::from(*byte));
                self.take();
                self.emit(&text)
            }
            _ => {
                let mut set = ByteSet::default();
                if !self.set_escape(&mut set)? {
                    set.insert(self.char_escape()?, None);
                }
                self.emit_class(&set, false)
            }
        }
    }

    /// A class that a backslash names (`\d`, `\pL`), if one follows it.
    fn set_escape(&mut self, set: &mut ByteSet) -> Result<bool, String> {
        let Some(&name) = self.rest.first() else { return Err("trailing \\".into()) };
        let member: fn(u8) -> bool = match name.to_ascii_lowercase() {
            b'd' => |byte| byte.is_ascii_digit(),
            b's' => |byte| matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' '),
            b'w' => |byte| byte.is_ascii_alphanumeric() || byte == b'_',
            b'p' => return self.unicode_class(set).map(|()| true),
            _ => return Ok(false),
        };
        self.take();
        set.insert_if(|byte| member(byte) != name.is_ascii_uppercase());
        Ok(true)
    }

    /// `\pN`, `\p{Name}` and their negations, as far as Latin-1 goes.
    fn unicode_class(&mut self, set: &mut ByteSet) -> Result<(), String> {
        let mut negated = self.take() == Some(b'P');
        let name = if self.take_if(b"{") {
            negated ^= self.take_if(b"^");
            let end = self.rest.iter().position(|byte| *byte == b'}');
            let end = end.ok_or("missing } of a character class")?;
            let name = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            name.to_vec()
        } else {
            self.take().into_iter().collect()
        };
        let name = String::from_utf8(name).unwrap_or_default();
        let unknown = || format!("invalid character class range: \\p{{{name}}}");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(unknown());
        }
        let hir = regex_syntax::parse(&format!("[\\p{{{name}}}]")).map_err(|_| unknown())?;
        let single = |byte: u8| match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                let c = char::from(byte);
                class.ranges().iter().any(|range| range.start() <= c && c <= range.end())
            }
            _ => false,
        };
        set.insert_if(|byte| single(byte) != negated);
        Ok(())
    }

    /// One character after a backslash. Above 255 it can match nothing.
    fn char_escape(&mut self) -> Result<u32, String> {
        let byte = self.take().ok_or("trailing \\")?;
        Ok(match byte {
            b'a' => 0x07,
            b'f' => 0x0c,
            b't' => 0x09,
            b'n' => 0x0a,
            b'r' => 0x0d,
            b'v' => 0x0b,
            b'x' => return self.hex(),
            b'0' => self.octal(0, 2),
            b'1'..=b'7' if matches!(self.rest.first(), Some(b'0'..=b'7')) => {
                self.octal(u32::from(byte - b'0'), 2)
            }
            byte if byte.is_ascii() && !byte.is_ascii_alphanumeric() && byte != b'_' => {
                u32::from(byte)
            }
            byte => return Err(format!("invalid escape sequence: \\{}", byte.escape_ascii())),
        })
    }

    fn octal(&mut self, mut value: u32, digits: u32) -> u32 {
        for _ in 0..digits {
            let Some(&digit @ b'0'..=b'7') = self.rest.first() else { break };
            self.take();
            value = value * 8 + u32::from(digit - b'0');
        }
        value
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = if self.take_if(b"{") {
            let end = self.rest.iter().position(|byte| *byte == b'}');
            let digits = end.map(|end| &self.rest[..end]).unwrap_or_default();
            self.rest = &self.rest[end.map_or(0, |end| end + 1)..];
            digits
        } else {
            let digits = self.rest.get(..2).unwrap_or_default();
            self.rest = &self.rest[digits.len()..];
            digits
        };
        std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .filter(|value| *value <= 0x10_ffff)
            .ok_or_else(|| "invalid escape sequence: \\x".to_owned())
    }

    fn class(&mut self) -> Result<(), String> {
        let negated = self.take_if(b"^");
        let mut set = ByteSet::default();
        let mut first = true;
        loop {
            if !first && self.take_if(b"]") {
                return self.emit_class(&set, negated);
            }
            first = false;
            if self.posix_class(&mut set)? {
                continue;
            }
            let byte = self.take().ok_or("missing closing ]")?;
            if byte == b'\\' && self.set_escape(&mut set)? {
                continue;
            }
            let low = if byte == b'\\' { self.char_escape()? } else { u32::from(byte) };
            let range = matches!(self.rest, [b'-', next, ..] if *next != b']');
            let high = if range { Some(self.range_end()?) } else { None };
            if high.is_some_and(|high| high < low) {
                return Err("invalid character class range".into());
            }
            set.insert(low, high);
        }
    }

    fn range_end(&mut self) -> Result<u32, String> {
        self.take();
        match self.take() {
            Some(b'\\') => self.char_escape(),
            Some(byte) => Ok(u32::from(byte)),
            None => Err("missing closing ]".into()),
        }
    }

    /// `[:name:]` or `[:^name:]` inside a class.
    fn posix_class(&mut self, set: &mut ByteSet) -> Result<bool, String> {
        let Some(body) = self.rest.strip_prefix(b"[:") else { return Ok(false) };
        let Some(end) = body.windows(2).position(|pair| pair == b":]") else { return Ok(false) };
        let (negated, name) = match &body[..end] {
            [b'^', name @ ..] => (true, name),
            name => (false, name),
        };
        let member: fn(u8) -> bool = match name {
            b"alnum" => |byte| byte.is_ascii_alphanumeric(),
            b"alpha" => |byte| byte.is_ascii_alphabetic(),
            b"ascii" => |byte| byte.is_ascii(),
            b"blank" => |byte| matches!(byte, b'\t' | b' '),
            b"cntrl" => |byte| byte.is_ascii_control(),
            b"digit" => |byte| byte.is_ascii_digit(),
            b"graph" => |byte| byte.is_ascii_graphic(),
            b"lower" => |byte| byte.is_ascii_lowercase(),
            b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
            b"punct" => |byte| byte.is_ascii_punctuation(),
            b"space" => |byte| matches!(byte, b'\t'..=b'\r' | b' '),
            b"upper" => |byte| byte.is_ascii_uppercase(),
            b"word" => |byte| byte.is_ascii_alphanumeric() || byte == b'_',
            b"xdigit" => |byte| byte.is_ascii_hexdigit(),
            name => {
                let name = name.escape_ascii();
                return Err(format!("invalid character class range: [:{name}:]"));
            }
        };
        self.rest = &body[end + 2..];
        set.insert_if(|byte| member(byte) != negated);
        Ok(true)
    }

    fn emit_class(&mut self, set: &ByteSet, negated: bool) -> Result<(), String> {
        // An empty class is not written as `[]`: that is no syntax.
        let (negated, ranges) = match set.ranges() {
            ranges if ranges.is_empty() => (!negated, vec![(0, u8::MAX)]),
            ranges => (negated, ranges),
        };
        self.out.push_str(if negated { "[^" } else { "[" });
        for (low, high) in ranges {
            self.literal(low)?;
            if high > low {
                self.out.push('-');
                self.literal(high)?;
            }
        }
        self.emit("]")
    }
}

/// A set of bytes.
struct ByteSet([bool; 256]);

impl Default for ByteSet {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl ByteSet {
    /// Adds a character, or a range of them with both ends, as far as they are bytes.
    fn insert(&mut self, low: u32, high: Option<u32>) {
        let high = high.unwrap_or(low);
        self.insert_if(|byte| (low..=high).contains(&u32::from(byte)));
    }

    fn insert_if(&mut self, member: impl Fn(u8) -> bool) {
        for byte in 0..=u8::MAX {
            self.0[usize::from(byte)] |= member(byte);
        }
    }

    /// The set as ranges, both ends included.
    fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| self.0[usize::from(*byte)]) {
            match ranges.last_mut() {
                Some((_, high)) if *high + 1 == byte => *high = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(pattern: &[u8]) -> Matcher {
        Matcher::compile("f", pattern).unwrap()
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
            (b"\\x{263a}?", &[b""], &[b"\xe2\x98\xba"]),
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
                assert!(matcher.matches(text), "{name} on {}", text.escape_ascii());
            }
            for text in no {
                assert!(!matcher.matches(text), "{name} on {}", text.escape_ascii());
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
            b"((\\C{1000}){1000}){1000}",
        ] {
            let error = Matcher::compile("value_regex_filter", pattern).unwrap_err().to_string();
            let named = format!("pattern '{}'", String::from_utf8_lossy(pattern));
            assert!(error.contains("value_regex_filter") && error.contains(&named), "{error}");
        }
        assert!(Matcher::compile("f", &[b'('; 10_000]).is_err());
    }

    #[test]
    fn simple_patterns_need_no_automaton() {
        assert!(matches!(matcher(b"\\C*"), Matcher::All));
        assert!(matches!(matcher(b"user#\\C*"), Matcher::Prefix(p) if p == b"user#"));
        assert!(matches!(matcher(b"a"), Matcher::Exact(t) if t == [b"a"]));
        assert!(matches!(matcher(b"b|a[xy]"), Matcher::Exact(t) if t == [&b"ax"[..], b"ay", b"b"]));
        assert!(matches!(matcher(b"user#[0-9]+"), Matcher::Regex(_, p) if p == b"user#"));
    }

    proptest! {
        #[test]
        fn shortcuts_agree_with_the_automaton(
            pattern in "([ab]|\\.|\\(a\\|b\\)|\\\\C|a\\*|\\(ab\\)\\?|\\^|\\$|\\\\b|\\[ab\\]){0,6}",
            text in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'\n')], 0..6),
        ) {
            let translated = translate(pattern.as_bytes()).unwrap();
            let whole = format!(r"\A(?:{translated})\z");
            let plain = RegexBuilder::new(&whole).unicode(false).build();
            let Ok(plain) = plain else { return Ok(()) };
            prop_assert_eq!(matcher(pattern.as_bytes()).matches(&text), plain.is_match(&text));
        }

        #[test]
        fn any_bytes_compile_or_are_refused(pattern in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Ok(matcher) = Matcher::compile("f", &pattern) {
                matcher.matches(&pattern);
            }
        }
    }
}
