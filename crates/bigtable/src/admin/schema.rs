//! Table schemas, families and GC rules, both ways between messages and the table layer.

use crate::admin::types;
use crate::api::admin;
use crate::api::admin::table::{ClusterState, TimestampGranularity, View, cluster_state};
use crate::api::admin::{gc_rule, modify_column_families_request};
use crate::call::status;
use modify_column_families_request::modification::Mod;
use std::time::Duration;
use table::limits::{CHANGE_RETENTIONS, GC_DEPTH_MAX};
use table::{
    Bytes, CreateTable, Error, FamilyChange, FamilySchema, FamilySpec, GcRule, Granularity, Result,
    TableName, TableSchema,
};
use tonic::Status;

/// `TimestampGranularity.MICROS`, which the published crate does not have yet.
const MICROS: i32 = 2;

/// The granularity of a new table.
pub(crate) fn granularity(wire: i32) -> Result<Granularity> {
    match wire {
        MICROS => Ok(Granularity::Micros),
        wire if TimestampGranularity::try_from(wire).is_ok() => Ok(Granularity::Millis),
        _ => Err(Error::invalid("table.granularity", "must be MILLIS or MICROS")),
    }
}

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
        table.granularity = match schema.granularity {
            Granularity::Millis => TimestampGranularity::Millis as i32,
            Granularity::Micros => MICROS,
        };
        table.row_key_schema = schema.row_key_schema.as_ref().map(types::row_key_schema_message);
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

/// Returns the message of what cells of a table need elsewhere: its granularity, its families with rules
/// and types, and the schema of its keys. It names no table.
pub fn schema_message(schema: &TableSchema) -> admin::Table {
    let table = table_message(schema, View::SchemaView, &[]);
    admin::Table { name: String::new(), deletion_protection: false, ..table }
}

/// Returns the new table `name` that a message of [`schema_message`] describes. `InvalidArgument` for a
/// message that describes none.
pub fn table_of_message(
    name: TableName,
    splits: Vec<Bytes>,
    table: admin::Table,
) -> Result<CreateTable, Status> {
    let families = table.column_families.into_iter();
    let families = families.map(|(name, family)| Ok((name, family_spec(family)?)));
    Ok(CreateTable {
        name,
        families: families.collect::<Result<_, Status>>()?,
        splits,
        deletion_protection: table.deletion_protection,
        granularity: granularity(table.granularity).map_err(status::from_error)?,
        row_key_schema: types::row_key_schema(table.row_key_schema)?,
    })
}

/// Returns how long the changes of a table are kept.
pub(crate) fn change_retention(
    config: Option<admin::ChangeStreamConfig>,
) -> Result<Option<Duration>> {
    let Some(config) = config else { return Ok(None) };
    let field = "change_stream_config.retention_period";
    let Some(wire) = config.retention_period else {
        return Err(Error::invalid(field, "is not set"));
    };
    let retention = Duration::try_from(wire).ok();
    let retention = retention.filter(|period| CHANGE_RETENTIONS.contains(period));
    match retention {
        // Whole microseconds.
        Some(period) => Ok(Some(Duration::from_micros(period.as_micros() as u64))),
        None => Err(Error::invalid(field, "must be at least 1 day and at most 7 days")),
    }
}

/// Returns the message of it.
pub(crate) fn change_stream_config(retention: Duration) -> admin::ChangeStreamConfig {
    admin::ChangeStreamConfig { retention_period: retention.try_into().ok() }
}

fn family_message(family: &FamilySchema) -> admin::ColumnFamily {
    admin::ColumnFamily {
        gc_rule: gc_message(&family.gc),
        value_type: types::value_type_message(family.value_type),
    }
}

/// The family that a message describes.
pub(crate) fn family_spec(family: admin::ColumnFamily) -> Result<FamilySpec, Status> {
    let gc =
        gc_rule(family.gc_rule).map_err(|error| status::from_error(error.within("gc_rule")))?;
    Ok(FamilySpec { gc, value_type: types::value_type(family.value_type)? })
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
            let (mut takes_gc, mut takes_type) = (paths.is_empty(), false);
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
