//! The handler that adds requests to a work queue.

use std::borrow::Cow;
use std::sync::Arc;

use super::mapping::Mapped;
use super::{Change, Mapping, OwnerScope, Predicate, RequestRef, RequestSink};

/// Maps changes to requests and adds them to a queue, a batch under one lock.
pub struct QueueHandler {
    /// The queue.
    pub sink: Arc<dyn RequestSink>,
    /// The requests of a change.
    pub mapping: Mapping,
    /// All of these must pass.
    pub predicates: Vec<Predicate>,
    /// The priority of real changes.
    pub priority: Option<i32>,
    /// The priority of the first list and of resyncs, so that real changes overtake a cold start.
    pub low_priority: Option<i32>,
}

impl QueueHandler {
    /// Create a handler of all changes, without priorities.
    pub fn new(sink: Arc<dyn RequestSink>, mapping: Mapping) -> Self {
        Self {
            sink,
            mapping,
            predicates: Vec::new(),
            priority: None,
            low_priority: None,
        }
    }

    /// Return whether it calls nothing beyond the border and waits for nothing, so that the informer may run it.
    pub fn is_native(&self) -> bool {
        let native = self.predicates.iter().all(Predicate::is_native);
        native && self.mapping.is_native() && self.sink.is_native()
    }

    /// Add the requests of the changes. Once the handler is `removed`, nothing more is called or added.
    pub fn handle<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change>,
        removed: &dyn Fn() -> bool,
    ) {
        let mut mapped: Vec<Mapped<'_>> = Vec::new();
        // Runs of requests of one priority, in order: the initial list is one run, so is a burst of events.
        let mut runs: Vec<(Option<i32>, usize)> = Vec::new();
        let scope = self.mapping.owner_scope();
        let cluster_scoped = scope.and_then(OwnerScope::is_cluster_scoped);
        // Unknown now: if the answer comes meanwhile, the scope has it.
        let unknown = scope.filter(|_| cluster_scoped.is_none());
        let causes = self.sink.causes().filter(|causes| causes.wanted());
        for change in changes {
            let (old, new) = change.states();
            let passes = |predicate: &Predicate| !removed() && predicate.passes(old, new);
            if !self.predicates.iter().all(passes) {
                continue;
            }
            if removed() {
                return;
            }
            let before = mapped.len();
            self.mapping.collect(old, new, &mut mapped, removed);
            let added = mapped.len() - before;
            if added == 0 {
                continue;
            }
            if cluster_scoped == Some(true) {
                let owners = mapped.iter_mut().skip(before);
                owners.for_each(|owner| owner.namespace = Cow::Borrowed(""));
            }
            if let Some(causes) = causes {
                // Before they are queued, so that a run finds all of its causes.
                causes.note(change, mapped.iter().skip(before).map(Mapped::request));
            }
            let low = change.is_initial() || change.is_sync();
            // A real change without its own priority gets 0, not "keep": it must raise a key that the initial list
            // queued low.
            let priority = if low {
                self.low_priority
            } else {
                Some(self.priority.unwrap_or(0))
            };
            match runs.last_mut() {
                Some((last, count)) if *last == priority => *count += added,
                _ => runs.push((priority, added)),
            }
        }
        let requests: Vec<RequestRef<'_>> = mapped.iter().map(Mapped::request).collect();
        let mut rest = requests.as_slice();
        for (priority, count) in runs {
            if removed() {
                return;
            }
            let (run, after) = rest.split_at(count);
            match unknown {
                Some(scope) => scope.hold(run, priority, &self.sink),
                None => self.sink.add_requests(run, priority),
            }
            rest = after;
        }
    }
}
