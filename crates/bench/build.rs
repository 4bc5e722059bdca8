//! Writes the server side of the methods that `bench door` answers with constants.

use tonic_build::manual::{Builder, Method, Service};

/// Method, route, module of its messages, and whether many messages answer it.
const METHODS: &[(&str, &str, bool)] = &[
    ("read_rows", "ReadRows", true),
    ("mutate_row", "MutateRow", false),
    ("mutate_rows", "MutateRows", true),
    ("read_modify_write_row", "ReadModifyWriteRow", false),
    ("ping_and_warm", "PingAndWarm", false),
];

fn method(&(name, route, streams): &(&str, &str, bool)) -> Method {
    let method = Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("crate::door::data::{route}Request"))
        .output_type(format!("crate::door::data::{route}Response"))
        .codec_path("tonic_prost::ProstCodec");
    if streams { method.server_streaming().build() } else { method.build() }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let service = Service::builder().package("google.bigtable.v2").name("Bigtable");
    let service = METHODS.iter().fold(service, |service, row| service.method(method(row))).build();
    Builder::new().build_client(false).compile(&[service]);
}
