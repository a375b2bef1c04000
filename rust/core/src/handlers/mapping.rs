//! Mappings from a changed object to requests.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::{OwnerScope, RequestRef};
use crate::object::Object;
use crate::owner::Owner;
use crate::store::{Lag, Store};

/// Requests of a change that are compared one by one; more are looked up, since a change may map to 100,000.
const FEW: usize = 16;

/// A request made by a mapping function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnedRequest {
    /// The object's name, or whatever names the unit of work.
    pub name: String,
    /// The object's namespace.
    pub namespace: String,
    /// The cluster's name.
    pub cluster: String,
}

/// A mapping from beyond the border.
pub trait MapFunc: Send + Sync {
    /// Return the requests of a change; none if the function fails, which it has reported. Once the handler is
    /// `removed`, nothing more is called.
    fn requests(
        &self,
        old: Option<&Arc<Object>>,
        new: Option<&Arc<Object>>,
        removed: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest>;
}

/// The namespace of the object that a label names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelNamespace {
    /// The namespace of the object with the label.
    Same,
    /// The namespace that another label names; without that label there is no request.
    Label(Box<str>),
    /// None: the object is cluster-scoped.
    Cluster,
}

/// The requests that a change causes.
#[derive(Clone)]
pub enum Mapping {
    /// The object itself.
    Object,
    /// Its owner of a kind: that of the old state too, in case the owner changed.
    Owner(Owner, Arc<OwnerScope>),
    /// The object that a label names: of the old state too, in case the label changed.
    Label {
        /// The key of the label that has the name.
        name: Box<str>,
        /// The namespace of that object.
        namespace: LabelNamespace,
    },
    /// The objects that an index of this store has under the object's key.
    Index {
        /// The store of the objects to request.
        store: Arc<Store>,
        /// The index of that store.
        index: Box<str>,
    },
    /// The result of a function.
    Custom(Arc<dyn MapFunc>),
}

/// A request with texts borrowed from the object where they are not escaped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mapped<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) cluster: Cow<'a, str>,
}

impl<'a> Mapped<'a> {
    pub(super) fn request(&self) -> RequestRef<'_> {
        RequestRef {
            name: &self.name,
            namespace: &self.namespace,
            cluster: &self.cluster,
        }
    }

    fn new(name: impl Into<Cow<'a, str>>, namespace: impl Into<Cow<'a, str>>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            cluster: Cow::Borrowed(""),
        }
    }
}

impl Mapping {
    /// Return whether it calls nothing beyond the border, and waits for nothing.
    pub(super) fn is_native(&self) -> bool {
        match self {
            Self::Object | Self::Owner(..) | Self::Label { .. } => true,
            Self::Index { store, index } => !matches!(store.lag(index), Ok(Some(_))),
            Self::Custom(_) => false,
        }
    }

    /// Return how far the index of the mapping is behind its store; None if it has none, or one that is never behind.
    pub fn lag(&self) -> Option<Lag> {
        match self {
            Self::Index { store, index } => store.lag(index).ok().flatten(),
            _ => None,
        }
    }

    /// Return the scope of the owners that this maps to.
    pub(super) fn owner_scope(&self) -> Option<&OwnerScope> {
        match self {
            Self::Owner(_, scope) => Some(scope),
            _ => None,
        }
    }

    /// Append the requests of a change, each once.
    pub(super) fn collect<'a>(
        &self,
        old: Option<&'a Arc<Object>>,
        new: Option<&'a Arc<Object>>,
        out: &mut Vec<Mapped<'a>>,
        removed: &dyn Fn() -> bool,
    ) {
        let begin = out.len();
        let mut many = HashSet::new();
        let mut push = |request: Mapped<'a>| {
            let seen = out.get(begin..).unwrap_or_default();
            let is_new = if seen.len() < FEW {
                !seen.contains(&request)
            } else {
                if many.is_empty() {
                    many.extend(seen.iter().cloned());
                }
                many.insert(request.clone())
            };
            if is_new {
                out.push(request);
            }
        };
        match self {
            Self::Object => {
                if let Some(object) = new.or(old) {
                    push(Mapped::new(object.name(), object.namespace()));
                }
            }
            // The handler drops the namespace of an owner that has none.
            Self::Owner(owner, _) => {
                for object in [old, new].into_iter().flatten() {
                    for reference in owner.among(object.owner_references()) {
                        push(Mapped::new(reference.name, object.namespace()));
                    }
                }
            }
            Self::Label { name, namespace } => {
                for object in [old, new].into_iter().flatten() {
                    let place = match namespace {
                        LabelNamespace::Same => Some(Cow::Borrowed(object.namespace())),
                        LabelNamespace::Label(key) => object.label(key),
                        LabelNamespace::Cluster => Some(Cow::Borrowed("")),
                    };
                    // A label may exist and be empty, which names nothing.
                    if let (Some(name), Some(place)) =
                        (object.label(name).filter(|name| !name.is_empty()), place)
                    {
                        push(Mapped::new(name, place));
                    }
                }
            }
            Self::Index { store, index } => {
                // A missing index finds nothing; the index was added before the mapping.
                let key = new.or(old).map(|object| object.key());
                let objects = key.and_then(|key| store.by_index(index, key).ok());
                for object in objects.unwrap_or_default() {
                    let (name, namespace) = (object.name(), object.namespace());
                    push(Mapped::new(name.to_owned(), namespace.to_owned()));
                }
            }
            Self::Custom(func) => {
                for request in func.requests(old, new, removed) {
                    push(Mapped {
                        cluster: request.cluster.into(),
                        ..Mapped::new(request.name, request.namespace)
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{IndexFailed, IndexFunc, Values};

    fn pod(name: &str, labels: &str) -> Arc<Object> {
        crate::handlers::pod(&format!(
            r#""name":"{name}","namespace":"x","labels":{labels}"#
        ))
    }

    fn requests(mapping: &Mapping, old: Option<&Arc<Object>>, new: &Arc<Object>) -> Vec<String> {
        let mut out = Vec::new();
        mapping.collect(old, Some(new), &mut out, &|| false);
        out.iter()
            .map(|one| format!("{}/{}", one.namespace, one.name))
            .collect()
    }

    #[test]
    fn labels_of_the_old_and_the_new_state_name_requests() {
        let by = |namespace| Mapping::Label {
            name: "app".into(),
            namespace,
        };
        let (old, new) = (
            pod("a", r#"{"app":"one","ns":"y"}"#),
            pod("a", r#"{"app":"two"}"#),
        );
        let same = by(LabelNamespace::Same);
        assert_eq!(requests(&same, Some(&old), &new), ["x/one", "x/two"]);
        assert_eq!(requests(&same, Some(&new), &new), ["x/two"]);
        assert!(requests(&same, None, &pod("a", r#"{"app":""}"#)).is_empty());
        assert!(requests(&same, None, &pod("a", "{}")).is_empty());
        let other = by(LabelNamespace::Label("ns".into()));
        assert_eq!(requests(&other, Some(&old), &new), ["y/one"]);
        assert_eq!(requests(&by(LabelNamespace::Cluster), None, &new), ["/two"]);
    }

    // behaviour: findings3/NC2
    #[test]
    fn the_first_of_several_controllers_counts() {
        let owned = |first: &str, second: &str| {
            let reference = |kind: &str, name: &str| {
                format!(
                    r#"{{"apiVersion":"x/v1","kind":"{kind}","name":"{name}","controller":true}}"#
                )
            };
            let references = [reference(first, "one"), reference(second, "two")].join(",");
            crate::handlers::pod(&format!(
                r#""name":"a","namespace":"x","ownerReferences":[{references}]"#
            ))
        };
        let mapping = |controller| {
            let scope = Arc::new(OwnerScope::new(Some(false)));
            Mapping::Owner(Owner::new("x/v1", "K", controller), scope)
        };
        assert_eq!(requests(&mapping(true), None, &owned("K", "K")), ["x/one"]);
        // The controller is another one, so the second is none.
        assert!(requests(&mapping(true), None, &owned("Other", "K")).is_empty());
        assert_eq!(
            requests(&mapping(true), None, &owned("K", "Other")),
            ["x/one"]
        );
        let all = requests(&mapping(false), None, &owned("K", "K"));
        assert_eq!(all, ["x/one", "x/two"]);
    }

    #[test]
    fn many_requests_are_each_named_once() {
        struct Many;

        impl MapFunc for Many {
            fn requests(
                &self,
                _old: Option<&Arc<Object>>,
                _new: Option<&Arc<Object>>,
                _removed: &dyn Fn() -> bool,
            ) -> Vec<OwnedRequest> {
                (0..200_000)
                    .map(|number| OwnedRequest {
                        name: (number % 100_000).to_string(),
                        ..OwnedRequest::default()
                    })
                    .collect()
            }
        }

        let names = requests(&Mapping::Custom(Arc::new(Many)), None, &pod("a", "{}"));
        assert_eq!(names.len(), 100_000);
        assert_eq!(names.first().map(String::as_str), Some("/0"));
        assert_eq!(names.last().map(String::as_str), Some("/99999"));
    }

    struct Uses;

    impl IndexFunc for Uses {
        fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
            Ok(object
                .label("uses")
                .map(|name| Arc::from(format!("x/{name}")))
                .into_iter()
                .collect())
        }
    }

    #[test]
    fn an_index_finds_the_objects_that_use_what_changed() {
        let store = Arc::new(Store::new());
        let index: Arc<dyn IndexFunc> = Arc::new(Uses);
        store
            .add_indexes(&[("uses".into(), index)])
            .expect("a new index");
        for name in ["one", "two"] {
            let user = pod(name, r#"{"uses":"a"}"#);
            store.upsert(user.key().clone(), user);
        }
        let mapping = |index: &str| Mapping::Index {
            store: store.clone(),
            index: index.into(),
        };
        let mut names = requests(&mapping("uses"), None, &pod("a", "{}"));
        names.sort();
        assert_eq!(names, ["x/one", "x/two"]);
        assert!(requests(&mapping("uses"), None, &pod("b", "{}")).is_empty());
        assert!(requests(&mapping("none"), None, &pod("a", "{}")).is_empty());
    }
}
