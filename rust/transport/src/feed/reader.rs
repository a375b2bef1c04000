//! One process that reads the feed: its socket, what it declared, and what became of its watches.

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ctrlhost_core::event_log::EventLog;
use ctrlhost_core::object::Form;
use ctrlhost_core::selector::Selector;
use hyper::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::Limits;
use super::answers::{Body, Failure, respond};
use super::connection::{self, Slot};
use super::kind::{Declared, Kind, Serves};
use super::list::List;
use super::relay::Relay;
use super::request::{Target, Wanted, Watching};
use super::watch::{Style, Watch};

/// How long the listener waits after a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
pub struct Reader {
    path: PathBuf,
    kinds: Mutex<Vec<Arc<Kind>>>,
    slow_closed: AtomicU64,
    listening: Mutex<Option<AbortHandle>>,
    relay: Arc<Relay>,
    pub(super) limits: Limits,
}

impl Reader {
    pub(super) fn open(
        runtime: &Handle,
        limits: Limits,
        relay: &Arc<Relay>,
        path: PathBuf,
        user: u32,
    ) -> std::io::Result<Arc<Self>> {
        // Of a process that did not end in order.
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
            std::fs::remove_file(&path)?;
        }
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        let reader = Arc::new(Self {
            path,
            kinds: Mutex::default(),
            slow_closed: AtomicU64::new(0),
            listening: Mutex::default(),
            relay: relay.clone(),
            limits,
        });
        std::fs::set_permissions(&reader.path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _entered = runtime.enter();
            UnixListener::from_std(listener)?
        };
        let task = runtime.spawn(accept(listener, user, Arc::downgrade(&reader)));
        *reader.listening.lock() = Some(task.abort_handle());
        Ok(reader)
    }

    /// Serve a further kind.
    pub fn declare(&self, declared: Declared) -> Arc<Kind> {
        let kind = Arc::new(Kind::new(declared, self.relay.clone()));
        self.kinds.lock().push(kind.clone());
        kind
    }

    /// Return how many watches were closed because their client did not read.
    pub fn slow_closed(&self) -> u64 {
        self.slow_closed.load(Ordering::Relaxed)
    }

    pub(super) fn count_slow(&self) {
        self.slow_closed.fetch_add(1, Ordering::Relaxed);
    }

    /// End all connections and remove the socket. May be repeated.
    pub fn close(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.abort();
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(&self.path);
        }
        self.kinds.lock().clear();
    }

    /// Answer a request. A watch is noted in the connection's slot.
    pub(super) fn answer<B>(&self, request: &hyper::Request<B>, slot: &Slot) -> Response<Body> {
        Wanted::read(request)
            .and_then(|wanted| self.serve(wanted, slot))
            .map_or_else(Failure::into_response, respond)
    }

    fn serve(&self, wanted: Wanted, slot: &Slot) -> Result<Body, Failure> {
        let Wanted {
            target,
            form,
            watch,
        } = wanted;
        let (kind, log, selector) = self.find(&target, form)?;
        let declared = kind.declared();
        // A kind that was declared as metadata has nothing else.
        let form = match declared.form {
            Form::Whole => form,
            Form::Metadata => Form::Metadata,
        };
        let not_listed = || match kind.refusal() {
            Some(reason) => Failure::new(StatusCode::FORBIDDEN, "Forbidden", reason),
            None => Failure::not_yet(format!(
                "the first list of {} is not complete",
                target.plural
            )),
        };
        let style = Style {
            form,
            namespace: target.namespace.clone(),
            selector,
            api_version: declared.api_version.clone(),
            kind: declared.kind.clone(),
        };
        let Some(watching) = watch else {
            let listed = log.list(&target.namespace).ok_or_else(not_listed)?;
            let version = listed.reader.version();
            return Ok(Body::List(List::new(listed.objects, style, version)));
        };
        if !log.is_listed() {
            return Err(not_listed());
        }
        Ok(Body::Watch(Box::new(
            self.watch(&log, style, &watching, slot),
        )))
    }

    fn watch(&self, log: &Arc<EventLog>, style: Style, watching: &Watching, slot: &Slot) -> Watch {
        let from_now = watching.initial_events || ["", "0"].contains(&&*watching.version);
        let begun = if from_now {
            log.list(&style.namespace)
                .map(|listed| (listed.reader, listed.objects))
        } else {
            log.resume(&watching.version)
                .ok()
                .map(|reader| (reader, Vec::new()))
        };
        let Some((reader, initial)) = begun else {
            let what = format!("too old resource version: {}", watching.version);
            return Watch::failed(style, Failure::expired(what));
        };
        slot.watch(&reader);
        let mut watch = Watch::new(style, reader);
        watch.begin_with(initial, watching.initial_events);
        if watching.bookmarks {
            watch.bookmark_every(self.limits.bookmark);
        }
        if let Some(time) = watching.timeout {
            watch.end_after(time);
        }
        watch
    }

    /// Return the kind that serves a request best: one declared in the wanted form.
    fn find(
        &self,
        target: &Target,
        form: Form,
    ) -> Result<(Arc<Kind>, Arc<EventLog>, Selector), Failure> {
        let mut kinds = self.kinds.lock().clone();
        kinds.sort_by_key(|kind| kind.declared().form != form);
        let what = format!("{} of {}", target.plural, target.api_version);
        let starts = || Failure::not_yet(format!("{what}: the informer starts"));
        let mut unknown = false;
        for kind in kinds {
            match kind.serves(target) {
                (Serves::From(log), selector) => return Ok((kind, log, selector)),
                // Another kind would serve it in another form.
                (Serves::NotYet, _) => return Err(starts()),
                (Serves::Unknown, _) => unknown = true,
                (Serves::No, _) => {}
            }
        }
        if unknown {
            return Err(starts());
        }
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!(
                "{what}, namespace {:?}, label selector {:?}, field selector {:?}: not declared by this plugin",
                target.namespace, target.label_selector, target.field_selector
            ),
        ))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close();
    }
}

/// Accept connections until the reader is closed, which ends them, too.
async fn accept(listener: UnixListener, user: u32, reader: Weak<Reader>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Some(reader) = reader.upgrade() else {
            return;
        };
        match accepted {
            Ok((stream, _)) => {
                if stream.peer_cred().is_ok_and(|peer| peer.uid() == user) {
                    connections.spawn(connection::serve(stream, reader));
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
