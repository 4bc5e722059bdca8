//! A table's schema in words.

use serde_json::{Value, json};
use table::{Aggregate, GcRule, Granularity, Int64Encoding, ScalarType, TableSchema, ValueType};

/// Families that an answer has.
const FAMILIES_MAX: usize = 1_000;

/// Returns a schema for people: rules and types are texts.
pub(super) fn told(schema: &TableSchema) -> Value {
    let families = schema.families.values().take(FAMILIES_MAX).map(|family| {
        json!({
            "name": &*family.name,
            "gc": rule(&family.gc),
            "type": value_type(family.value_type),
        })
    });
    let key = schema.row_key_schema.as_ref().map(|key| {
        let fields = key.fields.iter();
        let fields = fields.map(|(name, of)| json!({"name": name, "type": scalar(*of)}));
        fields.collect::<Vec<_>>()
    });
    json!({
        "name": schema.name.as_str(),
        "families": families.collect::<Vec<_>>(),
        "family_count": schema.families.len(),
        "tablets": schema.tablets.len(),
        "deletion_protection": schema.deletion_protection,
        "created_ms": schema.created_micros / 1_000,
        "timestamps": match schema.granularity {
            Granularity::Millis => "milliseconds",
            Granularity::Micros => "microseconds",
        },
        "row_key_fields": key,
    })
}

/// Returns a rule as a sentence that tells which cells may vanish.
fn rule(of: &GcRule) -> String {
    let joined = |rules: &[GcRule], word: &str| {
        let parts = rules.iter().map(|part| match part {
            GcRule::Union(_) | GcRule::Intersection(_) => format!("({})", rule(part)),
            _ => rule(part),
        });
        parts.collect::<Vec<_>>().join(word)
    };
    match of {
        GcRule::KeepAll => "keeps every cell".to_owned(),
        GcRule::MaxVersions(1) => "all but the newest version".to_owned(),
        GcRule::MaxVersions(most) => format!("all but the newest {most} versions"),
        GcRule::MaxAge(age) => format!("older than {}", span(age.as_secs_f64())),
        GcRule::Union(rules) => joined(rules, " or "),
        GcRule::Intersection(rules) => joined(rules, " and "),
    }
}

/// Returns a time span in its largest unit that leaves a whole number.
fn span(seconds: f64) -> String {
    let whole = |unit: f64| seconds >= unit && (seconds / unit).fract() == 0.0;
    for (unit, name) in [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")] {
        if whole(unit) {
            return format!("{} {name}", seconds / unit);
        }
    }
    format!("{seconds} seconds")
}

fn value_type(of: ValueType) -> &'static str {
    match of {
        ValueType::Raw => "bytes",
        ValueType::Scalar(of) => scalar(of),
        ValueType::Aggregate(of) => aggregate(of),
    }
}

fn scalar(of: ScalarType) -> &'static str {
    match of {
        ScalarType::Bytes => "bytes",
        ScalarType::String => "string",
        ScalarType::Int64(Int64Encoding::BigEndianBytes) => "int64, big-endian",
        ScalarType::Int64(Int64Encoding::OrderedCodeBytes) => "int64, ordered code",
        ScalarType::Timestamp(Int64Encoding::BigEndianBytes) => "timestamp, big-endian",
        ScalarType::Timestamp(Int64Encoding::OrderedCodeBytes) => "timestamp, ordered code",
    }
}

fn aggregate(of: Aggregate) -> &'static str {
    match of {
        Aggregate::SumInt64 => "sum of int64",
        Aggregate::MinInt64 => "minimum of int64",
        Aggregate::MaxInt64 => "maximum of int64",
        Aggregate::Unique(_) => "number of different values (HyperLogLog++)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rules_read_as_sentences() {
        let age = |seconds| GcRule::MaxAge(Duration::from_secs(seconds));
        let both = GcRule::Intersection(vec![GcRule::MaxVersions(3), age(7_200)]);
        for (of, want) in [
            (GcRule::KeepAll, "keeps every cell"),
            (GcRule::MaxVersions(1), "all but the newest version"),
            (age(86_400 * 30), "older than 30 days"),
            (age(90), "older than 90 seconds"),
            (both.clone(), "all but the newest 3 versions and older than 2 hours"),
            (
                GcRule::Union(vec![both, age(60)]),
                "(all but the newest 3 versions and older than 2 hours) or older than 1 minutes",
            ),
        ] {
            assert_eq!(rule(&of), want);
        }
    }
}
