//! `stele identity`: tokens and key files for callers of a server.

use anyhow::Result;
use clap::{Args, Subcommand};
use security::identity::{create_service_account, create_token};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the command `identity`.
#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a random token, print it, and add its hash to the file of identities.
    ///
    /// The token is printed once and stored nowhere. A policy names its holder token:NAME.
    Token(TokenArgs),
    /// Make a service account: a key file for a client, and its public key in the file of identities.
    ///
    /// Google's libraries sign in with the key file by themselves. A policy names the account
    /// serviceAccount:EMAIL. An account can have several keys.
    Create(CreateArgs),
}

#[derive(Debug, Args)]
struct TokenArgs {
    /// Name of the token's holder.
    #[arg(value_name = "NAME")]
    name: String,
    /// File of identities of the server; created if missing.
    #[arg(long, value_name = "FILE")]
    identities: PathBuf,
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Name of the account, as in app@example.com.
    #[arg(value_name = "EMAIL")]
    email: String,
    /// File of identities of the server; created if missing.
    #[arg(long, value_name = "FILE")]
    identities: PathBuf,
    /// New file for the private key.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Address of the server's HTTP side where clients such as cbt get access tokens.
    #[arg(long, value_name = "URL", default_value = "https://localhost:8087/token")]
    token_uri: String,
    /// Project that clients use if they are told none.
    #[arg(long, value_name = "NAME", default_value = "stele")]
    project: String,
}

/// Makes an identity and prints it.
pub(crate) fn run(args: &IdentityArgs) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.what {
        What::Token(TokenArgs { name, identities }) => {
            writeln!(out, "{}", create_token(identities, name)?)?;
        }
        What::Create(CreateArgs { email, identities, key_file, token_uri, project }) => {
            create_service_account(identities, email, project, key_file, token_uri)?;
            writeln!(out, "{}", key_file.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
