//! Handlers: what happens with each change of a cached object, without entering Python.

/// The key of one reconcile, borrowed from the object it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRef<'a> {
    /// The object's name, or whatever names the unit of work.
    pub name: &'a str,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The cluster's name; empty while only one is configured.
    pub cluster: &'a str,
}

/// Where handlers put the requests they made; a work queue behind the border implements it.
pub trait RequestSink: Send + Sync {
    /// Adds the requests in order, under one lock. `None` keeps the priority a queued key has, and is 0 for a new one.
    fn add_requests(&self, requests: &[RequestRef<'_>], priority: Option<i32>);
}
