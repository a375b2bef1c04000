//! What a reader has declared: kinds, each with the informers that hold its objects.

use std::collections::HashMap;
use std::sync::Arc;

use ctrlhost_core::event_log::EventLog;
use ctrlhost_core::object::Form;
use ctrlhost_core::selector::Selector;
use parking_lot::Mutex;

use super::relay::Relay;
use super::request::Target;

/// The namespaces of a declared kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them, or the kind is cluster-scoped.
    All,
    /// These.
    Named(Vec<String>),
    /// Those that an informer has at the time.
    Followed,
}

/// A kind as a reader declared it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// `apiVersion` of its objects.
    pub api_version: String,
    /// `kind` of its objects.
    pub kind: String,
    /// Whether the reader gets whole objects, or metadata.
    pub form: Form,
    /// Where its objects are.
    pub namespaces: Namespaces,
    /// The label selector of all its requests.
    pub label_selector: Option<String>,
    /// The field selector of all its requests.
    pub field_selector: Option<String>,
}

/// A declared kind with the informers that hold its objects.
pub struct Kind {
    declared: Declared,
    /// The plural, and whether the kind is namespaced; None before it was discovered.
    resource: Mutex<Option<(String, bool)>>,
    /// By namespace; empty for all of them.
    logs: Mutex<HashMap<String, Arc<EventLog>>>,
    /// Why the host may not list it.
    refusal: Mutex<Option<String>>,
    relay: Arc<Relay>,
}

/// Whether a kind serves a request.
pub(super) enum Serves {
    /// It is another kind or another selection.
    No,
    /// Its plural is not known yet, so it may.
    Unknown,
    /// It does, but has nothing yet.
    NotYet,
    /// From this log.
    From(Arc<EventLog>),
}

impl Kind {
    /// Create a kind without informers.
    pub(super) fn new(declared: Declared, relay: Arc<Relay>) -> Self {
        Self {
            declared,
            resource: Mutex::default(),
            logs: Mutex::default(),
            refusal: Mutex::default(),
            relay,
        }
    }

    /// Return what was declared.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Set the plural, and whether the kind is namespaced.
    pub fn set_resource(&self, plural: String, namespaced: bool) {
        *self.resource.lock() = Some((plural, namespaced));
    }

    /// Refuse requests for this reason until the first list, since the host may not list the kind; None if it may.
    pub fn refuse(&self, reason: Option<String>) {
        *self.refusal.lock() = reason;
    }

    /// Return why the host may not list it.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// Serve the objects of a namespace from this log; an empty namespace means all of them.
    pub fn add_log(&self, namespace: String, log: Arc<EventLog>) {
        self.relay.add(&log);
        let former = self.logs.lock().insert(namespace, log);
        drop(former);
    }

    /// Serve no objects of that namespace any more, if this is the log from which they came.
    pub fn remove_log(&self, namespace: &str, log: &Arc<EventLog>) {
        let mut logs = self.logs.lock();
        if logs
            .get(namespace)
            .is_some_and(|known| Arc::ptr_eq(known, log))
        {
            logs.remove(namespace);
        }
    }

    /// Return whether this kind serves a request, and the selector of its objects.
    pub(super) fn serves(&self, target: &Target) -> (Serves, Selector) {
        let Some(selector) = self.selector(target) else {
            return (Serves::No, Selector::default());
        };
        (self.log_for(target), selector)
    }

    fn log_for(&self, target: &Target) -> Serves {
        if self.declared.api_version != target.api_version {
            return Serves::No;
        }
        match &*self.resource.lock() {
            None => return Serves::Unknown,
            Some((plural, _)) if *plural != target.plural => return Serves::No,
            // A cluster-scoped kind has one informer, whatever namespaces were declared for it.
            Some((_, false)) if !target.namespace.is_empty() => return Serves::No,
            Some((_, false)) => {
                let log = self.logs.lock().values().next().cloned();
                return log.map_or(Serves::NotYet, Serves::From);
            }
            Some((_, true)) => {}
        }
        let logs = self.logs.lock();
        let namespace = &target.namespace;
        let allowed = match &self.declared.namespaces {
            Namespaces::All => true,
            Namespaces::Named(names) => names.contains(namespace),
            Namespaces::Followed => !namespace.is_empty(),
        };
        match logs.get("").or_else(|| logs.get(namespace)) {
            _ if !allowed => Serves::No,
            Some(log) => Serves::From(log.clone()),
            None => Serves::NotYet,
        }
    }

    /// Return the selector of the requested objects; None if they are not among the declared ones, or only the API
    /// server can select them.
    fn selector(&self, target: &Target) -> Option<Selector> {
        let declared = &self.declared;
        let labels = declared.label_selector.as_deref();
        if labels.is_some_and(|labels| labels != target.label_selector) {
            return None;
        }
        let fields = declared.field_selector.as_deref();
        if fields.is_some_and(|fields| fields != target.field_selector) {
            return None;
        }
        let fields = match (Selector::fields(&target.field_selector), fields) {
            (Some(selector), _) => selector,
            // The informer has the objects that the API server selected.
            (None, Some(_)) => Selector::default(),
            (None, None) => return None,
        };
        Some(target.labels.clone().and(fields))
    }
}
