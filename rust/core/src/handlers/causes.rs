//! The changes that added chosen requests to a queue.

use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};

use super::mapping::OwnedRequest;
use super::{Change, RequestRef};
use crate::sync::{AtomicBool, Mutex, Rank};

/// The most causes that are kept for a request.
const MAX: usize = 64;

/// The state of an object to which a change led; the resource version is empty for a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The uid of the object; empty if some causes were dropped.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
}

/// Records the changes that add chosen requests. A queue without such requests pays one load per batch of changes.
pub struct Causes {
    wanted: AtomicBool,
    of: Mutex<HashMap<OwnedRequest, Vec<Cause>, RandomState>>,
}

impl Default for Causes {
    fn default() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            of: Mutex::new(Rank::Causes, HashMap::default()),
        }
    }
}

impl Causes {
    /// Record the causes of a request from now on.
    pub fn record(&self, request: OwnedRequest) {
        self.of.lock().entry(request).or_default();
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// Stop recording, and drop what was recorded.
    pub fn forget(&self, request: &OwnedRequest) {
        let mut of = self.of.lock();
        of.remove(request);
        self.wanted.store(!of.is_empty(), Ordering::SeqCst);
    }

    /// Return the causes since the last call, oldest first; the first one is empty if there were too many.
    pub fn take(&self, request: &OwnedRequest) -> Vec<Cause> {
        let mut of = self.of.lock();
        of.get_mut(request).map(std::mem::take).unwrap_or_default()
    }

    /// Return whether any request is recorded.
    #[inline]
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Record a change that is about to add these requests.
    pub(super) fn note<'a>(&self, change: &Change, requests: impl Iterator<Item = RequestRef<'a>>) {
        let mut of = self.of.lock();
        for request in requests {
            let Some(causes) = of.get_mut(&request) else {
                continue;
            };
            if causes.len() < MAX {
                causes.push(Cause::of(change));
            } else {
                causes[0] = Cause::default();
            }
        }
    }
}

impl Cause {
    fn of(change: &Change) -> Self {
        let (old, new) = change.states();
        Self {
            uid: new
                .or(old)
                .map(|object| object.uid().into_owned())
                .unwrap_or_default(),
            resource_version: new
                .map(|object| object.resource_version().into_owned())
                .unwrap_or_default(),
        }
    }
}

impl Equivalent<OwnedRequest> for RequestRef<'_> {
    fn equivalent(&self, other: &OwnedRequest) -> bool {
        (self.name, self.namespace, self.cluster)
            == (
                other.name.as_str(),
                other.namespace.as_str(),
                other.cluster.as_str(),
            )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Mapping, QueueHandler, RequestSink};
    use super::*;

    #[derive(Default)]
    struct Sink(Causes);

    impl RequestSink for Sink {
        fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {}

        fn causes(&self) -> Option<&Causes> {
            Some(&self.0)
        }
    }

    fn request(name: &str) -> OwnedRequest {
        OwnedRequest {
            name: name.to_owned(),
            ..OwnedRequest::default()
        }
    }

    fn pod(name: &str, version: u32) -> Arc<crate::object::Object> {
        crate::handlers::pod(&format!(
            r#""name":"{name}","uid":"u-{name}","resourceVersion":"{version}""#
        ))
    }

    fn update(name: &str, version: u32) -> Change {
        Change::Update {
            old: pod(name, version - 1),
            new: pod(name, version),
        }
    }

    fn cause(name: &str, version: &str) -> Cause {
        Cause {
            uid: format!("u-{name}"),
            resource_version: version.to_owned(),
        }
    }

    #[test]
    fn only_the_changes_of_recorded_requests_are_kept_until_taken() {
        let sink = Arc::new(Sink::default());
        let handler = QueueHandler::new(sink.clone(), Mapping::Object);
        let handle = |change: Change| handler.handle([&change].into_iter(), &|| false);
        handle(update("a", 2));
        assert!(!sink.0.wanted());
        sink.0.record(request("a"));
        assert!(sink.0.wanted());
        handle(update("a", 3));
        handle(update("b", 4));
        let object = crate::delta_fifo::DeltaObject::Live(pod("a", 5));
        let key = pod("a", 5).key().clone();
        handle(Change::Delete { key, object });
        assert_eq!(
            sink.0.take(&request("a")),
            [cause("a", "3"), cause("a", "")]
        );
        assert_eq!(sink.0.take(&request("a")), []);
        assert_eq!(sink.0.take(&request("b")), []);
        sink.0.forget(&request("a"));
        assert!(!sink.0.wanted());
        handle(update("a", 6));
        assert_eq!(sink.0.take(&request("a")), []);
    }

    #[test]
    fn too_many_causes_are_bounded_and_marked() {
        let sink = Arc::new(Sink::default());
        let handler = QueueHandler::new(sink.clone(), Mapping::Object);
        sink.0.record(request("a"));
        for version in 2..200 {
            handler.handle([&update("a", version)].into_iter(), &|| false);
        }
        let taken = sink.0.take(&request("a"));
        assert_eq!(taken.len(), MAX);
        assert_eq!(taken[0], Cause::default());
        assert_eq!(taken[1], cause("a", "3"));
    }
}
