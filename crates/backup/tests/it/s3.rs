//! The same over the S3 protocol, with an S3-speaking server in this process.

use crate::support::{Home, all_whole, content_of, create, remove, restore, visible};
use backup::{Destination, Missing, S3Options};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const KEY: &str = "an-access-key";
const SECRET: &str = "a-secret-key";

/// Serves the buckets in `root` until the runtime ends, through `tls` if there is any; gives the
/// address.
async fn serve(root: &Path, tls: Option<TlsAcceptor>) -> SocketAddr {
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    service.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (service, tls) = (service.clone(), tls.clone());
            tokio::spawn(async move {
                let http = Builder::new(TokioExecutor::new());
                // How a connection ends is for the client to tell.
                let _ = match tls {
                    None => http.serve_connection(TokioIo::new(socket), service).await,
                    Some(tls) => match tls.accept(socket).await {
                        Ok(socket) => http.serve_connection(TokioIo::new(socket), service).await,
                        Err(_) => Ok(()),
                    },
                };
            });
        }
    });
    address
}

/// What a server needs that calls itself 127.0.0.1, and the certificate of its authority: its own.
fn tls() -> (TlsAcceptor, String) {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), signed.cert.pem())
}

fn options(endpoint: String) -> S3Options {
    S3Options {
        endpoint: Some(endpoint),
        region: Some("us-east-1".into()),
        access_key: Some((KEY.into(), SECRET.into())),
        ..S3Options::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_goes_to_s3_and_comes_back() {
    let home = Home::of_large_files();
    let buckets = home.path("buckets");
    std::fs::create_dir_all(buckets.join("bucket")).unwrap();
    let options = options(format!("http://{}", serve(&buckets, None).await));
    let to = Destination::open("s3://bucket/some/prefix", &options, Missing::Refuse).unwrap();

    home.ingest(18 << 20);
    home.write(0..300, 1);
    home.flush();
    let (first, content) = home.checkpoint("first");
    let ids = [home.id(), home.id()];
    create(&to, &first, &ids[0]).await.unwrap();
    home.write(0..10, 2);
    let (second, later) = home.checkpoint("second");
    let created = create(&to, &second, &ids[1]).await.unwrap();
    assert!(created.record.sent_bytes < 1 << 20, "{} bytes", created.record.sent_bytes);
    assert_eq!(visible(&to).await, ids);
    all_whole(&to).await;
    for (id, content) in ids.iter().zip([content, later]) {
        let into = home.path(id.as_str());
        restore(&to, id, &into).await.unwrap();
        assert_eq!(content_of(&into), content);
    }
    remove(&to, &ids[..1], 1).await.unwrap();
    assert_eq!(visible(&to).await, ids[1..]);
    all_whole(&to).await;

    let wrong = (KEY.to_owned(), "another-secret-key".to_owned());
    let options = S3Options { access_key: Some(wrong), ..options };
    let to = Destination::open("s3://bucket/some/prefix", &options, Missing::Refuse).unwrap();
    let refused = backup::list(&to).await.unwrap_err().to_string();
    assert!(refused.contains("s3://bucket/some/prefix") && !refused.contains("another-secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_those_whose_authority_is_believed() {
    let home = Home::new();
    let buckets = home.path("buckets");
    std::fs::create_dir_all(buckets.join("bucket")).unwrap();
    let (tls, pem) = tls();
    let strange = options(format!("https://{}", serve(&buckets, Some(tls)).await));
    let ca_bundle = home.path("ca.pem");
    std::fs::write(&ca_bundle, pem).unwrap();
    let believed = S3Options { ca_bundle: Some(ca_bundle), ..strange.clone() };
    let open = |options| Destination::open("s3://bucket/prefix", options, Missing::Refuse).unwrap();

    home.write(0..300, 1);
    let (checkpoint, content) = home.checkpoint("first");
    let id = home.id();
    create(&open(&believed), &checkpoint, &id).await.unwrap();
    all_whole(&open(&believed)).await;
    let into = home.path("restored");
    restore(&open(&believed), &id, &into).await.unwrap();
    assert_eq!(content_of(&into), content);

    let refused = backup::list(&open(&strange)).await.unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
}
