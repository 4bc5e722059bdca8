//! The parts of messages that the decoder and encoder do not tell us about: oneofs, of which an
//! unknown member reads as none (`members.rs`), and maps, whose empty values are left out
//! (`maps.rs`).
//!
//! The generated messages have no descriptors, so the forms stand here. A test holds them against
//! the decoder, which knows every field: a new version of the API with a new member fails it.
//!
//! Invariants:
//! 1. A request's form lists every message below it that has a oneof, and every reply's form every
//!    map of messages.
//! 2. Field numbers are below 64 in messages with a oneof or such children: sets of fields are bits.

use crate::api::{Empty, admin, data, iam, longrunning};
use crate::wire::mutations;
use prost::Message;

/// A message that services take or give.
pub(crate) trait Formed: Message + Send + 'static {
    /// The form of the message.
    const FORM: &'static Form;
}

/// Oneofs and children of a message.
#[derive(Debug)]
pub(crate) struct Form {
    /// Full name of the message.
    pub(crate) name: &'static str,
    pub(crate) oneofs: &'static [Oneof],
    /// All fields, if there are oneofs.
    pub(crate) known: u64,
    /// Fields that are messages with oneofs or maps in them.
    pub(crate) children: &'static [Child],
    /// The field numbers of the children, as a set.
    nested: u64,
}

/// Fields of which a message has at most one.
#[derive(Debug)]
pub(crate) struct Oneof {
    pub(crate) name: &'static str,
    pub(crate) members: u64,
}

/// A field that is a message.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: &'static str,
    bit: u64,
    pub(crate) holds: Holds,
    /// Form of the message; for a map, of its values.
    pub(crate) form: &'static Form,
}

/// Number of messages in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    One,
    Many,
    Map,
}

impl Form {
    /// Returns the child that is the field of `bit`.
    pub(crate) fn child(&self, bit: u64) -> Option<&'static Child> {
        if self.nested & bit == 0 {
            return None;
        }
        self.children.iter().find(|child| child.bit & bit != 0)
    }
}

/// Returns the bit of a field in a set of them; none for those out of range.
pub(crate) const fn bit(number: u32) -> u64 {
    if number < u64::BITS { 1 << number } else { 0 }
}

const fn bits(numbers: &[u32]) -> u64 {
    let (mut all, mut at) = (0, 0);
    while at < numbers.len() {
        assert!(numbers[at] < u64::BITS);
        all |= bit(numbers[at]);
        at += 1;
    }
    all
}

const fn one(name: &'static str, number: u32, form: &'static Form) -> Child {
    Child { name, bit: bits(&[number]), holds: Holds::One, form }
}

const fn many(name: &'static str, number: u32, form: &'static Form) -> Child {
    Child { name, bit: bits(&[number]), holds: Holds::Many, form }
}

const fn map(name: &'static str, number: u32, form: &'static Form) -> Child {
    Child { name, bit: bits(&[number]), holds: Holds::Map, form }
}

/// Defines forms: the message's name, its oneofs with their members, its other fields (only with
/// oneofs), its children.
macro_rules! forms {
    ($($form:ident = $name:expr, [$($oneof:literal: $members:expr),*], $others:expr, [$($child:expr),* $(,)?];)*) => {$(
        pub(super) static $form: Form = Form {
            name: $name,
            oneofs: &[$(Oneof { name: $oneof, members: bits(&$members) }),*],
            known: bits(&$others) $(| bits(&$members))*,
            children: &[$($child),*],
            nested: 0 $(| $child.bit)*,
        };
    )*};
}

/// The forms of `Type` and what is below it, which both packages have.
macro_rules! types {
    ($package:literal) => {
        use super::{Form, Oneof, bits, many, one};

        forms! {
            TYPE = concat!($package, ".Type"),
                ["kind": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]], [],
                [one("bytes_type", 1, &BYTES), one("string_type", 2, &STRING),
                 one("int64_type", 5, &INT64), one("timestamp_type", 10, &TIMESTAMP),
                 one("aggregate_type", 6, &AGGREGATE), one("struct_type", 7, &STRUCT),
                 one("array_type", 3, &ARRAY), one("map_type", 4, &MAP)];
            BYTES = "", [], [], [one("encoding", 1, &BYTES_ENCODING)];
            BYTES_ENCODING = concat!($package, ".Type.Bytes.Encoding"),
                ["encoding": [1]], [], [];
            STRING = "", [], [], [one("encoding", 1, &STRING_ENCODING)];
            STRING_ENCODING = concat!($package, ".Type.String.Encoding"),
                ["encoding": [1, 2]], [], [];
            INT64 = "", [], [], [one("encoding", 1, &INT64_ENCODING)];
            INT64_ENCODING = concat!($package, ".Type.Int64.Encoding"),
                ["encoding": [1, 2]], [], [one("big_endian_bytes", 1, &BIG_ENDIAN_BYTES)];
            BIG_ENDIAN_BYTES = "", [], [], [one("bytes_type", 1, &BYTES)];
            TIMESTAMP = "", [], [], [one("encoding", 1, &TIMESTAMP_ENCODING)];
            TIMESTAMP_ENCODING = concat!($package, ".Type.Timestamp.Encoding"),
                ["encoding": [1]], [], [one("unix_micros_int64", 1, &INT64_ENCODING)];
            AGGREGATE = concat!($package, ".Type.Aggregate"),
                ["aggregator": [4, 5, 6, 7]], [1, 2],
                [one("input_type", 1, &TYPE), one("state_type", 2, &TYPE)];
            STRUCT = "", [], [], [many("fields", 1, &FIELD), one("encoding", 2, &STRUCT_ENCODING)];
            FIELD = "", [], [], [one("type", 2, &TYPE)];
            STRUCT_ENCODING = concat!($package, ".Type.Struct.Encoding"),
                ["encoding": [1, 2, 3]], [], [];
            ARRAY = "", [], [], [one("element_type", 1, &TYPE)];
            MAP = "", [], [], [one("key_type", 1, &TYPE), one("value_type", 2, &TYPE)];
        }
    };
}

mod data_types {
    types!("google.bigtable.v2");
}

mod admin_types {
    types!("google.bigtable.admin.v2");
}

// Messages of the data service.
forms! {
    READ_ROWS = "", [], [], [one("rows", 2, &ROW_SET), one("filter", 3, &ROW_FILTER)];
    ROW_SET = "", [], [], [many("row_ranges", 2, &ROW_RANGE)];
    ROW_RANGE = "google.bigtable.v2.RowRange",
        ["start_key": [1, 2], "end_key": [3, 4]], [], [];
    ROW_FILTER = "google.bigtable.v2.RowFilter",
        ["filter": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]], [],
        [one("chain", 1, &FILTERS), one("interleave", 2, &FILTERS),
         one("condition", 3, &CONDITION), one("column_range_filter", 7, &COLUMN_RANGE),
         one("value_range_filter", 15, &VALUE_RANGE)];
    FILTERS = "", [], [], [many("filters", 1, &ROW_FILTER)];
    CONDITION = "", [], [],
        [one("predicate_filter", 1, &ROW_FILTER), one("true_filter", 2, &ROW_FILTER),
         one("false_filter", 3, &ROW_FILTER)];
    COLUMN_RANGE = "google.bigtable.v2.ColumnRange",
        ["start_qualifier": [2, 3], "end_qualifier": [4, 5]], [1], [];
    VALUE_RANGE = "google.bigtable.v2.ValueRange",
        ["start_value": [1, 2], "end_value": [3, 4]], [], [];
    READ_CHANGE_STREAM = "google.bigtable.v2.ReadChangeStreamRequest",
        ["start_from": [4, 6]], [1, 2, 3, 5, 7],
        [one("partition", 3, &STREAM_PARTITION), one("continuation_tokens", 6, &STREAM_TOKENS)];
    STREAM_PARTITION = "", [], [], [one("row_range", 1, &ROW_RANGE)];
    STREAM_TOKENS = "", [], [], [many("tokens", 1, &STREAM_TOKEN)];
    STREAM_TOKEN = "", [], [], [one("partition", 1, &STREAM_PARTITION)];
    MUTATE_ROW = "", [], [], [many("mutations", 3, &MUTATION)];
    MUTATE_ROWS = "", [], [], [many("entries", 2, &ENTRY)];
    ENTRY = "", [], [], [many("mutations", 2, &MUTATION)];
    CHECK_AND_MUTATE_ROW = "", [], [],
        [one("predicate_filter", 6, &ROW_FILTER), many("true_mutations", 4, &MUTATION),
         many("false_mutations", 5, &MUTATION)];
    MUTATION = "google.bigtable.v2.Mutation",
        ["mutation": [1, 2, 3, 4, 5, 6]], [7],
        [one("add_to_cell", 5, &ADD_TO_CELL), one("merge_to_cell", 6, &ADD_TO_CELL)];
    ADD_TO_CELL = "", [], [],
        [one("column_qualifier", 2, &VALUE), one("timestamp", 3, &VALUE), one("input", 4, &VALUE)];
    VALUE = "google.bigtable.v2.Value",
        ["kind": [2, 3, 4, 6, 8, 9, 10, 11, 12, 13]], [7],
        [one("type", 7, &data_types::TYPE), one("array_value", 4, &ARRAY_VALUE)];
    ARRAY_VALUE = "", [], [], [many("values", 1, &VALUE)];
    READ_MODIFY_WRITE_ROW = "", [], [], [many("rules", 3, &RULE)];
    RULE = "google.bigtable.v2.ReadModifyWriteRule", ["rule": [3, 4]], [1, 2], [];
    PREPARE_QUERY = "", [], [], [map("param_types", 6, &data_types::TYPE)];
    EXECUTE_QUERY = "", [], [], [map("params", 7, &VALUE)];
}

// Messages of the admin services.
forms! {
    CREATE_TABLE = "", [], [], [one("table", 3, &TABLE)];
    UPDATE_TABLE = "", [], [], [one("table", 1, &TABLE)];
    TABLE = "google.bigtable.admin.v2.Table",
        ["automated_backup_config": [13]], [1, 2, 3, 4, 6, 8, 9, 14, 15],
        [map("cluster_states", 2, &NOTHING), map("column_families", 3, &COLUMN_FAMILY),
         one("restore_info", 6, &RESTORE_INFO), one("tiered_storage_config", 14, &TIERED_STORAGE),
         one("row_key_schema", 15, &admin_types::STRUCT)];
    RESTORE_INFO = "google.bigtable.admin.v2.RestoreInfo", ["source_info": [2]], [1], [];
    TIERED_STORAGE = "", [], [], [one("infrequent_access", 1, &TIERED_STORAGE_RULE)];
    TIERED_STORAGE_RULE = "google.bigtable.admin.v2.TieredStorageRule", ["rule": [1]], [], [];
    COLUMN_FAMILY = "", [], [],
        [one("gc_rule", 1, &GC_RULE), one("value_type", 3, &admin_types::TYPE)];
    GC_RULE = "google.bigtable.admin.v2.GcRule",
        ["rule": [1, 2, 3, 4]], [],
        [one("intersection", 3, &GC_RULES), one("union", 4, &GC_RULES)];
    GC_RULES = "", [], [], [many("rules", 1, &GC_RULE)];
    MODIFY_COLUMN_FAMILIES = "", [], [], [many("modifications", 2, &MODIFICATION)];
    MODIFICATION = "google.bigtable.admin.v2.ModifyColumnFamiliesRequest.Modification",
        ["mod": [2, 3, 4]], [1, 6],
        [one("create", 2, &COLUMN_FAMILY), one("update", 3, &COLUMN_FAMILY)];
    DROP_ROW_RANGE = "google.bigtable.admin.v2.DropRowRangeRequest", ["target": [2, 3]], [1], [];
    CHECK_CONSISTENCY = "google.bigtable.admin.v2.CheckConsistencyRequest",
        ["mode": [3, 4]], [1, 2], [];
    CREATE_INSTANCE = "", [], [], [map("clusters", 4, &CLUSTER)];
    CREATE_CLUSTER = "", [], [], [one("cluster", 3, &CLUSTER)];
    UPDATE_CLUSTER = "", [], [], [one("cluster", 1, &CLUSTER)];
    CLUSTER = "google.bigtable.admin.v2.Cluster", ["config": [7]], [1, 2, 3, 4, 5, 6, 9], [];
    CREATE_APP_PROFILE = "", [], [], [one("app_profile", 3, &APP_PROFILE)];
    UPDATE_APP_PROFILE = "", [], [], [one("app_profile", 1, &APP_PROFILE)];
    APP_PROFILE = "google.bigtable.admin.v2.AppProfile",
        ["routing_policy": [5, 6], "isolation": [7, 10, 11]], [1, 2, 3],
        [one("multi_cluster_routing_use_any", 5, &USE_ANY)];
    USE_ANY = "google.bigtable.admin.v2.AppProfile.MultiClusterRoutingUseAny",
        ["affinity": [3]], [1], [];
    CREATE_INSTANCE_METADATA = "", [], [], [one("original_request", 1, &CREATE_INSTANCE)];
    CREATE_CLUSTER_METADATA = "", [], [], [map("tables", 4, &NOTHING)];
    CREATE_AUTHORIZED_VIEW = "", [], [], [one("authorized_view", 3, &AUTHORIZED_VIEW)];
    UPDATE_AUTHORIZED_VIEW = "", [], [], [one("authorized_view", 1, &AUTHORIZED_VIEW)];
    AUTHORIZED_VIEW = "google.bigtable.admin.v2.AuthorizedView",
        ["authorized_view": [2]], [1, 3, 4], [one("subset_view", 2, &SUBSET_VIEW)];
    SUBSET_VIEW = "", [], [], [map("family_subsets", 2, &NOTHING)];
    LIST_AUTHORIZED_VIEWS = "", [], [], [many("authorized_views", 1, &AUTHORIZED_VIEW)];
    CREATE_AUTHORIZED_VIEW_METADATA = "", [], [],
        [one("original_request", 1, &CREATE_AUTHORIZED_VIEW)];
    UPDATE_AUTHORIZED_VIEW_METADATA = "", [], [],
        [one("original_request", 1, &UPDATE_AUTHORIZED_VIEW)];
    RESTORE_TABLE = "google.bigtable.admin.v2.RestoreTableRequest", ["source": [3]], [1, 2], [];
    LIST_TABLES = "", [], [], [many("tables", 1, &TABLE)];
    NOTHING = "", [], [], [];
}

/// Sees the type of a message.
pub(crate) trait Visitor {
    fn visit<M: Formed + Default>(&mut self, name: &'static str);
}

/// Gives messages their forms, and a function that shows them to a visitor.
macro_rules! formed {
    ($(#[$attribute:meta])* $visit:ident: $($message:ty => $form:ident),* $(,)?) => {
        $(impl Formed for $message {
            const FORM: &'static Form = &$form;
        })*

        $(#[$attribute])*
        pub(crate) fn $visit(visitor: &mut impl Visitor) {
            $(visitor.visit::<$message>(stringify!($message));)*
        }
    };
}

formed! {
    /// Shows every request to the visitor, and filters by themselves.
    visit_requests:
    data::ReadRowsRequest => READ_ROWS,
    data::SampleRowKeysRequest => NOTHING,
    mutations::MutateRowRequest => MUTATE_ROW,
    mutations::MutateRowsRequest => MUTATE_ROWS,
    mutations::CheckAndMutateRowRequest => CHECK_AND_MUTATE_ROW,
    data::ReadModifyWriteRowRequest => READ_MODIFY_WRITE_ROW,
    data::GenerateInitialChangeStreamPartitionsRequest => NOTHING,
    data::ReadChangeStreamRequest => READ_CHANGE_STREAM,
    data::PingAndWarmRequest => NOTHING,
    data::PrepareQueryRequest => PREPARE_QUERY,
    data::ExecuteQueryRequest => EXECUTE_QUERY,
    data::RowFilter => ROW_FILTER,
    admin::CreateTableRequest => CREATE_TABLE,
    admin::ListTablesRequest => NOTHING,
    admin::GetTableRequest => NOTHING,
    admin::UpdateTableRequest => UPDATE_TABLE,
    admin::DeleteTableRequest => NOTHING,
    admin::ModifyColumnFamiliesRequest => MODIFY_COLUMN_FAMILIES,
    admin::DropRowRangeRequest => DROP_ROW_RANGE,
    admin::GenerateConsistencyTokenRequest => NOTHING,
    admin::CheckConsistencyRequest => CHECK_CONSISTENCY,
    admin::UndeleteTableRequest => NOTHING,
    admin::CreateBackupRequest => NOTHING,
    admin::GetBackupRequest => NOTHING,
    admin::ListBackupsRequest => NOTHING,
    admin::UpdateBackupRequest => NOTHING,
    admin::DeleteBackupRequest => NOTHING,
    admin::CopyBackupRequest => NOTHING,
    admin::RestoreTableRequest => RESTORE_TABLE,
    admin::CreateAuthorizedViewRequest => CREATE_AUTHORIZED_VIEW,
    admin::ListAuthorizedViewsRequest => NOTHING,
    admin::GetAuthorizedViewRequest => NOTHING,
    admin::UpdateAuthorizedViewRequest => UPDATE_AUTHORIZED_VIEW,
    admin::DeleteAuthorizedViewRequest => NOTHING,
    admin::CreateInstanceRequest => CREATE_INSTANCE,
    admin::GetInstanceRequest => NOTHING,
    admin::ListInstancesRequest => NOTHING,
    admin::Instance => NOTHING,
    admin::PartialUpdateInstanceRequest => NOTHING,
    admin::DeleteInstanceRequest => NOTHING,
    admin::CreateClusterRequest => CREATE_CLUSTER,
    admin::GetClusterRequest => NOTHING,
    admin::ListClustersRequest => NOTHING,
    admin::Cluster => CLUSTER,
    admin::PartialUpdateClusterRequest => UPDATE_CLUSTER,
    admin::DeleteClusterRequest => NOTHING,
    admin::CreateAppProfileRequest => CREATE_APP_PROFILE,
    admin::GetAppProfileRequest => NOTHING,
    admin::ListAppProfilesRequest => NOTHING,
    admin::UpdateAppProfileRequest => UPDATE_APP_PROFILE,
    admin::DeleteAppProfileRequest => NOTHING,
    longrunning::GetOperationRequest => NOTHING,
    longrunning::WaitOperationRequest => NOTHING,
    longrunning::ListOperationsRequest => NOTHING,
    longrunning::CancelOperationRequest => NOTHING,
    longrunning::DeleteOperationRequest => NOTHING,
    iam::GetIamPolicyRequest => NOTHING,
    iam::SetIamPolicyRequest => NOTHING,
    iam::TestIamPermissionsRequest => NOTHING,
}

formed! {
    /// Shows every reply to the visitor.
    #[cfg(test)]
    visit_replies:
    data::SampleRowKeysResponse => NOTHING,
    data::MutateRowResponse => NOTHING,
    data::MutateRowsResponse => NOTHING,
    data::CheckAndMutateRowResponse => NOTHING,
    data::ReadModifyWriteRowResponse => NOTHING,
    data::GenerateInitialChangeStreamPartitionsResponse => NOTHING,
    data::ReadChangeStreamResponse => NOTHING,
    data::PingAndWarmResponse => NOTHING,
    data::PrepareQueryResponse => NOTHING,
    data::ExecuteQueryResponse => NOTHING,
    data::ReadRowsResponse => NOTHING,
    admin::Table => TABLE,
    admin::ListTablesResponse => LIST_TABLES,
    admin::UpdateTableMetadata => NOTHING,
    admin::GenerateConsistencyTokenResponse => NOTHING,
    admin::CheckConsistencyResponse => NOTHING,
    admin::UndeleteTableMetadata => NOTHING,
    admin::Backup => NOTHING,
    admin::ListBackupsResponse => NOTHING,
    admin::CreateBackupMetadata => NOTHING,
    admin::CopyBackupMetadata => NOTHING,
    admin::RestoreTableMetadata => NOTHING,
    admin::OptimizeRestoredTableMetadata => NOTHING,
    admin::AuthorizedView => AUTHORIZED_VIEW,
    admin::ListAuthorizedViewsResponse => LIST_AUTHORIZED_VIEWS,
    admin::CreateAuthorizedViewMetadata => CREATE_AUTHORIZED_VIEW_METADATA,
    admin::UpdateAuthorizedViewMetadata => UPDATE_AUTHORIZED_VIEW_METADATA,
    admin::ListInstancesResponse => NOTHING,
    admin::CreateInstanceMetadata => CREATE_INSTANCE_METADATA,
    admin::UpdateInstanceMetadata => NOTHING,
    admin::ListClustersResponse => NOTHING,
    admin::CreateClusterMetadata => CREATE_CLUSTER_METADATA,
    admin::UpdateClusterMetadata => NOTHING,
    admin::PartialUpdateClusterMetadata => NOTHING,
    admin::AppProfile => APP_PROFILE,
    admin::ListAppProfilesResponse => NOTHING,
    admin::UpdateAppProfileMetadata => NOTHING,
    longrunning::Operation => NOTHING,
    longrunning::ListOperationsResponse => NOTHING,
    iam::Policy => NOTHING,
    iam::TestIamPermissionsResponse => NOTHING,
    Empty => NOTHING,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fields::{put_delimited, put_varint};
    use std::collections::BTreeSet;

    /// A field on the way from a message down to another.
    #[derive(Debug, Clone, Copy)]
    struct Step {
        number: u32,
        is_map: bool,
    }

    fn delimited(number: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_delimited(number, content, &mut out);
        out
    }

    fn map_entry(key: &[u8], value: &[u8]) -> Vec<u8> {
        [delimited(1, key), delimited(2, value)].concat()
    }

    /// A message in `M`, reached by `path`: what the decoder makes of its bytes tells its fields.
    struct Probe<'a> {
        recode: &'a dyn Fn(&[u8]) -> Option<Vec<u8>>,
        path: Vec<Step>,
    }

    impl Probe<'_> {
        /// Returns the outermost message again, from one with `inner` in the probed message; `None`
        /// if it cannot be decoded.
        fn recoded(&self, inner: &[u8]) -> Option<Vec<u8>> {
            let whole = self.path.iter().rev().fold(inner.to_vec(), |inner, step| {
                let content = if step.is_map { map_entry(b"k", &inner) } else { inner };
                delimited(step.number, &content)
            });
            (self.recode)(&whole)
        }

        /// Returns whether the decoder takes notice of `inner`.
        fn notices(&self, inner: &[u8]) -> bool {
            self.recoded(inner).is_none_or(|found| Some(found) != self.recoded(b""))
        }

        fn samples(number: u32) -> [Vec<u8>; 5] {
            let key = |wire_type: u32| {
                let mut out = Vec::new();
                put_varint(&mut out, u64::from(number << 3 | wire_type));
                out
            };
            [
                [key(0), vec![1]].concat(),
                [key(1), vec![1; 8]].concat(),
                [key(5), vec![1; 4]].concat(),
                delimited(number, b"a"),
                delimited(number, b""),
            ]
        }

        fn is_known(&self, number: u32) -> bool {
            Self::samples(number).iter().any(|sample| self.notices(sample))
        }

        /// Returns bytes of the field that a decoder keeps.
        fn kept(&self, number: u32) -> Option<Vec<u8>> {
            let kept = |sample: &Vec<u8>| {
                self.recoded(sample).is_some_and(|found| Some(found) != self.recoded(b""))
            };
            Self::samples(number).into_iter().find(kept)
        }

        fn is_message(&self, number: u32) -> bool {
            self.is_known(number)
                && self.recoded(&delimited(number, b"a")).is_none()
                && self.recoded(&delimited(number, b"")).is_some()
        }

        /// Returns whether two entries with one key become one, as in a map of messages.
        fn is_map(&self, number: u32) -> bool {
            let entry = |key: &[u8], value: &[u8]| delimited(number, &map_entry(key, value));
            let twice =
                |second: &[u8]| self.recoded(&[entry(b"k", b""), entry(second, b"")].concat());
            let once = self.recoded(&entry(b"k", b""));
            let values_are_messages = self.recoded(&entry(b"k", b"a")).is_none();
            self.is_message(number) && values_are_messages && twice(b"k") == once && {
                let (both, second) = (twice(b"l"), self.recoded(&entry(b"l", b"")));
                both != once && both != second
            }
        }

        /// Returns whether the two fields are members of one oneof. (A oneof of one member cannot be
        /// told from a field by itself.)
        fn exclude_each_other(&self, a: u32, b: u32) -> bool {
            let (Some(a), Some(b)) = (self.kept(a), self.kept(b)) else { return false };
            let both = |first: &[u8], second: &[u8]| self.recoded(&[first, second].concat());
            both(&a, &b) == self.recoded(&b) && both(&b, &a) == self.recoded(&a)
        }

        fn below(&self, number: u32, is_map: bool) -> Self {
            let mut path = self.path.clone();
            path.push(Step { number, is_map });
            Self { path, ..*self }
        }

        fn fields(&self) -> BTreeSet<u32> {
            (1..u64::BITS).filter(|number| self.is_known(*number)).collect()
        }
    }

    fn numbers(bits: u64) -> BTreeSet<u32> {
        (1..u64::BITS).filter(|number| bits & bit(*number) != 0).collect()
    }

    /// Compares forms with what the decoder says, message by message.
    struct Compare {
        /// Forms of messages that were compared, by address.
        seen: BTreeSet<*const Form>,
        oneofs: bool,
        compared: usize,
    }

    impl Compare {
        fn message(&mut self, at: &str, form: &'static Form, probe: &Probe<'_>) {
            let seen = !std::ptr::eq(form, &NOTHING) && !self.seen.insert(form);
            if seen || probe.path.len() > 12 {
                return;
            }
            self.compared += 1;
            let fields = probe.fields();
            if self.oneofs {
                self.oneofs_of(at, form, probe, &fields);
            }
            for number in fields.into_iter().filter(|number| probe.is_message(*number)) {
                let is_map = probe.is_map(number);
                let child = form.child(bit(number));
                let holds_map = child.is_some_and(|child| child.holds == Holds::Map);
                assert_eq!(is_map, holds_map, "{at}.{number} is a map");
                let below = probe.below(number, is_map);
                match child {
                    Some(child) => {
                        self.message(&format!("{at}.{}", child.name), child.form, &below)
                    }
                    None => self.message(&format!("{at}.{number}"), &NOTHING, &below),
                }
            }
        }

        fn oneofs_of(&self, at: &str, form: &Form, probe: &Probe<'_>, fields: &BTreeSet<u32>) {
            if !form.oneofs.is_empty() {
                assert_eq!(&numbers(form.known), fields, "fields of {at}");
            }
            let same = |a: u32, b: u32| {
                let pair = bit(a) | bit(b);
                form.oneofs.iter().any(|oneof| oneof.members & pair == pair)
            };
            for &a in fields {
                for &b in fields.range(a + 1..) {
                    assert_eq!(
                        probe.exclude_each_other(a, b),
                        same(a, b),
                        "oneof of {at}: {a}, {b}"
                    );
                }
            }
        }
    }

    impl Visitor for Compare {
        fn visit<M: Formed + Default>(&mut self, name: &'static str) {
            let recode =
                |bytes: &[u8]| M::decode(bytes).ok().map(|message| message.encode_to_vec());
            self.message(name, M::FORM, &Probe { recode: &recode, path: Vec::new() });
        }
    }

    #[test]
    fn forms_of_requests_agree_with_the_decoder() {
        let mut compare = Compare { seen: BTreeSet::new(), oneofs: true, compared: 0 };
        visit_requests(&mut compare);
        assert!(compare.compared > 60, "{}", compare.compared);
    }

    #[test]
    fn forms_of_replies_have_every_map_of_messages() {
        let mut compare = Compare { seen: BTreeSet::new(), oneofs: false, compared: 0 };
        visit_replies(&mut compare);
        assert!(compare.compared > 40, "{}", compare.compared);
    }
}
