//! Ids of requests, by which a client's error, the log and the audit log tell of the same call.
//!
//! Invariants:
//! 1. An id that a client sends is used only if it is short and of harmless characters, so it needs no
//!    escape anywhere. Any other is passed over, and the call gets an id of the server.
//! 2. A call without an error costs no allocation for its id, which becomes a text when it is told.
//! 3. The server gives an id once: it begins with a random number of the process.

use super::explain::TraceParent;
use base::env::{FileSystem, RealFileSystem};
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use googleapis_tonic_google_rpc::google::rpc;
use prost::Message;
use prost_types::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};

/// Header in which clients send ids, and errors tell them.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes of a client's id.
const BYTES_MAX: usize = 64;
/// Bytes of messages that are repeated in the details of an error. Headers of answers are bounded.
const MESSAGE_BYTES_MAX: usize = 1 << 10;
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestId {
    /// The server's own: of the process, and of the request.
    Own(u32, u64),
    /// The id that the client chose.
    Client(HeaderValue),
    /// The trace of which the client says that the request is part.
    Trace(u128),
}

/// Gives ids. Cheap to clone; clones give different ids.
#[derive(Debug, Clone)]
pub(crate) struct RequestIds {
    process: u32,
    next: Arc<AtomicU64>,
}

impl RequestIds {
    /// Returns a source of ids that no other process gives.
    pub(crate) fn new() -> std::io::Result<Self> {
        let process = RealFileSystem.unique()? as u32;
        Ok(Self { process, next: Arc::default() })
    }

    /// Returns the id of a request with these headers.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        if let Some(id) = headers.get(HEADER).filter(|id| is_sane(id.as_bytes())) {
            return RequestId::Client(id.clone());
        }
        if let Some(TraceParent { trace, .. }) = TraceParent::of(headers) {
            return RequestId::Trace(trace);
        }
        self.own()
    }

    /// Returns the next id of the server.
    pub(crate) fn own(&self) -> RequestId {
        RequestId::Own(self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns whether an id may stand in headers and logs as it is.
fn is_sane(id: &[u8]) -> bool {
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(sane)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(process, request) => write!(f, "{process:08x}-{request:x}"),
            Self::Client(id) => f.write_str(id.to_str().unwrap_or_default()),
            Self::Trace(trace) => write!(f, "{trace:032x}"),
        }
    }
}

impl RequestId {
    /// Adds the id to the status of an error: as metadata `x-request-id`, and as `google.rpc.RequestInfo`
    /// among the details. Returns whether `headers` tell of an error.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) -> bool {
        if headers.get(Status::GRPC_STATUS).is_none_or(|code| code == "0") {
            return false;
        }
        let text = self.to_string();
        if let Some(details) = details(headers, &text) {
            headers.insert(Status::GRPC_STATUS_DETAILS, details);
        }
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
            headers.insert(HEADER, value);
        }
        true
    }
}

/// Returns the details of an error with the id of its request among them; nothing if they cannot have it.
fn details(headers: &HeaderMap, id: &str) -> Option<HeaderValue> {
    let mut whole = match headers.get(Status::GRPC_STATUS_DETAILS) {
        Some(known) => rpc::Status::decode(&BASE64.decode(known.as_bytes()).ok()?[..]).ok()?,
        None => {
            let status = Status::from_header_map(headers)?;
            let (code, message) = (status.code() as i32, status.message());
            if message.len() > MESSAGE_BYTES_MAX {
                return None;
            }
            rpc::Status { code, message: message.to_owned(), details: Vec::new() }
        }
    };
    let info = rpc::RequestInfo { request_id: id.to_owned(), ..Default::default() };
    let type_url = "type.googleapis.com/google.rpc.RequestInfo".to_owned();
    whole.details.push(Any { type_url, value: info.encode_to_vec() });
    HeaderValue::from_maybe_shared(Bytes::from(BASE64.encode(whole.encode_to_vec()))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn headers(all: &[(&'static str, &[u8])]) -> HeaderMap {
        let value = |value: &[u8]| HeaderValue::from_bytes(value).unwrap();
        all.iter().map(|(name, bytes)| (HeaderName::from_static(name), value(bytes))).collect()
    }

    const TRACE: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn sane_ids_of_clients_are_taken_and_others_passed_over() {
        let ids = RequestIds { process: 0xabc, next: Arc::default() };
        let parent = ("traceparent", TRACE);
        let of = |value: &'static [u8]| headers(&[("x-request-id", value)]);
        let trace = Some("4bf92f3577b34da6a3ce929d0e0e4736");
        for (sent, want) in [
            (of(b"a-1_2.3:/+="), Some("a-1_2.3:/+=")),
            (of(&[b'a'; BYTES_MAX]), str::from_utf8(&[b'a'; BYTES_MAX]).ok()),
            (headers(&[parent]), trace),
            (headers(&[parent, ("x-request-id", b"mine")]), Some("mine")),
            (headers(&[parent, ("x-request-id", b"no good")]), trace),
            (of(b""), None),
            (of(&[b'a'; BYTES_MAX + 1]), None),
            (of(b"a\"b"), None),
            (of(b"a\tb"), None),
            (of(b"\xff\xfe"), None),
            (of(b"{}"), None),
        ] {
            let id = ids.of(&sent);
            match want {
                Some(want) => assert_eq!(id.to_string(), want),
                None => assert!(matches!(id, RequestId::Own(0xabc, _)), "{sent:?}: {id:?}"),
            }
        }
        assert_eq!(ids.clone().of(&HeaderMap::new()).to_string(), "00000abc-6");
        assert_eq!(ids.of(&HeaderMap::new()).to_string(), "00000abc-7");
    }

    #[test]
    fn an_error_tells_its_id_beside_its_other_details() {
        let retry = rpc::RetryInfo::default();
        let type_url = "type.googleapis.com/google.rpc.RetryInfo".to_owned();
        let details = vec![Any { type_url, value: retry.encode_to_vec() }];
        let whole = rpc::Status { code: 8, message: "full".to_owned(), details };
        let id = RequestId::Own(1, 2);
        for (status, others) in [
            (Status::not_found("table \u{e9}"), 0),
            (
                Status::with_details(Code::ResourceExhausted, "full", whole.encode_to_vec().into()),
                1,
            ),
        ] {
            let mut headers = status.clone().into_http::<()>().headers().clone();
            assert!(id.add_to(&mut headers));
            assert_eq!(headers["x-request-id"], "00000001-2");
            let told = Status::from_header_map(&headers).unwrap();
            assert_eq!((told.code(), told.message()), (status.code(), status.message()));
            let whole = rpc::Status::decode(told.details()).unwrap();
            assert_eq!((whole.code, &*whole.message), (status.code() as i32, status.message()));
            assert_eq!(whole.details.len(), others + 1);
            let info = &whole.details[others];
            assert_eq!(info.type_url, "type.googleapis.com/google.rpc.RequestInfo");
            let info = rpc::RequestInfo::decode(&info.value[..]).unwrap();
            assert_eq!(info.request_id, "00000001-2");
        }
    }

    #[test]
    fn success_is_left_alone_and_a_long_message_is_not_repeated() {
        let id = RequestId::Own(1, 2);
        for ok in [headers(&[]), headers(&[("grpc-status", b"0")])] {
            let mut after = ok.clone();
            assert!(!id.add_to(&mut after));
            assert_eq!(ok, after);
        }
        let long = "a".repeat(MESSAGE_BYTES_MAX + 1);
        let mut told = Status::aborted(long).into_http::<()>().headers().clone();
        assert!(id.add_to(&mut told));
        assert!(told.contains_key(HEADER) && !told.contains_key(Status::GRPC_STATUS_DETAILS));
        // Details that are not ours to read stay as they are.
        let mut odd = headers(&[("grpc-status", b"5"), ("grpc-status-details-bin", b"!")]);
        assert!(id.add_to(&mut odd));
        assert_eq!(odd["grpc-status-details-bin"], "!");
        assert_eq!(odd[HEADER], "00000001-2");
    }
}
