//! Numbers by pictures: `to_char` and `to_number`.

use relational::{Error, Numeric, Result, Value};

use super::{Call, Definition, text};

/// Digits of a float that are exact.
const FLOAT4_DIGITS: usize = 6;
const FLOAT8_DIGITS: usize = 15;

pub(super) const TABLE: &[Definition] = &[
    ("to_char", "numeric,text -> text", |call| {
        to_char(&Number::Numeric(call.numeric(0)), call.text(1))
    }),
    ("to_char", "float8,text -> text", |call| {
        to_char(&Number::Float(call.float(0), FLOAT8_DIGITS), call.text(1))
    }),
    ("to_char", "float4,text -> text", |call| {
        to_char(&Number::Float(call.float(0), FLOAT4_DIGITS), call.text(1))
    }),
    ("to_number", "text,text -> numeric", to_number),
];

/// A number that a picture shows.
enum Number {
    Numeric(Numeric),
    /// A float, and how many digits of its type are exact.
    Float(f64, usize),
}

impl Number {
    /// Returns the digits, rounded to `scale` behind the point, and true if the number is below zero.
    fn digits(&self, scale: usize) -> Result<(String, bool)> {
        match self {
            Self::Numeric(number) => {
                let rounded = number.round(scale as i64)?;
                Ok((rounded.abs().to_string(), rounded.is_negative()))
            }
            Self::Float(number, exact) => {
                let whole = format!("{:.0}", number.abs()).len();
                let shown = scale.min(exact.saturating_sub(whole));
                let digits = format!("{:.shown$}", number.abs());
                let is_zero = digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
                let zeros = "0".repeat(scale - shown);
                let point = if shown == 0 && scale > 0 { "." } else { "" };
                Ok((format!("{digits}{point}{zeros}"), *number < 0.0 && !is_zero))
            }
        }
    }
}

/// Formats a number by a picture of `9`, `0`, `.`, `,`, `FM`, `S`, `MI`.
fn to_char(number: &Number, picture: &str) -> Result<Value> {
    let upper = picture.to_uppercase();
    let fill = !upper.contains("FM");
    let body = upper.replace("FM", "");
    let plain = |c: char| matches!(c, '9' | '0' | '.' | ',' | 'D' | 'G' | 'S' | 'M' | 'I' | ' ');
    if !body.chars().all(plain) {
        return Err(Error::unsupported(format!(
            "the number format \"{picture}\" is not supported"
        )));
    }
    let body = body.replace('D', ".").replace('G', ",");
    let (whole, fraction) = body.split_once('.').unwrap_or((&body, ""));
    let scale = fraction.chars().filter(|c| matches!(c, '9' | '0')).count();
    if let Number::Float(number, _) = number
        && number.is_nan()
    {
        let width = body.chars().filter(|c| matches!(c, '9' | '0')).count() - scale;
        let text_of = if fill { format!("{:>1$}", "NaN", width + 1) } else { "NaN".to_owned() };
        return text(text_of);
    }
    let is_infinite = matches!(number, Number::Float(number, _) if number.is_infinite());
    let (digits, is_negative) = match number {
        Number::Float(number, _) if is_infinite => ("0".to_owned(), *number < 0.0),
        number => number.digits(scale)?,
    };
    let (digits, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let places: Vec<char> = whole.chars().filter(|c| matches!(c, '9' | '0' | ',')).collect();
    let width = places.iter().filter(|c| **c != ',').count();
    let overflow = is_infinite || digits.trim_start_matches('0').len() > width;
    let mut source = digits.chars().rev().filter(|_| digits != "0" || width == 0 || scale == 0);
    let first_zero = places.iter().position(|c| *c == '0').unwrap_or(places.len());
    let mut out: Vec<char> = Vec::new();
    for (at, place) in places.iter().enumerate().rev() {
        if *place == ',' {
            let more = source.clone().next().is_some() || at > first_zero;
            out.push(if more { ',' } else { ' ' });
            continue;
        }
        match source.next() {
            _ if overflow => out.push('#'),
            Some(digit) => out.push(digit),
            None if at >= first_zero => out.push('0'),
            None => out.push(' '),
        }
    }
    out.reverse();
    let number: String = out.into_iter().collect();
    let (blanks, shown) = number.split_at(number.len() - number.trim_start().len());
    let sign = if is_negative {
        "-"
    } else if body.contains('S') {
        "+"
    } else {
        " "
    };
    let point = if body.contains('.') { "." } else { "" };
    let decimals: String = match overflow {
        true => "#".repeat(scale),
        false if fill => decimals.to_owned(),
        false => shortest(decimals, fraction).to_owned(),
    };
    // Without decimals, zero shows its digit.
    let is_bare = !fill && scale > 0 && shown.is_empty() && decimals.is_empty();
    let shown = if is_bare { "0" } else { shown };
    let full = format!("{blanks}{sign}{shown}{point}{decimals}");
    text(if fill { full } else { full.trim().to_owned() })
}

/// Returns decimals without the zeros at their end, but as many as the picture of the fraction asks for by `0`.
fn shortest<'a>(decimals: &'a str, fraction: &str) -> &'a str {
    let mut least = 0;
    for (at, place) in fraction.chars().filter(|c| matches!(c, '9' | '0')).enumerate() {
        if place == '0' {
            least = at + 1;
        }
    }
    let len = decimals.trim_end_matches('0').len().max(least);
    decimals.get(..len).unwrap_or(decimals)
}

/// Words of a picture of a number, longest first where one begins another.
const WORDS: &[&str] = &[
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "TH", "9", "0", ".", ",", "B", "C", "D", "G", "L",
    "S", "V",
];

/// Returns the words of a picture; every other character stands for itself.
fn words(picture: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), picture);
    while let Some(first) = rest.chars().next() {
        let is_next = |word: &&&str| {
            rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        if let Some(word) = WORDS.iter().find(is_next) {
            out.push(*word);
            rest = &rest[word.len()..];
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.extend(quoted[..end].chars().map(|_| "text"));
            rest = quoted.get(end + 1..).unwrap_or("");
        } else {
            out.push("text");
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// A number that is read by a picture.
struct Reading<'a> {
    /// Characters that are yet to be read.
    rest: &'a [char],
    digits: String,
    is_negative: Option<bool>,
    /// Digits behind the point, once there is one.
    decimals: Option<usize>,
    decimals_max: usize,
    has_bracket: bool,
    has_sign_word: bool,
    has_locale_sign: bool,
}

impl Reading<'_> {
    fn next(&self) -> Option<char> {
        self.rest.first().copied()
    }

    fn pass(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    /// Passes over up to `count` characters that are no part of a number.
    fn pass_others(&mut self, count: usize) {
        for _ in 0..count {
            match self.next() {
                Some(other) if !other.is_ascii_digit() && !".,+-".contains(other) => self.pass(),
                _ => return,
            }
        }
    }

    /// Takes a sign if it is next. Returns true if it was.
    fn take_sign(&mut self, signs: &str) -> bool {
        let sign = self.next().filter(|next| signs.contains(*next));
        if let Some(sign) = sign {
            self.is_negative = Some(sign == '-');
            self.pass();
        }
        sign.is_some()
    }

    /// Reads what stands for a digit or the point of a picture.
    fn digit(&mut self) {
        if self.next() == Some(' ') {
            self.pass();
        }
        let may_sign = self.is_negative.is_none() && self.digits.is_empty();
        let is_signed = may_sign && self.take_sign("+-");
        if may_sign && !is_signed && self.has_bracket && self.next() == Some('<') {
            self.is_negative = Some(true);
            self.pass();
        }
        let Some(next) = self.next() else { return };
        let is_read = match (next, self.decimals) {
            (digit, None) if digit.is_ascii_digit() => true,
            (digit, Some(count)) if digit.is_ascii_digit() => {
                if count == self.decimals_max {
                    self.pass();
                    return;
                }
                self.decimals = Some(count + 1);
                true
            }
            ('.', None) => {
                self.decimals = Some(0);
                true
            }
            _ => false,
        };
        if is_read {
            self.digits.push(next);
        }
        let has_digits = self.digits.bytes().any(|byte| byte.is_ascii_digit());
        if self.is_negative.is_none() && has_digits {
            let behind = self.rest.get(1).copied();
            if is_read && self.has_locale_sign && behind.is_some_and(|c| "+-".contains(c)) {
                self.pass();
                self.is_negative = behind.map(|sign| sign == '-');
            } else if !is_read && !self.has_sign_word && "+-".contains(next) {
                self.is_negative = Some(next == '-');
            }
        }
        self.pass();
    }
}

/// Reads a number by a picture, as PostgreSQL does: a word of the picture takes what stands at its place.
fn to_number(call: &Call<'_>) -> Result<Value> {
    let words = words(call.text(1));
    if words.is_empty() {
        return Ok(Value::Null);
    }
    for refused in ["RN", "EEEE"] {
        if words.contains(&refused) {
            return Err(Error::unsupported(format!("\"{refused}\" not supported for input")));
        }
    }
    let point = words.iter().position(|word| matches!(*word, "." | "D" | "V"));
    let is_digit = |word: &&&str| matches!(**word, "9" | "0");
    let behind = words.get(point.unwrap_or(words.len())..).unwrap_or_default();
    let behind = behind.iter().filter(is_digit).count();
    let is_shifted = words.contains(&"V");
    let symbols: Vec<char> = call.text(0).chars().collect();
    let mut reading = Reading {
        rest: &symbols,
        digits: String::new(),
        is_negative: None,
        decimals: None,
        decimals_max: if is_shifted { 0 } else { behind },
        has_bracket: words.contains(&"PR"),
        has_sign_word: ["S", "MI", "PL", "SG"].iter().any(|word| words.contains(word)),
        has_locale_sign: words.contains(&"S"),
    };
    for word in &words {
        if reading.next().is_none() {
            break;
        }
        match *word {
            "9" | "0" | "." | "D" => reading.digit(),
            "," | "G" if reading.next() == Some(',') => reading.pass(),
            "MI" if !reading.take_sign("-") => reading.pass_others(1),
            "PL" if !reading.take_sign("+") => reading.pass_others(1),
            "SG" if !reading.take_sign("+-") => reading.pass_others(1),
            "TH" => reading.pass_others(2),
            "L" | "text" => reading.pass_others(1),
            _ => {}
        }
    }
    let sign = if reading.is_negative == Some(true) { "-" } else { "" };
    let digits = match reading.digits.trim_end_matches('.') {
        "" => " ",
        digits => digits,
    };
    let mut number: Numeric = format!("{sign}{digits}").parse()?;
    if is_shifted {
        let divisor: Numeric = format!("1{}", "0".repeat(behind)).parse()?;
        number = number.divide(&divisor)?;
    }
    Ok(Value::Numeric(number))
}
