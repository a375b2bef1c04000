//! Whether the owners of a kind have a namespace, which may be unknown for a while; requests wait until it is known.

use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{OwnedRequest, RequestRef, RequestSink};
use crate::sync::{Mutex, Rank};

/// A request that waits; its queue, and the highest priority with which it came.
struct Waiting {
    sink: Arc<dyn RequestSink>,
    request: OwnedRequest,
    priority: Option<i32>,
}

/// The requests that wait, each once.
type Held = HashMap<(usize, String, String), Waiting, RandomState>;

/// See the module.
pub struct OwnerScope {
    cluster_scoped: OnceLock<bool>,
    /// None once nothing waits any more.
    held: Mutex<Option<Held>>,
}

impl OwnerScope {
    /// Start with what is known.
    pub fn new(cluster_scoped: Option<bool>) -> Self {
        let held = cluster_scoped.is_none().then(Held::default);
        Self {
            cluster_scoped: cluster_scoped.map_or_else(OnceLock::new, OnceLock::from),
            held: Mutex::new(Rank::OwnerScope, held),
        }
    }

    /// Return whether the owners have no namespace; None if that is not known yet.
    #[inline]
    pub fn is_cluster_scoped(&self) -> Option<bool> {
        self.cluster_scoped.get().copied()
    }

    /// Keep requests with the namespace of the owned object until the answer is known.
    pub(super) fn hold(
        &self,
        requests: &[RequestRef<'_>],
        priority: Option<i32>,
        sink: &Arc<dyn RequestSink>,
    ) {
        let mut held = self.held.lock();
        if let Some(held) = &mut *held {
            for request in requests {
                let id = Arc::as_ptr(sink).cast::<()>().addr();
                let key = (id, request.name.to_owned(), request.namespace.to_owned());
                let waiting = held.entry(key).or_insert_with(|| Waiting {
                    sink: sink.clone(),
                    request: OwnedRequest {
                        name: request.name.to_owned(),
                        namespace: request.namespace.to_owned(),
                        cluster: request.cluster.to_owned(),
                    },
                    priority,
                });
                waiting.priority = waiting.priority.max(priority);
            }
            return;
        }
        drop(held);
        // The answer came in between; without one, nobody wants the requests any more.
        if let Some(cluster_scoped) = self.is_cluster_scoped() {
            for request in requests {
                add(sink, *request, cluster_scoped, priority);
            }
        }
    }

    /// Note the answer, and queue what waited for it.
    pub fn resolve(&self, cluster_scoped: bool) {
        let mut held = self.held.lock();
        if held.is_some() {
            let _ = self.cluster_scoped.set(cluster_scoped);
        }
        let all = held.take();
        drop(held);
        for waiting in all.into_iter().flat_map(HashMap::into_values) {
            let request = RequestRef {
                name: &waiting.request.name,
                namespace: &waiting.request.namespace,
                cluster: &waiting.request.cluster,
            };
            add(&waiting.sink, request, cluster_scoped, waiting.priority);
        }
    }

    /// Drop what waits, and whatever comes before the answer: the handler was removed.
    pub fn drop_waiting(&self) {
        let dropped = self.held.lock().take();
        drop(dropped);
    }
}

fn add(
    sink: &Arc<dyn RequestSink>,
    request: RequestRef<'_>,
    cluster_scoped: bool,
    priority: Option<i32>,
) {
    let namespace = if cluster_scoped {
        ""
    } else {
        request.namespace
    };
    sink.add_requests(
        &[RequestRef {
            namespace,
            ..request
        }],
        priority,
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::handlers::{Change, Mapping, QueueHandler};
    use crate::owner::Owner;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl RequestSink for Seen {
        fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>) {
            let names = requests
                .iter()
                .map(|one| format!("{}/{} {priority:?}", one.namespace, one.name));
            self.0.lock().expect("no panic").extend(names);
        }
    }

    fn child(name: &str, owner: &str) -> Change {
        let object = crate::handlers::pod(&format!(
            r#""name":"{name}","namespace":"n","ownerReferences":[{{"apiVersion":"x/v1","kind":"K","name":"{owner}"}}]"#
        ));
        Change::Add {
            object,
            initial: false,
        }
    }

    // behaviour: supervision/IN18
    #[test]
    fn requests_wait_until_the_scope_of_the_owner_is_known() {
        for (cluster_scoped, namespace) in [(true, ""), (false, "n")] {
            let (seen, scope) = (Arc::new(Seen::default()), Arc::new(OwnerScope::new(None)));
            let mapping = Mapping::Owner(Owner::new("x/v1", "K", false), scope.clone());
            let handler = QueueHandler::new(seen.clone(), mapping);
            for change in [child("a", "one"), child("b", "one"), child("c", "two")] {
                handler.handle([change].iter(), &|| false);
            }
            assert!(seen.0.lock().expect("no panic").is_empty());
            scope.resolve(cluster_scoped);
            handler.handle([child("d", "three")].iter(), &|| false);
            let mut seen = seen.0.lock().expect("no panic").clone();
            seen.sort();
            let wanted = ["one", "three", "two"].map(|name| format!("{namespace}/{name} Some(0)"));
            assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn a_removed_handler_queues_nothing_when_the_scope_is_known() {
        let (seen, scope) = (Arc::new(Seen::default()), Arc::new(OwnerScope::new(None)));
        let mapping = Mapping::Owner(Owner::new("x/v1", "K", false), scope.clone());
        let handler = QueueHandler::new(seen.clone(), mapping);
        handler.handle([child("a", "one")].iter(), &|| false);
        scope.drop_waiting();
        handler.handle([child("b", "two")].iter(), &|| false);
        scope.resolve(true);
        assert!(seen.0.lock().expect("no panic").is_empty());
    }
}
