//! Google's generated API: messages from the published crates, servers from `build.rs`.

pub(crate) use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
pub(crate) use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
pub(crate) use googleapis_tonic_google_iam_v1::google::iam::v1 as iam;
pub(crate) use googleapis_tonic_google_longrunning::google::longrunning;
pub(crate) use googleapis_tonic_google_rpc::google::rpc;
pub(crate) use googleapis_tonic_google_type::google::r#type as google_type;

use prost_types::{Any, Timestamp};

/// `google.protobuf.Empty`.
pub(crate) type Empty = ();

/// Server traits and routers of the methods listed in `build.rs`.
#[allow(unreachable_pub, clippy::all)]
pub(crate) mod server {
    include!(concat!(env!("OUT_DIR"), "/google.bigtable.v2.Bigtable.rs"));
    include!(concat!(env!("OUT_DIR"), "/google.bigtable.admin.v2.BigtableTableAdmin.rs"));
    include!(concat!(env!("OUT_DIR"), "/google.bigtable.admin.v2.BigtableInstanceAdmin.rs"));
    include!(concat!(env!("OUT_DIR"), "/google.longrunning.Operations.rs"));
}

/// The services of [`Authorized`](crate::call::authorize::Authorized), which authorise each method.
#[allow(clippy::all)]
mod guards {
    include!(concat!(env!("OUT_DIR"), "/guards.rs"));
}

/// Names of what is served.
pub(crate) mod served {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Returns a time, given in microseconds since the Unix epoch.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    let nanos = micros.rem_euclid(MICROS_PER_SECOND) * 1_000;
    Timestamp { seconds: micros.div_euclid(MICROS_PER_SECOND), nanos: nanos as i32 }
}

/// Returns a time in microseconds since the Unix epoch; nothing if it is no valid time.
pub(crate) fn micros(time: &Timestamp) -> Option<i64> {
    let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    time.seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(i64::from(nanos / 1_000))
}

/// An encoded message of the protobuf type `type_name` as a self-describing value.
pub(crate) fn any(type_name: &str, value: Vec<u8>) -> Any {
    Any { type_url: format!("type.googleapis.com/{type_name}"), value }
}
