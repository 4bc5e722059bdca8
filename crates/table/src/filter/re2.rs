//! Translates the RE2 dialect to the syntax of crate `regex`.
//!
//! Bigtable runs RE2 in Latin-1 mode: each byte of pattern and text is one character. So a UTF-8
//! letter outside a class matches itself, byte by byte; in a class it stands for its single
//! bytes; `.` is any one byte but newline, and `\C` any one byte. Crate `regex` (in byte mode) has
//! the same linear-time automata but another notation: set operations in classes, `\<`, other
//! flags, `{` as an error. Every byte is written as `\xHH`, so that nothing of that can leak in.
//!
//! Case is folded here too, which RE2 does for ASCII letters alone in this mode, before a class is
//! negated; and the flags of groups are applied here: none of them is left to the other engine.
//!
//! One difference is left: captures are not kept. Whether a repetition is greedy makes none, as a
//! pattern matches whole texts. `testdata/re2` has what RE2 itself says of some 1,600 patterns.

use super::re2_sets::{ByteSet, perl_class, posix_class, unicode_class};
use std::fmt::Write as _;

/// RE2's limit on counted repetition.
pub(super) const REPEAT_MAX: u32 = 1_000;
/// Deepest nesting of groups.
pub(super) const GROUPS_MAX: usize = 100;

/// The pattern in the notation of crate `regex`, or why RE2 would refuse it.
pub(super) fn translate(pattern: &[u8]) -> Result<String, String> {
    let out = String::with_capacity(pattern.len() * 4);
    let flags = Flags::default();
    let groups = Vec::new();
    let (last, stacked, repeated) = (0, false, false);
    let mut translator = Translator { rest: pattern, out, flags, groups, last, stacked, repeated };
    while let Some(byte) = translator.take() {
        translator.item(byte)?;
    }
    if !translator.groups.is_empty() {
        return Err("missing closing )".into());
    }
    Ok(translator.out)
}

/// Flags that groups have set.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `i`: letters match in either case.
    fold: bool,
    /// `m`: `^` and `$` match at lines.
    lines: bool,
    /// `s`: `.` matches a newline.
    newline: bool,
}

struct Translator<'a> {
    rest: &'a [u8],
    out: String,
    flags: Flags,
    /// Of each open group, the flags before it and where in `out` it begins.
    groups: Vec<(Flags, usize)>,
    /// Offset in `out` of the last item that can be repeated.
    last: usize,
    /// True if that was repeated already, and only flags have come since.
    stacked: bool,
    /// True if the last item was a repetition: RE2 does not stack them.
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
            b')' => {
                let (flags, start) = self.groups.pop().ok_or("unexpected )")?;
                self.flags = flags;
                self.emit(")")?;
                self.last = start;
                Ok(())
            }
            b'|' => self.emit("|"),
            b'^' => self.emit(if self.flags.lines { "(?m:^)" } else { "^" }),
            b'$' => self.emit(if self.flags.lines { "(?m:$)" } else { "$" }),
            b'.' => self.emit(if self.flags.newline { "(?s:.)" } else { "." }),
            b'[' => self.class(),
            b'\\' => self.escape(),
            byte => self.literal(byte),
        }
    }

    /// Writes an item.
    fn emit(&mut self, text: &str) -> Result<(), String> {
        self.begin();
        self.out.push_str(text);
        Ok(())
    }

    /// Begins an item.
    fn begin(&mut self) {
        self.last = self.out.len();
        self.stacked = false;
    }

    /// A character that stands for itself.
    fn literal(&mut self, byte: u8) -> Result<(), String> {
        if !self.flags.fold {
            self.begin();
            return self.byte(byte);
        }
        let mut set = ByteSet::default();
        set.insert_if(true, |c| c == u32::from(byte));
        self.emit_class(&set, false)
    }

    fn byte(&mut self, byte: u8) -> Result<(), String> {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "\\x{byte:02X}");
        Ok(())
    }

    fn repeat(&mut self, repeated: bool, operator: &str) -> Result<(), String> {
        if repeated {
            return Err(format!("bad repetition operator: {operator}"));
        }
        self.repeated = true;
        if self.stacked {
            // Behind the first repetition `?` would mean another one.
            self.out.insert_str(self.last, "(?:");
            self.out.push(')');
        }
        self.stacked = true;
        self.out.push_str(operator);
        if self.take_if(b"?") {
            self.out.push('?');
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}` after its brace; anything else is no repetition.
    fn counts(&mut self) -> Result<Option<String>, String> {
        let Some(end) = self.rest.iter().take(24).position(|byte| *byte == b'}') else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(&self.rest[..end]) else { return Ok(None) };
        let (min, max) = text.split_once(',').map_or((text, None), |(min, max)| (min, Some(max)));
        // RE2 takes no zeros in front, and no number of more than nine digits, for a count.
        let digits = |text: &str| {
            let plain = text == "0" || !text.starts_with('0');
            (1..10).contains(&text.len()) && plain && text.bytes().all(|b| b.is_ascii_digit())
        };
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
        let before = self.flags;
        if !self.take_if(b"?") {
            return self.group(before);
        }
        if self.take_if(b"P<") || self.take_if(b"<") {
            self.name()?;
            return self.group(before);
        }
        // After a `-` flags are taken away, of which there must be one.
        let (mut on, mut bare) = (true, false);
        loop {
            match self.take() {
                Some(flag @ (b'i' | b'm' | b's' | b'U')) => {
                    bare = false;
                    match flag {
                        b'i' => self.flags.fold = on,
                        b'm' => self.flags.lines = on,
                        b's' => self.flags.newline = on,
                        _ => {}
                    }
                }
                Some(b'-') if on => (on, bare) = (false, true),
                Some(b':') if !bare => return self.group(before),
                // What follows is repeated by what repeats: the flags are no item.
                Some(b')') if !bare => return Ok(()),
                _ => return Err("invalid group flags".into()),
            }
        }
    }

    fn name(&mut self) -> Result<(), String> {
        let end = self.rest.iter().position(|byte| *byte == b'>');
        let name = end.map(|end| &self.rest[..end]).unwrap_or_default();
        let valid = |c: char| c.is_alphanumeric() || c == '_';
        if name.is_empty() || !name.iter().all(|byte| valid(char::from(*byte))) {
            return Err("bad named group".into());
        }
        self.rest = &self.rest[name.len() + 1..];
        Ok(())
    }

    /// Opens a group, at whose end the flags are as they were `before`.
    fn group(&mut self, before: Flags) -> Result<(), String> {
        self.groups.push((before, self.out.len()));
        if self.groups.len() > GROUPS_MAX {
            return Err(format!("groups nest deeper than {GROUPS_MAX}"));
        }
        self.emit("(?:")
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
            Some(byte @ (b'A' | b'z' | b'b' | b'B')) => {
                let text = format!("(?:\\{})", char::from(*byte));
                self.take();
                self.emit(&text)
            }
            _ => {
                let mut set = ByteSet::default();
                if !self.set_escape(&mut set)? {
                    let byte = self.char_escape()?;
                    return self.literal(byte);
                }
                self.emit_class(&set, false)
            }
        }
    }

    /// A class that a backslash names (`\d`, `\pL`), if one follows it.
    fn set_escape(&mut self, set: &mut ByteSet) -> Result<bool, String> {
        let Some(&name) = self.rest.first() else { return Err("trailing \\".into()) };
        if name.eq_ignore_ascii_case(&b'p') {
            return self.unicode_set(set).map(|()| true);
        }
        let Some(member) = perl_class(name.to_ascii_lowercase()) else { return Ok(false) };
        self.take();
        self.insert(set, name.is_ascii_uppercase(), member);
        Ok(true)
    }

    /// Adds the members of a named class, or all that are none.
    fn insert(&self, set: &mut ByteSet, negated: bool, member: impl Fn(u32) -> bool) {
        match negated {
            true => set.insert_unless(self.flags.fold, member),
            false => set.insert_if(self.flags.fold, member),
        }
    }

    /// `\pN`, `\p{Name}` and their negations, as far as Latin-1 goes.
    fn unicode_set(&mut self, set: &mut ByteSet) -> Result<(), String> {
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
        let class = unicode_class(&name);
        let class = class.ok_or_else(|| format!("invalid character class range: \\p{{{name}}}"))?;
        self.insert(set, negated, class);
        Ok(())
    }

    /// One character after a backslash.
    fn char_escape(&mut self) -> Result<u8, String> {
        let byte = self.take().ok_or("trailing \\")?;
        Ok(match byte {
            b'a' => 0x07,
            b'f' => 0x0c,
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'x' => return self.hex(),
            b'0' => return self.octal(0),
            b'1'..=b'7' if matches!(self.rest.first(), Some(b'0'..=b'7')) => {
                return self.octal(u32::from(byte - b'0'));
            }
            byte if byte.is_ascii() && !byte.is_ascii_alphanumeric() => byte,
            byte => return Err(format!("invalid escape sequence: \\{}", byte.escape_ascii())),
        })
    }

    /// Up to two digits more.
    fn octal(&mut self, mut value: u32) -> Result<u8, String> {
        for _ in 0..2 {
            let Some(&digit @ b'0'..=b'7') = self.rest.first() else { break };
            self.take();
            value = value * 8 + u32::from(digit - b'0');
        }
        u8::try_from(value).map_err(|_| "invalid escape sequence: above \\377".to_owned())
    }

    fn hex(&mut self) -> Result<u8, String> {
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
            .and_then(|value| u8::try_from(value).ok())
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
            if self.posix_set(&mut set)? {
                continue;
            }
            let byte = self.take().ok_or("missing closing ]")?;
            if byte == b'\\' && self.set_escape(&mut set)? {
                continue;
            }
            let low = if byte == b'\\' { self.char_escape()? } else { byte };
            let range = matches!(self.rest, [b'-', next, ..] if *next != b']');
            let high = if range { self.range_end()? } else { low };
            if high < low {
                return Err("invalid character class range".into());
            }
            set.insert_if(self.flags.fold, |c| (low.into()..=high.into()).contains(&c));
        }
    }

    fn range_end(&mut self) -> Result<u8, String> {
        self.take();
        match self.take() {
            Some(b'\\') => self.char_escape(),
            Some(byte) => Ok(byte),
            None => Err("missing closing ]".into()),
        }
    }

    /// `[:name:]` or `[:^name:]` inside a class.
    fn posix_set(&mut self, set: &mut ByteSet) -> Result<bool, String> {
        let Some(body) = self.rest.strip_prefix(b"[:") else { return Ok(false) };
        let Some(end) = body.windows(2).position(|pair| pair == b":]") else { return Ok(false) };
        let (negated, name) = match &body[..end] {
            [b'^', name @ ..] => (true, name),
            name => (false, name),
        };
        let Some(member) = posix_class(name) else {
            let name = name.escape_ascii();
            return Err(format!("invalid character class range: [:{name}:]"));
        };
        self.rest = &body[end + 2..];
        self.insert(set, negated, member);
        Ok(true)
    }

    fn emit_class(&mut self, set: &ByteSet, negated: bool) -> Result<(), String> {
        // An empty class is not written as `[]`: that is no syntax.
        let (negated, ranges) = match set.ranges() {
            ranges if ranges.is_empty() => (!negated, vec![(0, u8::MAX)]),
            ranges => (negated, ranges),
        };
        self.begin();
        self.out.push_str(if negated { "[^" } else { "[" });
        for (low, high) in ranges {
            self.byte(low)?;
            if high > low {
                self.out.push('-');
                self.byte(high)?;
            }
        }
        self.out.push(']');
        Ok(())
    }
}
