//! Filters that see some families only.

use crate::api::data::RowFilter;
use crate::api::data::row_filter::{Chain, Filter};
use std::collections::BTreeSet;

/// Returns a filter to which a row looks as if it had these families alone.
pub(crate) fn limited(filter: Option<RowFilter>, families: &BTreeSet<String>) -> RowFilter {
    let names: Vec<_> = families.iter().map(|name| literal(name)).collect();
    let only = RowFilter { filter: Some(Filter::FamilyNameRegexFilter(names.join("|"))) };
    match filter {
        None => only,
        Some(filter) => {
            let filters = vec![only, filter];
            RowFilter { filter: Some(Filter::Chain(Chain { filters })) }
        }
    }
}

/// Returns a regular expression of exactly this name.
fn literal(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() && letter != '_' {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_literally() {
        let families = ["a.b".to_owned(), "c-d".to_owned(), "e_f".to_owned()].into();
        let filter = limited(None, &families).filter;
        assert_eq!(filter, Some(Filter::FamilyNameRegexFilter(r"a\.b|c\-d|e_f".into())));
    }
}
