//! Table schemas, families, value types and GC rules, both ways between messages and the table
//! layer.

use crate::api::admin;
use crate::api::admin::table::{ClusterState, TimestampGranularity, View, cluster_state};
use crate::api::admin::r#type::aggregate::{Aggregator, Max, Min, Sum};
use crate::api::admin::r#type::int64;
use crate::api::admin::r#type::{self, Kind};
use crate::api::admin::{gc_rule, modify_column_families_request};
use crate::call::status;
use modify_column_families_request::modification::Mod;
use std::time::Duration;
use table::limits::GC_DEPTH_MAX;
use table::{
    Aggregate, Error, FamilyChange, FamilySchema, FamilySpec, GcRule, Result, TableSchema,
    ValueType,
};
use tonic::Status;

/// Returns the parts of a table that `view` shows; `unspecified` is the default of the method.
pub(crate) fn view(view: i32, unspecified: View) -> Result<View> {
    match View::try_from(view) {
        Ok(View::Unspecified) => Ok(unspecified),
        Ok(view) => Ok(view),
        Err(_) => Err(Error::invalid("view", format!("{view} is not a view"))),
    }
}

/// Returns a table as a message; `clusters` are the clusters of its instance.
pub(crate) fn table_message(schema: &TableSchema, view: View, clusters: &[String]) -> admin::Table {
    let mut table = admin::Table { name: schema.name.to_string(), ..Default::default() };
    if matches!(view, View::Unspecified | View::SchemaView | View::Full) {
        table.granularity = TimestampGranularity::Millis as i32;
        table.deletion_protection = schema.deletion_protection;
        table.column_families = schema
            .families
            .iter()
            .map(|(name, family)| (name.to_string(), family_message(family)))
            .collect();
    }
    if matches!(view, View::ReplicationView | View::EncryptionView | View::Full) {
        let replication_state = cluster_state::ReplicationState::Ready as i32;
        let state = ClusterState { replication_state, ..Default::default() };
        table.cluster_states =
            clusters.iter().map(|cluster| (cluster.clone(), state.clone())).collect();
    }
    table
}

fn family_message(family: &FamilySchema) -> admin::ColumnFamily {
    admin::ColumnFamily {
        gc_rule: gc_message(&family.gc),
        value_type: value_type_message(family.value_type),
    }
}

/// The family that a message describes.
pub(crate) fn family_spec(family: admin::ColumnFamily) -> Result<FamilySpec, Status> {
    let gc =
        gc_rule(family.gc_rule).map_err(|error| status::from_error(error.within("gc_rule")))?;
    Ok(FamilySpec { gc, value_type: value_type(family.value_type)? })
}

/// One change of `ModifyColumnFamilies`.
pub(crate) fn family_change(
    wire: modify_column_families_request::Modification,
) -> Result<FamilyChange, Status> {
    let name = wire.id;
    Ok(match wire.r#mod {
        Some(Mod::Create(family)) => FamilyChange::Create { name, spec: family_spec(family)? },
        Some(Mod::Update(family)) => {
            // Without a mask an update is of the rule, as it was before families had types.
            let paths = wire.update_mask.map_or_else(Vec::new, |mask| mask.paths);
            let (mut takes_gc, mut takes_type) = (paths.is_empty(), family.value_type.is_some());
            for path in &paths {
                match path.split('.').next() {
                    Some("gc_rule") => takes_gc = true,
                    Some("value_type") => takes_type = true,
                    _ => {
                        let rule = format!("`{path}` is neither gc_rule nor value_type");
                        return Err(status::from_error(Error::invalid("update_mask", rule)));
                    }
                }
            }
            let spec = family_spec(family)?;
            FamilyChange::Update {
                name,
                gc: takes_gc.then_some(spec.gc),
                value_type: takes_type.then_some(spec.value_type),
            }
        }
        Some(Mod::Drop(true)) => FamilyChange::Drop { name },
        Some(Mod::Drop(false)) => {
            return Err(status::from_error(Error::invalid("drop", "must be true")));
        }
        None => return Err(status::from_error(Error::invalid("mod", "is not set"))),
    })
}

fn gc_rule(wire: Option<admin::GcRule>) -> Result<GcRule> {
    match wire {
        None | Some(admin::GcRule { rule: None }) => Ok(GcRule::KeepAll),
        Some(rule) => nested_gc_rule(rule, GC_DEPTH_MAX),
    }
}

/// Converts a rule that may nest at most `depth` deep.
fn nested_gc_rule(wire: admin::GcRule, depth: usize) -> Result<GcRule> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(Error::invalid("", format!("is nested more than {GC_DEPTH_MAX} deep")));
    };
    let rule = wire.rule.ok_or_else(|| Error::invalid("", "a nested rule is not set"))?;
    let list = |rules: Vec<admin::GcRule>| {
        rules.into_iter().map(|rule| nested_gc_rule(rule, below)).collect::<Result<Vec<_>>>()
    };
    Ok(match rule {
        gc_rule::Rule::MaxNumVersions(versions) => u32::try_from(versions)
            .map(GcRule::MaxVersions)
            .map_err(|_| Error::invalid("max_num_versions", "must be at least 1"))?,
        gc_rule::Rule::MaxAge(age) => Duration::try_from(age)
            .map(GcRule::MaxAge)
            .map_err(|_| Error::invalid("max_age", "must be at least one millisecond"))?,
        gc_rule::Rule::Intersection(all) => GcRule::Intersection(list(all.rules)?),
        gc_rule::Rule::Union(any) => GcRule::Union(list(any.rules)?),
    })
}

fn gc_message(rule: &GcRule) -> Option<admin::GcRule> {
    let list = |rules: &[GcRule]| rules.iter().filter_map(gc_message).collect();
    let rule = match rule {
        GcRule::KeepAll => return None,
        GcRule::MaxVersions(versions) => {
            gc_rule::Rule::MaxNumVersions(i32::try_from(*versions).unwrap_or(i32::MAX))
        }
        GcRule::MaxAge(age) => gc_rule::Rule::MaxAge(prost_types::Duration {
            seconds: i64::try_from(age.as_secs()).unwrap_or(i64::MAX),
            nanos: age.subsec_nanos() as i32,
        }),
        GcRule::Intersection(rules) => {
            gc_rule::Rule::Intersection(gc_rule::Intersection { rules: list(rules) })
        }
        GcRule::Union(rules) => gc_rule::Rule::Union(gc_rule::Union { rules: list(rules) }),
    };
    Some(admin::GcRule { rule: Some(rule) })
}

fn value_type(wire: Option<admin::Type>) -> Result<ValueType, Status> {
    let Some(kind) = wire.and_then(|wire| wire.kind) else { return Ok(ValueType::Raw) };
    match kind {
        Kind::BytesType(_) => Ok(ValueType::Raw),
        Kind::AggregateType(aggregate) => aggregate_type(*aggregate).map(ValueType::Aggregate),
        _ => Err(status::unsupported("value types other than bytes and aggregates are")),
    }
}

fn aggregate_type(wire: r#type::Aggregate) -> Result<Aggregate, Status> {
    let input = wire.input_type.and_then(|input| input.kind);
    if !matches!(&input, None | Some(Kind::Int64Type(_))) {
        return Err(status::unsupported("aggregates of an input_type other than int64 are"));
    }
    if let Some(Kind::Int64Type(r#type::Int64 { encoding: Some(encoding) })) = &input
        && !matches!(encoding.encoding, None | Some(int64::encoding::Encoding::BigEndianBytes(_)))
    {
        return Err(status::unsupported("an int64 encoding other than big_endian_bytes is"));
    }
    match wire.aggregator {
        Some(Aggregator::Sum(_)) => Ok(Aggregate::SumInt64),
        Some(Aggregator::Min(_)) => Ok(Aggregate::MinInt64),
        Some(Aggregator::Max(_)) => Ok(Aggregate::MaxInt64),
        Some(Aggregator::HllppUniqueCount(_)) => {
            Err(status::unsupported("the aggregator hllpp_unique_count is"))
        }
        None => {
            let error = Error::invalid("value_type.aggregate_type.aggregator", "is not set");
            Err(status::from_error(error))
        }
    }
}

/// Raw families have no value type in messages, as those created without one.
fn value_type_message(value_type: ValueType) -> Option<admin::Type> {
    let ValueType::Aggregate(aggregate) = value_type else { return None };
    let aggregator = match aggregate {
        Aggregate::SumInt64 => Aggregator::Sum(Sum {}),
        Aggregate::MinInt64 => Aggregator::Min(Min {}),
        Aggregate::MaxInt64 => Aggregator::Max(Max {}),
    };
    let big_endian = int64::encoding::Encoding::BigEndianBytes(Default::default());
    let encoding = int64::Encoding { encoding: Some(big_endian) };
    let int64 =
        admin::Type { kind: Some(Kind::Int64Type(r#type::Int64 { encoding: Some(encoding) })) };
    let aggregate = r#type::Aggregate {
        input_type: Some(Box::new(int64.clone())),
        state_type: Some(Box::new(int64)),
        aggregator: Some(aggregator),
    };
    Some(admin::Type { kind: Some(Kind::AggregateType(Box::new(aggregate))) })
}
