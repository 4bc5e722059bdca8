//! The filter and the order of `ListBackups`.
//!
//! A filter is a list of comparisons, joined by `AND`: a field, one of `: = != < <= > >=`, and a value,
//! in quotes if it has spaces. `:` holds if the text contains the value. An order is a list of fields,
//! each with `desc` behind it or not.
//!
//! A page token holds the last backup of its page. The next page begins behind it, whatever backups came
//! and went meanwhile.

use crate::api::admin::Backup;
use crate::api::admin::backup::State;
use crate::api::micros;
use crate::names::{self, shown};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use prost::Message;
use prost_types::Timestamp;
use std::cmp::Ordering;
use table::{Error, Result};

/// Most backups of one page.
const PAGE_MAX: usize = 1_000;
/// Longest filter or order, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// A field of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    SourceTable,
    State,
    StartTime,
    EndTime,
    ExpireTime,
    SizeBytes,
}

/// The content of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text(String),
    Number(i64),
}

impl Field {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "name" => Self::Name,
            "source_table" => Self::SourceTable,
            "state" => Self::State,
            "start_time" => Self::StartTime,
            "end_time" => Self::EndTime,
            "expire_time" => Self::ExpireTime,
            "size_bytes" => Self::SizeBytes,
            _ => return None,
        })
    }

    fn of(self, backup: &Backup) -> Value {
        let time =
            |time: &Option<Timestamp>| Value::Number(time.as_ref().and_then(micros).unwrap_or(0));
        match self {
            Self::Name => Value::Text(backup.name.clone()),
            Self::SourceTable => Value::Text(backup.source_table.clone()),
            Self::State => {
                let state = State::try_from(backup.state).unwrap_or_default();
                Value::Text(state.as_str_name().to_owned())
            }
            Self::StartTime => time(&backup.start_time),
            Self::EndTime => time(&backup.end_time),
            Self::ExpireTime => time(&backup.expire_time),
            Self::SizeBytes => Value::Number(backup.size_bytes),
        }
    }

    /// Returns the value that `text` has for this field.
    fn value(self, text: &str) -> Option<Value> {
        match self {
            Self::Name | Self::SourceTable => Some(Value::Text(text.to_owned())),
            Self::State => Some(Value::Text(text.to_ascii_uppercase())),
            Self::SizeBytes => text.parse().ok().map(Value::Number),
            Self::StartTime | Self::EndTime | Self::ExpireTime => {
                micros(&text.parse::<Timestamp>().ok()?).map(Value::Number)
            }
        }
    }
}

/// A comparison of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: Field,
    operator: &'static str,
    value: Value,
}

/// Operators; a longer one comes before a shorter one that it begins with.
const OPERATORS: [&str; 7] = ["!=", "<=", ">=", ":", "=", "<", ">"];

/// Comparisons that all must hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter(Vec<Term>);

impl Filter {
    /// Returns the filter that `text` describes; an empty text is of all backups.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let invalid = |rule: String| Error::invalid("filter", rule);
        table::limits::check_len("filter", text.len(), TEXT_BYTES_MAX)?;
        let mut terms = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (term, after) = term(rest)
                .ok_or_else(|| invalid(format!("{} is not FIELD OPERATOR VALUE", shown(rest))))?;
            terms.push(term);
            rest = match after.trim_start() {
                "" => "",
                joined => joined
                    .strip_prefix("AND ")
                    .map(str::trim_start)
                    .ok_or_else(|| invalid(format!("{} does not begin with AND", shown(joined))))?,
            };
        }
        Ok(Self(terms))
    }

    /// Returns whether a backup passes.
    pub(super) fn passes(&self, backup: &Backup) -> bool {
        self.0.iter().all(|Term { field, operator, value }| {
            let found = field.of(backup);
            match (*operator, &found, value) {
                (":", Value::Text(found), Value::Text(value)) => found.contains(value.as_str()),
                ("=" | ":", ..) => found == *value,
                ("!=", ..) => found != *value,
                ("<", ..) => found < *value,
                ("<=", ..) => found <= *value,
                (">", ..) => found > *value,
                _ => found >= *value,
            }
        })
    }
}

/// Returns the comparison at the start of `text`, and the text behind it.
fn term(text: &str) -> Option<(Term, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let field = Field::parse(&text[..end])?;
    let rest = text[end..].trim_start();
    let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))?;
    let rest = rest[operator.len()..].trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            rest.split_at(end)
        }
    };
    let value = field.value(value).filter(|_| !value.is_empty())?;
    Some((Term { field, operator, value }, rest))
}

/// Fields by which backups are ordered, the first counts most; true if descending.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order(Vec<(Field, bool)>);

impl Order {
    /// Returns the order that `text` describes; an empty text is of the newest first.
    pub(super) fn parse(text: &str) -> Result<Self> {
        table::limits::check_len("order_by", text.len(), TEXT_BYTES_MAX)?;
        if text.trim().is_empty() {
            return Ok(Self(vec![(Field::StartTime, true)]));
        }
        let fields = text.split(',').map(|part| {
            let mut words = part.split_whitespace();
            let field = words.next().and_then(Field::parse);
            let descending = match (words.next(), words.next()) {
                (None, _) => Some(false),
                (Some(word), None) if word.eq_ignore_ascii_case("desc") => Some(true),
                (Some(word), None) if word.eq_ignore_ascii_case("asc") => Some(false),
                _ => None,
            };
            field.zip(descending).ok_or_else(|| {
                let part = shown(part.trim());
                Error::invalid("order_by", format!("{part} is not a field with `desc` or without"))
            })
        });
        fields.collect::<Result<_>>().map(Self)
    }

    /// Compares two backups; equal ones are in order of name.
    pub(super) fn compare(&self, a: &Backup, b: &Backup) -> Ordering {
        let by_fields = self.0.iter().map(|(field, descending)| {
            let ascending = field.of(a).cmp(&field.of(b));
            if *descending { ascending.reverse() } else { ascending }
        });
        by_fields.fold(Ordering::Equal, Ordering::then).then_with(|| a.name.cmp(&b.name))
    }
}

/// Returns the backups of one page in their order, and the token of the next one.
pub(super) fn page(
    mut backups: Vec<Backup>,
    order: &Order,
    (size, token): (i32, &str),
) -> Result<(Vec<Backup>, String)> {
    let size = match usize::try_from(size) {
        Ok(0) => PAGE_MAX,
        Ok(size) => size.min(PAGE_MAX),
        Err(_) => return Err(Error::invalid("page_size", "must not be negative")),
    };
    if !token.is_empty() {
        let last = last_of(token).ok_or_else(|| Error::invalid("page_token", "is not a token"))?;
        backups.retain(|backup| order.compare(backup, &last) == Ordering::Greater);
    }
    backups.sort_by(|a, b| order.compare(a, b));
    let more = backups.len() > size;
    backups.truncate(size);
    let last = backups.last().filter(|_| more);
    let next = last.map(|last| BASE64_URL_SAFE_NO_PAD.encode(last.encode_to_vec()));
    Ok((backups, next.unwrap_or_default()))
}

/// Returns the last backup of the page before that of the token.
fn last_of(token: &str) -> Option<Backup> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
    let last = Backup::decode(&bytes[..]).ok()?;
    names::backup("page_token", &last.name).is_ok().then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::timestamp;

    fn backup(name: &str, seconds: i64, size_bytes: i64) -> Backup {
        Backup {
            name: name.into(),
            source_table: "tables/orders".into(),
            start_time: Some(timestamp(seconds * 1_000_000)),
            state: State::Ready as i32,
            size_bytes,
            ..Default::default()
        }
    }

    #[test]
    fn filters_compare_texts_numbers_and_times() {
        let one = backup("backups/nightly-1", 100, 1_000);
        for (filter, want) in [
            ("", true),
            ("name:nightly", true),
            ("name:\"weekly\"", false),
            ("source_table = tables/orders", true),
            ("state:ready AND size_bytes >= 1000", true),
            ("state:CREATING", false),
            ("size_bytes>1000", false),
            ("size_bytes != 999 AND name:backups", true),
            ("start_time < \"1970-01-01T00:02:00Z\"", true),
            ("start_time >= 1970-01-01T00:02:00Z", false),
        ] {
            assert_eq!(Filter::parse(filter).unwrap().passes(&one), want, "{filter}");
        }
        let wrong = [
            "name",
            "name:",
            "owner:me",
            "size_bytes > few",
            "name:a OR name:b",
            "name:\"a",
            "NOT name:a",
            "(name:a)",
            "name:a name:b",
            "start_time > 1970-13-01T00:00:00Z",
        ];
        for wrong in wrong {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Filter::parse(&"a".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn orders_have_directions_and_end_in_names() {
        let backups = [backup("b", 1, 5), backup("a", 1, 5), backup("c", 2, 1)];
        let sorted = |order: &str| {
            let order = Order::parse(order).unwrap();
            let mut sorted: Vec<_> = backups.iter().collect();
            sorted.sort_by(|a, b| order.compare(a, b));
            sorted.iter().map(|backup| backup.name.as_str()).collect::<String>()
        };
        for (order, want) in
            [("", "cab"), ("start_time", "abc"), ("size_bytes desc, name desc", "bac")]
        {
            assert_eq!(sorted(order), want, "{order}");
        }
        for wrong in ["owner", "name up", "name desc desc", ","] {
            assert!(Order::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_begins_behind_the_last_one_whatever_came_and_went() {
        let name = |id: &str| format!("projects/p/instances/i/clusters/c/backups/{id}");
        let all = |ids: &str| -> Vec<Backup> {
            ids.chars().map(|id| backup(&name(&id.to_string()), i64::from(id as u32), 1)).collect()
        };
        let order = Order::parse("start_time").unwrap();
        let ids = |backups: &[Backup]| {
            backups.iter().map(|backup| &backup.name[backup.name.len() - 1..]).collect::<String>()
        };
        let (first, token) = page(all("dbac"), &order, (2, "")).unwrap();
        assert_eq!(ids(&first), "ab");
        // The last one of the page is gone, and there is a new one before it.
        let (second, end) = page(all("dac0"), &order, (2, &token)).unwrap();
        assert_eq!((ids(&second).as_str(), end.as_str()), ("cd", ""));
        for wrong in ["?", "AAAA", "CgNhL2I"] {
            assert!(page(all("a"), &order, (0, wrong)).is_err(), "{wrong}");
        }
        assert!(page(all("a"), &order, (-1, "")).is_err());
    }
}
