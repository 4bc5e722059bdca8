//! Requests that must not be served: wrong credentials, roles that do not allow them, and names of the
//! server that web pages chose.

use super::methods::{self, Call};
use crate::AnyError;
use crate::hostile::attacker::Field;
use crate::hostile::credentials::Credentials;
use crate::hostile::wire::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

const WINDOW: u32 = 64 << 10;
/// A name that a web page can give the address of the server.
const FOREIGN_HOST: &str = "attacker.example";
const HTTP_REQUESTS: [&str; 3] =
    ["GET /metrics", "GET /admin/compactions", "POST /admin/checkpoint"];

/// Calls every method with all credentials that are good for nothing.
pub(super) async fn forged_tokens(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    let calls = methods::guarded();
    for forgery in &credentials(field)?.forged {
        let header = forgery.header.as_deref();
        for call in &calls {
            let code = peer.call_as(header, call).await?;
            judge(field, code, Code::Unauthenticated, &forgery.fault, call);
        }
        for request in HTTP_REQUESTS {
            let status = ask(field, request, None, header).await?;
            judge_http(field, status, &[401], &forgery.fault, request);
        }
    }
    Ok(())
}

/// Calls methods with good tokens whose roles do not allow them.
pub(super) async fn wrong_roles(field: &Field) -> Result<(), AnyError> {
    let peer = Peer::connect(field, WINDOW).await?;
    let known = credentials(field)?;
    for (role, token, calls) in [
        ("a reader", &known.reader, methods::above_readers()),
        ("an administrator of another instance", &known.elsewhere, methods::guarded()),
    ] {
        let header = format!("Bearer {token}");
        for call in &calls {
            let code = peer.call_as(Some(&header), call).await?;
            judge(field, code, Code::PermissionDenied, role, call);
        }
        for request in HTTP_REQUESTS {
            let status = ask(field, request, None, Some(&header)).await?;
            judge_http(field, status, &[403], role, request);
        }
    }
    Ok(())
}

/// Sends HTTP requests as a page in a browser can send them.
pub(super) async fn rebinding(field: &Field) -> Result<(), AnyError> {
    if field.http.is_none() {
        return std::future::pending().await;
    }
    for request in HTTP_REQUESTS {
        let status = ask(field, request, Some(FOREIGN_HOST), None).await?;
        judge_http(field, status, &[403, 421], FOREIGN_HOST, request);
    }
    Ok(())
}

fn credentials(field: &Field) -> Result<&Credentials, AnyError> {
    field.credentials.as_ref().ok_or_else(|| "there are no credentials".into())
}

/// Counts a call, and one that ended with another code than `want` as let in.
fn judge(field: &Field, code: Code, want: Code, who: &str, call: &Call) {
    field.sent(1);
    field.answered(code);
    if code != want {
        field.let_in(format!("{who} at {}: {code:?}", call.path));
    }
}

fn judge_http(field: &Field, status: Option<u16>, want: &[u16], who: &str, request: &str) {
    let Some(status) = status else { return };
    field.sent(1);
    if !want.contains(&status) {
        field.let_in(format!("{who} at {request}: {status}"));
    }
}

/// Sends an HTTP request; returns the status of its answer. Nothing is sent to a server without HTTP.
async fn ask(
    field: &Field,
    request: &str,
    host: Option<&str>,
    authorization: Option<&str>,
) -> Result<Option<u16>, AnyError> {
    let Some(http) = field.http else { return Ok(None) };
    let mut stream = TcpStream::connect(http).await?;
    let host = host.map_or_else(|| http.to_string(), str::to_owned);
    let shown = authorization.map_or_else(String::new, |it| format!("Authorization: {it}\r\n"));
    let text = format!(
        "{request} HTTP/1.1\r\nHost: {host}\r\n{shown}X-Stele-Admin: 1\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Some(status.ok_or("no status")?))
}
