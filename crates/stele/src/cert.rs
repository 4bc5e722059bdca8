//! `stele cert`: certificates for trying TLS.

use clap::{Args, Subcommand};
use security::tls::{DevNames, make_dev_certificates};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the command `cert`.
#[derive(Debug, Args)]
pub(crate) struct CertArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a CA, and certificates of a server and a client that it signed, to try TLS with.
    ///
    /// The directory gets ca.pem, server.pem and client.pem, and the private key of each, such as
    /// server-key.pem. Files that exist are never replaced. For production use the certificates of
    /// your own CA.
    Dev(DevArgs),
}

#[derive(Debug, Args)]
struct DevArgs {
    /// Directory for the files; created if missing.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Name or address of the server beside localhost, 127.0.0.1 and ::1. Can be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Common name of the client.
    #[arg(long, value_name = "NAME", default_value = "client")]
    client: String,

    /// Days for which the certificates are valid, 1 to 3650.
    #[arg(long, value_name = "COUNT", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// Makes certificates and prints their files.
pub(crate) fn run(args: &CertArgs) -> anyhow::Result<ExitCode> {
    let What::Dev(DevArgs { dir, host, client, days }) = &args.what;
    let mut names = DevNames { client: client.clone(), days: *days, ..DevNames::default() };
    names.hosts.extend(host.iter().cloned());
    let files = make_dev_certificates(dir, &names)?;
    let mut out = std::io::stdout().lock();
    for file in files {
        writeln!(out, "{}", file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
