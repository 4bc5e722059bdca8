//! An object store whose every call is counted, and at one of which something happens.

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// It fails and does nothing.
    Fail,
    /// It does what it should, and its answer is lost.
    LoseAnswer,
    /// It fails and does nothing, and so does every later one.
    Gone,
    /// Something else is done first.
    Meanwhile,
}

type Act = BoxFuture<'static, ()>;

#[derive(Default)]
struct State {
    calls: u64,
    /// The call, counted from 0, and what happens.
    chosen: Option<(u64, At)>,
    meanwhile: Option<Act>,
    /// Objects that were written, and how often.
    written: BTreeMap<String, u64>,
    /// Bytes after which every answer is cut, as by the time that a request may take.
    answer_bytes: Option<usize>,
    /// Most bytes of a part that was asked for.
    asked_bytes: u64,
    /// True if it cannot write an object only if it is absent.
    overwrites: bool,
}

#[derive(Clone)]
pub(crate) struct Watched {
    inner: Arc<dyn ObjectStore>,
    state: Arc<Mutex<State>>,
}

impl Watched {
    pub(crate) fn new(inner: &Arc<dyn ObjectStore>) -> Self {
        Self { inner: Arc::clone(inner), state: Arc::default() }
    }

    pub(crate) fn choose(&self, call: u64, at: At) {
        self.state.lock().unwrap().chosen = Some((call, at));
    }

    /// `act` is done before call number `call`.
    pub(crate) fn meanwhile(&self, call: u64, act: Act) {
        self.choose(call, At::Meanwhile);
        self.state.lock().unwrap().meanwhile = Some(act);
    }

    /// Returns whether the chosen call was made.
    pub(crate) fn happened(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.chosen.is_some_and(|(call, _)| state.calls > call)
    }

    /// Every answer is cut after `bytes`.
    pub(crate) fn cut_answers(&self, bytes: usize) {
        self.state.lock().unwrap().answer_bytes = Some(bytes);
    }

    /// Most bytes of a part of an object that were asked for at once.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.state.lock().unwrap().asked_bytes
    }

    /// From now on it does not know how to write an object only if it is absent.
    pub(crate) fn always_overwrites(&self) {
        self.state.lock().unwrap().overwrites = true;
    }

    /// How often each object was written.
    pub(crate) fn written(&self) -> BTreeMap<String, u64> {
        self.state.lock().unwrap().written.clone()
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.clone())
    }

    /// Counts a call; what happens at it.
    fn enter(&self) -> (Option<At>, Option<Act>) {
        let mut state = self.state.lock().unwrap();
        let call = state.calls;
        state.calls += 1;
        let happens =
            |(chosen, at): &(u64, At)| *chosen == call || (*at == At::Gone && *chosen < call);
        let at = state.chosen.filter(happens).map(|(_, at)| at);
        let act = if at == Some(At::Meanwhile) { state.meanwhile.take() } else { None };
        (at, act)
    }

    fn note(&self, location: &Path) {
        *self.state.lock().unwrap().written.entry(location.to_string()).or_default() += 1;
    }

    /// Does `call`, unless something else happens.
    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let (at, act) = self.enter();
        if let Some(act) = act {
            act.await;
        }
        match at {
            Some(At::Fail | At::Gone) => Err(fault()),
            Some(At::LoseAnswer) => call.await.and(Err(fault())),
            Some(At::Meanwhile) | None => call.await,
        }
    }
}

/// The answer, of whose body no more than `bytes` come.
fn cut(found: GetResult, bytes: usize) -> GetResult {
    let (meta, range, attributes) =
        (found.meta.clone(), found.range.clone(), found.attributes.clone());
    let extensions = found.extensions.clone();
    let body = async move {
        let body = found.bytes().await.unwrap();
        let mut came = vec![Ok(body.slice(..bytes.min(body.len())))];
        came.extend((body.len() > bytes).then(|| Err(fault())));
        futures::stream::iter(came)
    };
    let payload = GetResultPayload::Stream(body.flatten_stream().boxed());
    GetResult { payload, meta, range, attributes, extensions }
}

fn fault() -> Error {
    Error::Generic { store: "watched", source: "a fault that was asked for".into() }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("watched")
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("watched")
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode == PutMode::Create && self.state.lock().unwrap().overwrites {
            let operation = "a write if absent".to_owned();
            return Err(Error::NotImplemented { operation, implementer: "watched".to_owned() });
        }
        self.call(async {
            let put = self.inner.put_opts(location, payload, options).await?;
            self.note(location);
            Ok(put)
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.call(self.inner.put_multipart_opts(location, options)).await?;
        Ok(Box::new(WatchedUpload { watched: self.clone(), location: location.clone(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let whole = options.head;
        if let Some(GetRange::Bounded(part)) = &options.range {
            let mut state = self.state.lock().unwrap();
            state.asked_bytes = state.asked_bytes.max(part.end - part.start);
        }
        let found = self.call(self.inner.get_opts(location, options)).await?;
        let bytes = self.state.lock().unwrap().answer_bytes;
        Ok(match bytes.filter(|_| !whole) {
            Some(bytes) => cut(found, bytes),
            None => found,
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .then(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    let one = futures::stream::once(async { Ok(location) }).boxed();
                    let mut deleted = this.inner.delete_stream(one);
                    this.call(async { deleted.next().await.unwrap() }).await
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let listed = async { Ok(this.inner.list(prefix.as_ref()).collect::<Vec<_>>().await) };
            this.call(listed).await.unwrap_or_else(|error| vec![Err(error)])
        };
        listed.map(futures::stream::iter).flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct WatchedUpload {
    watched: Watched,
    location: Path,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for WatchedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (watched, put) = (self.watched.clone(), self.upload.put_part(data));
        async move { watched.call(put).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let done = self.watched.call(self.upload.complete()).await?;
        self.watched.note(&self.location);
        Ok(done)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
