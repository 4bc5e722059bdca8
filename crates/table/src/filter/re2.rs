//! Translates the RE2 dialect to the syntax of crate `regex`.
//!
//! Bigtable runs RE2 in Latin-1 mode: each byte of pattern and text is one character. So a UTF-8
//! letter outside a class matches itself, byte by byte; in a class it stands for its single
//! bytes; `.` is any one byte but newline, and `\C` any one byte. Crate `regex` (in byte mode) has
//! the same linear-time automata but another notation: set operations in classes, `\<`, other
//! flags, `{` as an error. Every byte is written as `\xHH`, so that nothing of that can leak in.
//!
//! Two differences are left: `(?i)` folds ASCII letters only, and captures are not kept.

use regex_syntax::hir::{Class, HirKind};
use std::fmt::Write as _;

/// RE2's limit on counted repetition.
const REPEAT_MAX: u32 = 1_000;
/// Deepest nesting of groups.
pub(super) const GROUPS_MAX: u32 = 100;

/// The pattern in the notation of crate `regex`, or why RE2 would refuse it.
pub(super) fn translate(pattern: &[u8]) -> Result<String, String> {
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
