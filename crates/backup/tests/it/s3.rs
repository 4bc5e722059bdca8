//! The same over the S3 protocol, with an S3-speaking server in this process.

use crate::support::{Home, all_whole, content_of, create, remove, restore, visible};
use backup::{Destination, Missing, PlainHttp, S3Options};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::path::Path;
use tokio::net::TcpListener;

/// Serves the buckets in `root` until the runtime ends; gives the address.
async fn serve(root: &Path) -> String {
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    service.set_auth(SimpleAuth::from_single("an-access-key", "a-secret-key"));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let http = Builder::new(TokioExecutor::new());
        while let Ok((socket, _)) = listener.accept().await {
            let connection = http.serve_connection(TokioIo::new(socket), service.clone());
            tokio::spawn(connection.into_owned());
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_goes_to_s3_and_comes_back() {
    let home = Home::of_large_files();
    let buckets = home.path("buckets");
    std::fs::create_dir_all(buckets.join("bucket")).unwrap();
    let endpoint = serve(&buckets).await;
    let options = S3Options {
        endpoint: Some(endpoint),
        region: Some("us-east-1".into()),
        access_key: Some(("an-access-key".into(), "a-secret-key".into())),
        plain_http: PlainHttp::Loopback,
    };
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

    let wrong = ("an-access-key".to_owned(), "another-secret-key".to_owned());
    let options = S3Options { access_key: Some(wrong), ..options };
    let to = Destination::open("s3://bucket/some/prefix", &options, Missing::Refuse).unwrap();
    let refused = backup::list(&to).await.unwrap_err().to_string();
    assert!(refused.contains("s3://bucket/some/prefix") && !refused.contains("another-secret"));
}
