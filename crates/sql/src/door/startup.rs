//! The start of a connection: TLS, who the client is, its parameters.
//!
//! A client without a place is told so after its start, as clients expect it. A role that has a password
//! must show it. A role without one enters from where [`Trust`] lets it. While no role has a password, a
//! trusted client may use any name, and acts as the owner of the database: a fresh server is usable.

use super::cancel::{Registered, Sessions};
use super::report::{Severity, error_message};
use super::scram::{self, Exchange, Refused};
use super::wire::{Bounds, Broken};
use super::{Secret, Shared, Trust, Wire, shape};
use crate::expression::Acting;
use crate::statement::privilege::acting_as;
use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, SecretKey, Startup,
};
use pgwire::messages::{
    PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion, SslNegotiationMetaMessage,
};
use pgwire::tokio::server::MaybeTls;
use relational::{Error, SqlState};
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Silence after which a client's host is asked for a sign of life, the pause between two questions, and
/// how many stay without an answer before the connection ends.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 6;
/// Longest time that sent bytes stay without an acknowledgement.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(120);
/// First byte of a TLS handshake.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;
/// Most requests for encryption before the start.
const REQUESTS_MAX: usize = 3;
/// Length of a secret of protocol 3.2; older clients take four bytes.
const SECRET_LEN: usize = 32;

/// A client that may send statements.
pub(crate) struct Entered {
    pub(crate) wire: Wire,
    pub(crate) identity: Identity,
    pub(crate) registered: Registered,
}

/// The identity of a client, and its wishes.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Name of the role that the client gave.
    pub(crate) user: String,
    /// The role or the owner that was let in by that name.
    pub(crate) acting: Acting,
    /// Settings that the client set, in order.
    pub(crate) settings: Vec<(String, String)>,
}

/// Lets a client in. Returns nothing for one that wanted no session, or may have none and was told so.
pub(super) async fn enter(
    shared: &Arc<Shared>,
    stream: TcpStream,
    is_local: bool,
    tls: Option<Arc<ServerConfig>>,
    has_place: bool,
) -> Result<Option<Entered>, Broken> {
    let sessions = Some(&*shared.sessions);
    let Some((mut wire, startup)) = negotiate(sessions, stream, tls).await? else {
        return Ok(None);
    };
    let version = version_of(&startup, &mut wire)?;
    wire.started(version);
    let refused = if has_place {
        match admit(shared, &mut wire, &startup, is_local).await {
            Ok(identity) => return greet(shared, wire, identity, version).map(Some),
            Err(Denied::Refused(error)) => error,
            Err(Denied::Broken(broken)) => return Err(broken),
        }
    } else {
        Error::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
    };
    shared.counts.error(refused.state);
    wire.put(&error_message(&refused, Severity::Fatal))?;
    wire.close().await;
    Ok(None)
}

/// Tells a client of a node without a database that it can have no session, and why. A cancel request is passed over:
/// no statement runs that it could be of.
pub(super) async fn turn_away(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    error: &Error,
) -> Result<(), Broken> {
    if let Some((mut wire, startup)) = negotiate(None, stream, tls).await? {
        let version = version_of(&startup, &mut wire)?;
        wire.started(version);
        wire.put(&error_message(error, Severity::Fatal))?;
        wire.close().await;
    }
    Ok(())
}

/// Sets what a connection of a session needs. It works without, so errors do not matter.
pub(super) fn set_options(stream: &TcpStream) {
    // An answer would wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    // A host that is gone would keep its locks, and its place.
    let socket = SockRef::from(stream);
    let alive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    let _ = socket.set_tcp_keepalive(&alive.with_retries(KEEPALIVE_COUNT));
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
}

/// Answers requests for encryption until the start comes, or a cancel request, which is carried out in `sessions`.
async fn negotiate(
    sessions: Option<&Sessions>,
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
) -> Result<Option<(Wire, Startup)>, Broken> {
    let bounds = Bounds::STRANGER;
    let mut first = [0];
    let is_direct = stream.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE;
    let (mut wire, mut secured) = match &tls {
        Some(config) if is_direct => (Wire::new(secure(config, stream).await?, bounds), true),
        _ => (Wire::new(MaybeTls::Plain(stream), bounds), false),
    };
    for _ in 0..=REQUESTS_MAX {
        match wire.next_start().await? {
            PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_)) => {
                let Some(config) = tls.as_ref().filter(|_| !secured) else {
                    wire.put(&PgWireBackendMessage::SslResponse(SslResponse::Refuse))?;
                    wire.flush().await?;
                    continue;
                };
                wire.put(&PgWireBackendMessage::SslResponse(SslResponse::Accept))?;
                wire.flush().await?;
                let MaybeTls::Plain(stream) = wire.into_stream()? else {
                    return Err(Broken::Protocol("TLS inside of TLS".into()));
                };
                wire = Wire::new(secure(config, stream).await?, bounds);
                secured = true;
            }
            PgWireFrontendMessage::SslNegotiation(_) => {
                wire.put(&PgWireBackendMessage::GssEncResponse(GssEncResponse::Refuse))?;
                wire.flush().await?;
            }
            PgWireFrontendMessage::CancelRequest(request) => {
                if let Some(sessions) = sessions {
                    sessions.cancel(request.pid, &request.secret_key);
                }
                return Ok(None);
            }
            PgWireFrontendMessage::Startup(startup) if tls.is_none() || secured => {
                return Ok(Some((wire, startup)));
            }
            PgWireFrontendMessage::Startup(_) => {
                let error = Error::new(
                    SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                    "this server takes connections by TLS only",
                );
                let error = error.with_hint("Connect with sslmode=require or stricter.");
                wire.put(&error_message(&error, Severity::Fatal))?;
                wire.close().await;
                return Ok(None);
            }
            _ => return Err(Broken::Protocol("invalid startup packet".into())),
        }
    }
    Err(Broken::Protocol("too many requests for encryption".into()))
}

async fn secure(config: &Arc<ServerConfig>, stream: TcpStream) -> Result<MaybeTls, Broken> {
    let stream = TlsAcceptor::from(Arc::clone(config)).accept(stream).await?;
    Ok(MaybeTls::Tls(Box::new(stream)))
}

/// Agrees on a version of the protocol.
fn version_of(startup: &Startup, wire: &mut Wire) -> Result<ProtocolVersion, Broken> {
    let (major, minor) = (startup.protocol_number_major, startup.protocol_number_minor);
    let unknown: Vec<_> =
        startup.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    let version = ProtocolVersion::from_version_number(major, minor);
    if let Some(version) = version.filter(|_| unknown.is_empty()) {
        return Ok(version);
    }
    // A client of 3.0 that names an option of the protocol stays at 3.0.
    let version = version.unwrap_or(ProtocolVersion::PROTOCOL3_2);
    let told = NegotiateProtocolVersion::new(version.into(), unknown);
    wire.put(&PgWireBackendMessage::NegotiateProtocolVersion(told))?;
    Ok(version)
}

/// Reason for which a client has no session.
enum Denied {
    /// The client is told so.
    Refused(Error),
    Broken(Broken),
}

impl From<Broken> for Denied {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

fn denied(state: SqlState, message: impl Into<String>) -> Denied {
    Denied::Refused(Error::new(state, message))
}

/// Finds the role of a client, and has it show its password if it must.
async fn admit(
    shared: &Shared,
    wire: &mut Wire,
    startup: &Startup,
    is_local: bool,
) -> Result<Identity, Denied> {
    let get = |name: &str| startup.parameters.get(name).filter(|value| !value.is_empty());
    let invalid = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
    let Some(user) = get("user") else {
        return Err(denied(invalid, "no PostgreSQL user name specified in startup packet"));
    };
    if get("replication").is_some_and(|value| !matches!(value.as_str(), "false" | "off" | "0")) {
        return Err(denied(SqlState::FEATURE_NOT_SUPPORTED, "replication is not supported"));
    }
    let catalog = shared.database.catalog();
    let role = catalog.role_named(user);
    let secret = role.and_then(|role| role.password.as_deref()).and_then(Secret::parse);
    let is_trusted = match shared.options.trust {
        Trust::Everywhere => true,
        Trust::Loopback => is_local,
    };
    let needs_password = secret.is_some() || !is_trusted;
    if needs_password {
        prove(shared, wire, user, secret.as_ref()).await?;
    }
    if role.is_some_and(|role| !role.login) {
        return Err(denied(invalid, format!("role \"{user}\" is not permitted to log in")));
    }
    let Some(acting) = acting_as(&catalog, user) else {
        return Err(denied(invalid, format!("role \"{user}\" does not exist")));
    };
    if let Some(database) = get("database")
        && database != user
        && *database != catalog.database
    {
        let message = format!("database \"{database}\" does not exist");
        return Err(denied(SqlState::INVALID_CATALOG_NAME, message));
    }
    let settings = settings_of(startup)?;
    Ok(Identity { user: user.clone(), acting, settings })
}

/// Has a client prove that it knows the password of `user`.
async fn prove(
    shared: &Shared,
    wire: &mut Wire,
    user: &str,
    secret: Option<&Secret>,
) -> Result<(), Denied> {
    let wrong = || {
        let message = format!("password authentication failed for user \"{user}\"");
        denied(SqlState::INVALID_PASSWORD, message)
    };
    let refuse = |refused: Refused| match refused {
        Refused::Malformed => denied(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message"),
        Refused::WrongProof => wrong(),
    };
    let offer = Authentication::SASL(vec![scram::MECHANISM.to_owned()]);
    wire.put(&PgWireBackendMessage::Authentication(offer))?;
    let body = password_message(wire).await?;
    if shape::check_sasl_initial(&body).is_err() {
        return Err(refuse(Refused::Malformed));
    }
    let raw = pgwire::messages::startup::PasswordMessageFamily::Raw(body.as_slice().into());
    let initial = raw.into_sasl_initial_response().map_err(Broken::from)?;
    if initial.auth_method != scram::MECHANISM {
        return Err(denied(
            SqlState::PROTOCOL_VIOLATION,
            "client selected an invalid SASL authentication mechanism",
        ));
    }
    let first = initial.data.unwrap_or_default();
    let exchange =
        Exchange::start(&first, secret, user, shared.database.secret()).map_err(refuse)?;
    let text = exchange.server_first().to_owned();
    wire.put(&PgWireBackendMessage::Authentication(Authentication::SASLContinue(text.into())))?;
    let last = password_message(wire).await?;
    let text = exchange.finish(&last).map_err(refuse)?;
    wire.put(&PgWireBackendMessage::Authentication(Authentication::SASLFinal(text.into())))?;
    Ok(())
}

/// Sends what waits, and returns the body of the password message that answers it.
async fn password_message(wire: &mut Wire) -> Result<Vec<u8>, Broken> {
    use pgwire::messages::startup::PasswordMessageFamily::Raw;
    wire.flush().await?;
    match wire.next().await? {
        super::Inbound::Message(PgWireFrontendMessage::PasswordMessageFamily(Raw(body))) => {
            Ok(body.to_vec())
        }
        _ => Err(Broken::Protocol("expected a password message".into())),
    }
}

/// Returns the settings of a start: its `options`, then its other parameters.
fn settings_of(startup: &Startup) -> Result<Vec<(String, String)>, Denied> {
    let mut settings = Vec::new();
    if let Some(options) = startup.parameters.get("options") {
        let malformed =
            || denied(SqlState::SYNTAX_ERROR, "invalid command-line argument for server process");
        let mut words = options.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let setting = match (word, word.strip_prefix("-c"), word.strip_prefix("--")) {
                ("-c", ..) => words.next().ok_or_else(malformed)?,
                (_, Some(setting), _) | (_, _, Some(setting)) => setting,
                _ => return Err(malformed()),
            };
            let (name, value) = setting.split_once('=').ok_or_else(malformed)?;
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    let known = ["user", "database", "options", "replication"];
    for (name, value) in &startup.parameters {
        if !known.contains(&name.as_str()) && !name.starts_with("_pq_.") {
            settings.push((name.clone(), value.clone()));
        }
    }
    Ok(settings)
}

/// Tells a client that it is in, and with which key its statements can be cancelled.
fn greet(
    shared: &Arc<Shared>,
    mut wire: Wire,
    identity: Identity,
    version: ProtocolVersion,
) -> Result<Entered, Broken> {
    wire.bound(shared.options.bounds);
    wire.put(&PgWireBackendMessage::Authentication(Authentication::Ok))?;
    let secret_len = if version == ProtocolVersion::PROTOCOL3_0 { 4 } else { SECRET_LEN };
    let registered = shared.sessions.register(secret_len);
    let registered =
        registered.ok_or_else(|| Broken::Protocol("the system gives no random numbers".into()))?;
    let key = SecretKey::Bytes(registered.secret.clone());
    let key = BackendKeyData::new(registered.pid, key);
    wire.put(&PgWireBackendMessage::BackendKeyData(key))?;
    Ok(Entered { wire, identity, registered })
}
