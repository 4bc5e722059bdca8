//! What `stele checkpoint` and `stele backup` ask of a running server, under `/admin` of its HTTP
//! address.
//!
//! | request | does |
//! |---|---|
//! | `GET /admin/checkpoint` | tells where the data directory is |
//! | `POST /admin/checkpoint`, a JSON object [`Wanted`] | makes a checkpoint and tells of it |
//!
//! Both answer with the JSON object [`Made`]. A request without the header [`HEADER`] is refused: a
//! page in a browser on the same machine cannot send it without asking first, which nobody here
//! answers.

use super::admin::HEADER;
use super::state::State as Server;
use crate::copies::place;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use backup::BackupId;
use engine::Engine;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Request for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Wanted {
    /// One in this directory, which is absolute, new or empty, and below the option
    /// `checkpoint_dir`.
    Into(PathBuf),
    /// One for the backup of this id, in its place in the data directory.
    ForBackup(String),
}

/// A server's directory and, if one was made, its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) data_dir: PathBuf,
    pub(crate) checkpoint: Option<PathBuf>,
}

type Refusal = (StatusCode, String);

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/admin/checkpoint", get(data_dir).post(checkpoint))
}

async fn data_dir(State(server): State<Arc<Server>>, headers: HeaderMap) -> Response {
    let answer = engine(&server, &headers)
        .map(|engine| Made { data_dir: engine.dir().to_owned(), checkpoint: None });
    respond(answer)
}

async fn checkpoint(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    respond(make(&server, &headers, &body).await)
}

async fn make(server: &Server, headers: &HeaderMap, body: &[u8]) -> Result<Made, Refusal> {
    let engine = engine(server, headers)?.clone();
    let wanted = serde_json::from_slice(body);
    let wanted = wanted.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let data_dir = engine.dir().to_owned();
    let wide = server.checkpoint_dir().unwrap_or(&data_dir);
    let into = directory(&wanted, &data_dir, wide);
    let into = into.map_err(|text| (StatusCode::BAD_REQUEST, text))?;
    let made = into.clone();
    let done = tokio::task::spawn_blocking(move || {
        engine.store_id()?;
        engine.checkpoint(&made)
    });
    let done =
        done.await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    done.map_err(|error| {
        let status = match error {
            engine::Error::Unusable { .. } => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, error.to_string())
    })?;
    tracing::info!(dir = %into.display(), "created a checkpoint");
    Ok(Made { data_dir, checkpoint: Some(into) })
}

/// Returns the directory for the checkpoint, which lies in `confines` if the client chose it.
fn directory(wanted: &Wanted, data_dir: &Path, confines: &Path) -> Result<PathBuf, String> {
    match wanted {
        Wanted::Into(dir) if !dir.is_absolute() => {
            Err(format!("{} is not an absolute path", dir.display()))
        }
        Wanted::Into(dir) => confined(dir, confines),
        Wanted::ForBackup(id) => {
            let id: BackupId = id.parse()?;
            let dir = std::path::absolute(data_dir).map_err(|error| error.to_string())?;
            Ok(place::directory(&dir, &id))
        }
    }
}

/// Returns `dir` without links in it, if it lies in `confines`, whatever links its path has.
fn confined(dir: &Path, confines: &Path) -> Result<PathBuf, String> {
    let refused = || {
        format!(
            "{} is not below {}, where this server may make checkpoints (option checkpoint_dir)",
            dir.display(),
            confines.display()
        )
    };
    if dir.components().any(|part| part == Component::ParentDir) {
        return Err(refused());
    }
    let confines =
        confines.canonicalize().map_err(|error| format!("{}: {error}", confines.display()))?;
    // A link that leads nowhere is there too, and would be followed.
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let there = dir.ancestors().find(is_there).ok_or_else(refused)?;
    let real = there.canonicalize().map_err(|_| refused())?;
    let rest = dir.strip_prefix(there).map_err(|_| refused())?;
    let whole = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    if whole == confines || !whole.starts_with(&confines) {
        return Err(refused());
    }
    Ok(whole)
}

fn engine<'a>(server: &'a Server, headers: &HeaderMap) -> Result<&'a Engine, Refusal> {
    if !headers.contains_key(HEADER) {
        let text = format!("send the header {HEADER} with any value");
        return Err((StatusCode::FORBIDDEN, text));
    }
    server.engine().ok_or_else(|| {
        let text = "the data directory is still opening; retry when /readyz is ready";
        (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
    })
}

fn respond(answer: Result<Made, Refusal>) -> Response {
    let made = answer.map(|made| Made {
        data_dir: std::path::absolute(&made.data_dir).unwrap_or(made.data_dir),
        checkpoint: made.checkpoint,
    });
    match made.map(|made| serde_json::to_string(&made)) {
        Ok(Ok(text)) => (StatusCode::OK, text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_path_and_no_link_leads_out_of_the_confines() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("out"));
        for dir in [&inside, &outside, &inside.join("sub")] {
            std::fs::create_dir(dir).unwrap();
        }
        symlink(&outside, inside.join("link")).unwrap();
        symlink(root.join("gone"), inside.join("dangling")).unwrap();
        symlink(inside.join("sub"), inside.join("back")).unwrap();
        symlink(&inside, root.join("alias")).unwrap();
        let ask = |path: &str| confined(&root.join(path), &inside).ok();
        for (path, want) in [
            ("in/new", Some("in/new")),
            ("in/new/deep", Some("in/new/deep")),
            ("in/sub", Some("in/sub")),
            ("in/back/new", Some("in/sub/new")),
            ("alias/new", Some("in/new")),
            ("in", None),
            ("out", None),
            ("out/new", None),
            ("in2", None),
            ("in/../out", None),
            ("in/sub/../new", None),
            ("in/link", None),
            ("in/link/new", None),
            ("in/dangling", None),
            ("in/dangling/new", None),
            ("/", None),
        ] {
            assert_eq!(ask(path), want.map(|want| root.join(want)), "{path}");
        }
        let refusal = confined(&outside, &inside).unwrap_err();
        assert!(refusal.contains("checkpoint_dir"), "{refusal}");
        let relative = directory(&Wanted::Into("in/new".into()), &inside, &inside);
        assert!(relative.is_err());
    }
}
