//! The settings of a session: `SET`, `SHOW`, `RESET`.
//!
//! Invariants:
//! 1. A value is checked before it is kept, and kept in the form in which `SHOW` prints it.
//! 2. A rollback takes back every `SET` since its start; the end of a transaction every `SET LOCAL`.
//! 3. A client learns of each change of a reported setting before the next ready message.

use super::known::{KNOWN, Kind, Known, find};
use crate::expression::Show;
use crate::values;
use relational::{Error, Result, SqlState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest value of a setting, in bytes.
const VALUE_BYTES_MAX: usize = 8 << 10;
/// Most settings with names of a client's own, such as `app.user`.
const OWN_MAX: usize = 256;

/// Span of time for which a `SET` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    Session,
    /// Until the end of the transaction.
    Local,
}

/// Values by the names of their settings, in lower case.
type Values = BTreeMap<String, String>;

/// Values that differ from the defaults; what a rollback restores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    session: Values,
    local: Values,
}

/// The settings of one session.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Values of the start, to which `RESET` returns.
    initial: Values,
    now: Arc<Saved>,
    /// Values that the client was told.
    told: Values,
    derived: Arc<values::Settings>,
    path: Arc<[String]>,
    times: Times,
    /// False if a setting changed since the client was told.
    is_told: bool,
}

/// Longest times that each statement or pause looks at; nothing for one that is off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) statement: Option<Duration>,
    pub(crate) lock: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) idle_in_transaction: Option<Duration>,
}

impl Settings {
    /// Returns the settings of a session of `user`, which the client has set nothing of.
    pub(crate) fn new(user: &str, is_superuser: bool, version: &str) -> Self {
        let on = if is_superuser { "on" } else { "off" };
        let fixed = [
            ("session_authorization", user.to_owned()),
            ("is_superuser", on.to_owned()),
            ("server_version", format!("15.0 (Stele {version})")),
        ];
        let initial = fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut settings = Self {
            initial,
            now: Arc::default(),
            told: Values::new(),
            derived: Arc::default(),
            path: Arc::from([]),
            times: Times::default(),
            is_told: false,
        };
        settings.derive();
        settings
    }

    /// Sets the values of a start, which become the defaults of the session.
    pub(crate) fn start(&mut self, wanted: &[(String, String)]) -> Result<()> {
        for (name, value) in wanted {
            self.set(name, value, Span::Session)?;
        }
        let set = std::mem::take(&mut Arc::make_mut(&mut self.now).session);
        self.initial.extend(set);
        self.derive();
        Ok(())
    }

    /// Returns the value of the setting `name` as `SHOW` prints it.
    pub(crate) fn show(&self, name: &str) -> Result<String> {
        let key = key_of(name);
        let set = [&self.now.local, &self.now.session, &self.initial];
        let set = set.iter().find_map(|values| values.get(&key)).cloned();
        set.or_else(|| find(name).map(|known| known.default.to_owned()))
            .ok_or_else(|| unknown(name))
    }

    /// Returns name and value of every setting, in the order of their names.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        let value = |known: &Known| self.show(known.name).unwrap_or_default();
        KNOWN.iter().map(|known| (known.name, value(known))).collect()
    }

    /// Sets the setting `name` to `value` for a span.
    pub(crate) fn set(&mut self, name: &str, value: &str, span: Span) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(invalid(name, "…"));
        }
        let value = match find(name) {
            Some(known) => checked(known, value)?,
            None if name.contains('.') && self.has_room_for(&key_of(name)) => value.to_owned(),
            None => return Err(unknown(name)),
        };
        let now = Arc::make_mut(&mut self.now);
        match span {
            Span::Local => now.local.insert(key_of(name), value),
            Span::Session => {
                now.local.remove(&key_of(name));
                now.session.insert(key_of(name), value)
            }
        };
        self.derive();
        Ok(())
    }

    /// Returns whether a setting of a client's own may be set.
    fn has_room_for(&self, key: &str) -> bool {
        let Saved { session, local } = self.now.as_ref();
        let is_known = session.contains_key(key) || local.contains_key(key);
        is_known || session.len() + local.len() < OWN_MAX
    }

    /// Takes back what the session set of `name`.
    pub(crate) fn reset(&mut self, name: &str) -> Result<()> {
        match find(name) {
            Some(known) if known.kind == Kind::Fixed => return Err(fixed(known.name)),
            None if !name.contains('.') => return Err(unknown(name)),
            _ => {}
        }
        let now = Arc::make_mut(&mut self.now);
        now.local.remove(&key_of(name));
        now.session.remove(&key_of(name));
        self.derive();
        Ok(())
    }

    /// Takes back everything that the session set.
    pub(crate) fn reset_all(&mut self) {
        self.restore(Arc::default());
    }

    /// Returns what [`Settings::restore`] brings back.
    pub(crate) fn save(&self) -> Arc<Saved> {
        Arc::clone(&self.now)
    }

    /// Brings back values that were saved.
    pub(crate) fn restore(&mut self, saved: Arc<Saved>) {
        if self.now != saved {
            self.now = saved;
            self.derive();
        }
    }

    /// Forgets what was set for the transaction.
    pub(crate) fn end_transaction(&mut self) {
        if !self.now.local.is_empty() {
            Arc::make_mut(&mut self.now).local.clear();
            self.derive();
        }
    }

    /// Returns reported settings whose values the client does not know, and counts them as told.
    pub(crate) fn untold(&mut self) -> Vec<(&'static str, String)> {
        if std::mem::replace(&mut self.is_told, true) {
            return Vec::new();
        }
        let mut news = Vec::new();
        for known in KNOWN.iter().filter(|known| known.is_reported) {
            let value = self.show(known.name).unwrap_or_default();
            if self.told.get(known.name) != Some(&value) {
                self.told.insert(known.name.to_owned(), value.clone());
                news.push((known.name, value));
            }
        }
        news
    }

    /// Returns the settings that forms of values depend on.
    pub(crate) fn of_values(&self) -> &Arc<values::Settings> {
        &self.derived
    }

    /// Returns the names of the schemas in which names without one are looked for.
    pub(crate) fn path(&self) -> &Arc<[String]> {
        &self.path
    }

    /// Returns what tells a setting as it is now.
    pub(crate) fn shown(&self) -> Show {
        let settings = self.clone();
        Arc::new(move |name: &str| settings.show(name).ok())
    }

    /// Returns the times that are looked at often.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }

    fn time(&self, name: &str) -> Option<Duration> {
        let millis = self.show(name).ok().and_then(|value| millis(&value)).unwrap_or_default();
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Returns whether a setting that is a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.show(name).is_ok_and(|value| value == "on")
    }

    /// Returns the names of schemas in which names without one are looked for.
    pub(crate) fn search_path(&self, user: &str) -> Vec<String> {
        let path = self.show("search_path").unwrap_or_default();
        let names = split_names(&path).unwrap_or_default();
        names.into_iter().map(|name| if name == "$user" { user.to_owned() } else { name }).collect()
    }

    fn derive(&mut self) {
        let show = |name: &str| self.show(name).unwrap_or_default();
        let path = self.search_path(&show("session_authorization"));
        let derived = values::Settings::from_texts(&show, path.clone());
        (self.derived, self.path) = (Arc::new(derived), path.into());
        self.times = Times {
            statement: self.time("statement_timeout"),
            lock: self.time("lock_timeout"),
            idle: self.time("idle_session_timeout"),
            idle_in_transaction: self.time("idle_in_transaction_session_timeout"),
        };
        self.is_told = false;
    }
}

fn key_of(name: &str) -> String {
    find(name).map_or(name, |known| known.name).to_lowercase()
}

fn unknown(name: &str) -> Error {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}

fn fixed(name: &str) -> Error {
    let message = format!("parameter \"{name}\" cannot be changed");
    Error::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message)
}

fn invalid(name: &str, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Checks a value of a setting that exists. Returns it in the form of `SHOW`.
pub(super) fn checked_by_name(name: &str, value: &str) -> Result<String> {
    checked(find(name).ok_or_else(|| unknown(name))?, value)
}

/// Checks a value. Returns it in the form of `SHOW`.
fn checked(known: &Known, value: &str) -> Result<String> {
    let trimmed = value.trim();
    let refused = || invalid(known.name, value);
    match known.kind {
        Kind::Fixed => Err(fixed(known.name)),
        Kind::Text => Ok(value.to_owned()),
        Kind::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" | "t" | "y" => Ok("on".into()),
            "off" | "false" | "no" | "0" | "f" | "n" => Ok("off".into()),
            _ => Err(refused()),
        },
        Kind::Int(min, max) => match trimmed.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number.to_string()),
            Ok(number) => Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!(
                    "{number} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                    known.name
                ),
            )),
            Err(_) => Err(refused()),
        },
        Kind::Time => millis(trimmed).map(show_millis).ok_or_else(refused),
        Kind::Memory => {
            let is_memory = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            is_memory.parse::<u64>().map(|_| trimmed.to_owned()).map_err(|_| refused())
        }
        Kind::Word(words) => {
            let found = words.iter().find(|word| word.eq_ignore_ascii_case(trimmed));
            found.map(|word| (*word).to_owned()).ok_or_else(refused)
        }
        Kind::Encoding => {
            let letters = trimmed.chars().filter(char::is_ascii_alphanumeric);
            match letters.collect::<String>().to_ascii_uppercase().as_str() {
                "UTF8" | "UNICODE" | "SQLASCII" => Ok("UTF8".into()),
                _ => Err(refused().with_detail("The only client encoding is UTF8.")),
            }
        }
        Kind::DateStyle => date_style(trimmed).ok_or_else(refused),
        Kind::TimeZone => values::time_zone_name(trimmed).ok_or_else(refused),
        Kind::SearchPath => split_names(value).map(|_| value.to_owned()).ok_or_else(refused),
    }
}

/// Returns the output style, which is always ISO, with the order of day and month that `value` names.
fn date_style(value: &str) -> Option<String> {
    let mut order = "MDY";
    for word in value.split(',').map(|word| word.trim().to_ascii_uppercase()) {
        match word.as_str() {
            "ISO" | "DEFAULT" => {}
            "MDY" | "US" | "NONEURO" | "NONEUROPEAN" => order = "MDY",
            "DMY" | "EURO" | "EUROPEAN" => order = "DMY",
            "YMD" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}

/// Returns the milliseconds that `value` says, with or without a unit.
fn millis(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: u64 = value[..digits].parse().ok()?;
    let factor = match value[digits..].trim() {
        "" | "ms" => 1,
        "us" => return Some(number.div_ceil(1_000)),
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|millis| *millis <= i32::MAX as u64)
}

fn show_millis(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    let unit = units.iter().find(|(size, _)| millis > 0 && millis.is_multiple_of(*size));
    match (millis, unit) {
        (0, _) => "0".into(),
        (_, Some((size, unit))) => format!("{}{unit}", millis / size),
        (_, None) => format!("{millis}ms"),
    }
}

/// Splits names at commas, folds them as identifiers and takes their quotes away.
fn split_names(text: &str) -> Option<Vec<String>> {
    let (mut names, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let name = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            rest = &quoted[end + 1..];
            quoted[..end].to_owned()
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let name = rest[..end].trim().to_ascii_lowercase();
            rest = &rest[end..];
            name
        };
        names.push(name);
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => rest = more.trim_start(),
            Some(_) => return None,
            None if rest.is_empty() => {}
            None => return None,
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Settings {
        Settings::new("ada", true, "1.2.3")
    }

    #[test]
    fn values_are_checked_and_shown_in_one_form() {
        let mut settings = fresh();
        for (name, value, shown) in [
            ("statement_timeout", "5000", "5s"),
            ("STATEMENT_TIMEOUT", "1500", "1500ms"),
            ("lock_timeout", "2min", "2min"),
            ("client_encoding", "utf-8", "UTF8"),
            ("datestyle", "iso, dmy", "ISO, DMY"),
            ("jit", "TRUE", "on"),
            ("extra_float_digits", "3", "3"),
            ("app.user", "x", "x"),
        ] {
            settings.set(name, value, Span::Session).unwrap();
            assert_eq!(settings.show(name).unwrap(), shown, "{name}");
        }
        for (name, value, state) in [
            ("statement_timeout", "soon", "22023"),
            ("extra_float_digits", "4", "22023"),
            ("client_encoding", "LATIN1", "22023"),
            ("standard_conforming_strings", "off", "22023"),
            ("server_version", "1", "55P02"),
            ("nothing", "1", "42704"),
        ] {
            let error = settings.set(name, value, Span::Session).unwrap_err();
            assert_eq!(error.state.to_string(), state, "{name}");
        }
    }

    #[test]
    fn a_rollback_restores_and_an_end_forgets_what_was_local() {
        let mut settings = fresh();
        settings.start(&[("application_name".into(), "psql".into())]).unwrap();
        let saved = settings.save();
        settings.set("work_mem", "8MB", Span::Session).unwrap();
        settings.set("jit", "on", Span::Local).unwrap();
        settings.restore(saved);
        assert_eq!(settings.show("work_mem").unwrap(), "4MB");
        settings.set("jit", "on", Span::Local).unwrap();
        settings.end_transaction();
        assert_eq!(settings.show("jit").unwrap(), "off");
        settings.set("application_name", "x", Span::Session).unwrap();
        settings.reset("application_name").unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "psql");
    }

    #[test]
    fn a_client_is_told_of_changes_once() {
        let mut settings = fresh();
        let all: Vec<_> = settings.untold().into_iter().map(|(name, _)| name).collect();
        for name in ["server_version", "client_encoding", "TimeZone", "DateStyle", "is_superuser"] {
            assert!(all.contains(&name), "{name}");
        }
        assert!(settings.untold().is_empty());
        settings.set("application_name", "x", Span::Session).unwrap();
        assert_eq!(settings.untold(), [("application_name", "x".to_owned())]);
    }

    #[test]
    fn a_search_path_is_split_into_names() {
        let mut settings = fresh();
        assert_eq!(settings.search_path("ada"), ["ada", "public"]);
        settings.set("search_path", "A, \"B c\"", Span::Session).unwrap();
        assert_eq!(settings.search_path("ada"), ["a", "B c"]);
        assert!(settings.set("search_path", "a,", Span::Session).is_err());
    }
}
