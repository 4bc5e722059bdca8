//! Matches of regular expressions: their texts, places and numbers.
//!
//! 1. Places count characters, from 1. A search that begins behind the start still sees what is before it.

use relational::{DataType, Result, Value};

use regex::{Captures, Regex};

use super::pattern::{matches, regex_of};
use super::{Call, Definition, array, int4, invalid, text};
use crate::values::array_text;

pub(super) const TABLE: &[Definition] = &[
    ("regexp_match", "text,text -> text[]", |call| first_match(call, "")),
    ("regexp_match", "text,text,text -> text[]", |call| first_match(call, call.text(2))),
    ("__regexp_matches", "text,text -> text[]", |call| all_matches(call, "")),
    ("__regexp_matches", "text,text,text -> text[]", |call| all_matches(call, call.text(2))),
    ("regexp_like", "text,text -> bool", |call| matches(call, regex_of(call.text(1), "")?)),
    ("regexp_like", "text,text,text -> bool", |call| {
        matches(call, regex_of(call.text(1), not_global(call.text(2), "regexp_like")?)?)
    }),
    ("regexp_count", "text,text -> int4", count),
    ("regexp_count", "text,text,int4 -> int4", count),
    ("regexp_count", "text,text,int4,text -> int4", count),
    ("regexp_instr", "text,text -> int4", place),
    ("regexp_instr", "text,text,int4 -> int4", place),
    ("regexp_instr", "text,text,int4,int4 -> int4", place),
    ("regexp_instr", "text,text,int4,int4,int4 -> int4", place),
    ("regexp_instr", "text,text,int4,int4,int4,text -> int4", place),
    ("regexp_instr", "text,text,int4,int4,int4,text,int4 -> int4", place),
    ("regexp_substr", "text,text -> text", part),
    ("regexp_substr", "text,text,int4 -> text", part),
    ("regexp_substr", "text,text,int4,int4 -> text", part),
    ("regexp_substr", "text,text,int4,int4,text -> text", part),
    ("regexp_substr", "text,text,int4,int4,text,int4 -> text", part),
    ("regexp_split_to_array", "text,text -> text[]", |call| split(call, "")),
    ("regexp_split_to_array", "text,text,text -> text[]", |call| split(call, call.text(2))),
];

/// Fails with 22023 for a flag that a function does not take.
fn not_global<'a>(flags: &'a str, function: &str) -> Result<&'a str> {
    match flags.contains('g') {
        true => Err(invalid(format!("{function}() does not support the \"global\" option"))),
        false => Ok(flags),
    }
}

/// Returns the groups of a match, or the whole of it if the pattern has none.
fn groups(found: &Captures<'_>) -> Vec<Value> {
    let from = usize::from(found.len() > 1);
    let group = |at| found.get(at).map_or(Value::Null, |group| Value::text(group.as_str()));
    (from..found.len()).map(group).collect()
}

fn first_match(call: &Call<'_>, flags: &str) -> Result<Value> {
    let regex = regex_of(call.text(1), not_global(flags, "regexp_match")?)?;
    match regex.captures(call.text(0)) {
        Some(found) => array(&DataType::Text, groups(&found)),
        None => Ok(Value::Null),
    }
}

/// Returns the arrays that `regexp_matches` gives, each as text: there are no arrays of arrays.
fn all_matches(call: &Call<'_>, flags: &str) -> Result<Value> {
    let regex = regex_of(call.text(1), flags)?;
    let count = if flags.contains('g') { usize::MAX } else { 1 };
    let mut out = Vec::new();
    for found in from(&regex, call.text(0), 0).take(count) {
        let found = relational::Array::of(DataType::Text, groups(&found));
        out.push(Value::text(array_text(&found, &call.context.settings)));
    }
    array(&DataType::Text, out)
}

fn split(call: &Call<'_>, flags: &str) -> Result<Value> {
    let regex = regex_of(call.text(1), not_global(flags, "regexp_split_to_array")?)?;
    let text = call.text(0);
    let (mut parts, mut at) = (Vec::new(), 0);
    for found in from(&regex, text, 0) {
        let Some(whole) = found.get(0) else { continue };
        // An empty match splits between two characters only.
        if whole.is_empty() && (whole.start() == at || whole.start() == text.len()) {
            continue;
        }
        parts.push(Value::text(&text[at..whole.start()]));
        at = whole.end();
    }
    parts.push(Value::text(&text[at..]));
    array(&DataType::Text, parts)
}

/// Returns an argument, which must be at least `least`; the default where it is not given.
fn number(call: &Call<'_>, at: usize, name: &str, least: i64, default: i64) -> Result<i64> {
    if at >= call.arguments.len() {
        return Ok(default);
    }
    match call.int(at) {
        value if value >= least => Ok(value),
        value => Err(invalid(format!("invalid value for parameter \"{name}\": {value}"))),
    }
}

/// Returns the byte at which a search begins, by the argument `start`; nothing behind the end.
fn start_of(call: &Call<'_>) -> Result<Option<usize>> {
    let start = number(call, 2, "start", 1, 1)? - 1;
    let text = call.text(0);
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    Ok(usize::try_from(start).ok().and_then(|start| places.nth(start)))
}

/// Returns the matches from a byte on.
fn from<'r, 't>(
    regex: &'r Regex,
    text: &'t str,
    start: usize,
) -> impl Iterator<Item = Captures<'t>> + use<'r, 't> {
    let mut next = Some(start);
    std::iter::from_fn(move || {
        let at = next.filter(|at| *at <= text.len())?;
        let found = regex.captures_at(text, at)?;
        let whole = found.get(0)?;
        // The search continues one character behind an empty match.
        next = match whole.is_empty() {
            false => Some(whole.end()),
            true => text[whole.end()..].chars().next().map(|c| whole.end() + c.len_utf8()),
        };
        Some(found)
    })
}

fn count(call: &Call<'_>) -> Result<Value> {
    let flags = if call.arguments.len() > 3 { call.text(3) } else { "" };
    let regex = regex_of(call.text(1), not_global(flags, "regexp_count")?)?;
    match start_of(call)? {
        Some(start) => int4(from(&regex, call.text(0), start).count() as i64),
        None => Ok(Value::Int4(0)),
    }
}

/// Returns the bytes of the wanted group of the wanted match.
fn wanted(
    call: &Call<'_>,
    function: &str,
    (flags, group): (usize, usize),
) -> Result<Option<(usize, usize)>> {
    let number_of_match = number(call, 3, "n", 1, 1)?;
    let group = number(call, group, "subexpr", 0, 0)?;
    let flags = if call.arguments.len() > flags { call.text(flags) } else { "" };
    let regex = regex_of(call.text(1), not_global(flags, function)?)?;
    let Some(start) = start_of(call)? else { return Ok(None) };
    let at = usize::try_from(number_of_match - 1).unwrap_or(usize::MAX);
    let found = from(&regex, call.text(0), start).nth(at);
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    let found = found.as_ref().and_then(|found| found.get(group));
    Ok(found.map(|found| (found.start(), found.end())))
}

fn place(call: &Call<'_>) -> Result<Value> {
    let is_end = match number(call, 4, "endoption", 0, 0)? {
        end @ (0 | 1) => end == 1,
        other => {
            return Err(invalid(format!("invalid value for parameter \"endoption\": {other}")));
        }
    };
    let Some((start, end)) = wanted(call, "regexp_instr", (5, 6))? else {
        return Ok(Value::Int4(0));
    };
    let before = &call.text(0)[..if is_end { end } else { start }];
    int4(before.chars().count() as i64 + 1)
}

fn part(call: &Call<'_>) -> Result<Value> {
    match wanted(call, "regexp_substr", (4, 5))? {
        Some((start, end)) => text(&call.text(0)[start..end]),
        None => Ok(Value::Null),
    }
}
