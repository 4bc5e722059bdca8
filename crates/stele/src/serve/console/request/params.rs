//! Parameters of a request of the API.
//!
//! Invariant: an unknown parameter and one that comes twice are refused, so that a misspelt bound is
//! not a request without it.

use super::failure::Failure;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::collections::BTreeMap;

/// The parameters of a query string.
#[derive(Debug, Default)]
pub(in super::super) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads a query string, which may have these parameters.
    pub(in super::super) fn of(query: Option<String>, known: &[&str]) -> Result<Self, Failure> {
        let mut params = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let known = known.join(", ");
                return Err(Failure::parameter(&name, format!("is not one of {known}")));
            }
            if params.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(Failure::parameter(&name, "comes twice"));
            }
        }
        Ok(Self(params))
    }

    /// Returns a text; nothing if it is not there.
    pub(in super::super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a text that has to be there.
    pub(in super::super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name).ok_or_else(|| Failure::parameter(name, "is missing"))
    }

    /// Returns bytes, which stand there as base64url without padding; none if it is not there.
    pub(in super::super) fn bytes(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(self.text(name).unwrap_or_default());
        decoded.map_err(|_| Failure::parameter(name, "must be base64url without padding"))
    }

    /// Returns a number of at most `most`; nothing if it is not there.
    pub(in super::super) fn number(&self, name: &str, most: u64) -> Result<Option<u64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if number <= most => Ok(Some(number)),
            _ => Err(Failure::parameter(name, format!("must be a number from 0 to {most}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<Params, Failure> {
        Params::of(Some(query.to_owned()), &["table", "start", "limit"])
    }

    #[test]
    fn parameters_are_read_or_refused_by_name() {
        let params = of("table=a%2Fb%20%C3%A9&start=_-8&limit=7").unwrap();
        assert_eq!(params.required("table").unwrap(), "a/b é");
        assert_eq!(params.bytes("start").unwrap(), [0xff, 0xef]);
        assert_eq!(params.number("limit", 7).unwrap(), Some(7));
        let none = Params::of(None, &[]).unwrap();
        assert_eq!((none.text("table"), none.bytes("start").unwrap().len()), (None, 0));
        assert_eq!(none.number("limit", 1).unwrap(), None);
        for (query, name) in
            [("tabel=x", "tabel"), ("table=a&table=b", "table"), ("%ff=1", "\u{fffd}")]
        {
            let failure = of(query).unwrap_err();
            assert!(failure.message.starts_with(name), "{query}: {failure:?}");
        }
        for query in ["start=a", "start=%2B/8", "start=_-8=", "limit=8", "limit=-1", "limit=x"] {
            let params = of(query).unwrap();
            let failed = params.bytes("start").is_err() || params.number("limit", 7).is_err();
            assert!(failed, "{query}");
        }
        assert!(none.required("table").is_err());
    }
}
