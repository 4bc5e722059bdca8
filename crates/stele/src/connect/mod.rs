//! Connections of commands to a running server: plain or by TLS, with a certificate or a token.

mod grpc;
mod http;

pub(crate) use grpc::{Channel, answered};

use crate::config::ConfigError;
use anyhow::{Context, Result};
use base::env::{Clock, SystemClock};
use clap::Args;
use rustls::ClientConfig;
use security::identity::ServiceAccount;
use security::tls::{ClientFiles, server_name};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::metadata::{Ascii, MetadataValue};

/// Options of all commands that talk to a server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to a server")]
pub(crate) struct ConnectArgs {
    /// CAs in PEM that the server's certificate is checked with. The address must then begin with
    /// https://. [default: the CAs of the operating system]
    #[arg(long, global = true, env = "STELE_SERVER_CA", value_name = "FILE")]
    server_ca: Option<PathBuf>,

    /// Certificate in PEM to show to the server.
    #[arg(long, global = true, env = "STELE_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,

    /// Private key of client-cert in PEM.
    #[arg(long, global = true, env = "STELE_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,

    /// File with the token to send to the server.
    #[arg(long, global = true, env = "STELE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Key file of a service account, in JSON; tokens are signed with it as needed.
    #[arg(
        long,
        global = true,
        env = "STELE_KEY_FILE",
        value_name = "FILE",
        conflicts_with = "token_file"
    )]
    key_file: Option<PathBuf>,
}

/// A server, and how to reach it.
#[derive(Clone)]
pub(crate) struct Server {
    /// Address of the server, `HOST:PORT`.
    pub(crate) address: String,
    tls: Option<Arc<ClientConfig>>,
    credentials: Credentials,
}

/// Tokens for the calls of a command.
#[derive(Clone)]
enum Credentials {
    Nothing,
    /// The same header for every call.
    Token(MetadataValue<Ascii>),
    Account(Arc<ServiceAccount>),
}

/// A stream to a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl ConnectArgs {
    /// Returns the server at `address`: `https://HOST:PORT`, `http://HOST:PORT` or `HOST:PORT`.
    /// `protocol` is what is spoken inside of TLS.
    pub(crate) fn server(&self, address: &str, protocol: &str) -> Result<Server> {
        let secured = address.strip_prefix("https://");
        let bare = secured.or_else(|| address.strip_prefix("http://")).unwrap_or(address);
        let files = self.files()?;
        if secured.is_none() && files != ClientFiles::default() {
            return Err(ConfigError(format!(
                "certificates are of no use for {address}; use https://{bare}"
            ))
            .into());
        }
        let tls = secured.is_some().then(|| files.load(protocol)).transpose()?;
        let credentials = self.credentials()?;
        let address = bare.trim_end_matches('/').to_owned();
        Ok(Server { address, tls, credentials })
    }

    fn files(&self) -> Result<ClientFiles, ConfigError> {
        let certificate = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(ConfigError("client-cert and client-key go together".to_owned())),
        };
        Ok(ClientFiles { ca: self.server_ca.clone(), certificate })
    }

    fn credentials(&self) -> Result<Credentials> {
        if let Some(path) = &self.key_file {
            return Ok(Credentials::Account(Arc::new(ServiceAccount::load(path)?)));
        }
        let Some(path) = &self.token_file else { return Ok(Credentials::Nothing) };
        let token = std::fs::read_to_string(path)
            .with_context(|| format!("could not read the token in {}", path.display()))?;
        let header = bearer(token.trim());
        Ok(Credentials::Token(header.with_context(|| format!("{} has no token", path.display()))?))
    }
}

impl Server {
    /// Returns whether the connection is by TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the value of the header `authorization` for a call that begins now.
    pub(crate) fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>> {
        match &self.credentials {
            Credentials::Nothing => Ok(None),
            Credentials::Token(header) => Ok(Some(header.clone())),
            Credentials::Account(account) => {
                let now = SystemClock.now_micros() / 1_000_000;
                Ok(Some(bearer(&account.token(now)?)?))
            }
        }
    }

    /// Opens a connection to the server.
    pub(crate) async fn open(&self) -> std::io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = server_name(&self.address).ok_or_else(|| {
            let text = format!("{} is not HOST:PORT", self.address);
            std::io::Error::new(std::io::ErrorKind::InvalidInput, text)
        })?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

/// Returns the header for a token. Its debug output hides the token.
fn bearer(token: &str) -> Result<MetadataValue<Ascii>> {
    let mut header: MetadataValue<Ascii> = format!("Bearer {token}").parse()?;
    header.set_sensitive(true);
    Ok(header)
}
