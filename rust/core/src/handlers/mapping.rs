//! From a changed object to the requests that it means.

use std::borrow::Cow;
use std::sync::Arc;

use crate::object::{Object, Owner};

/// A request that a mapping made up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The requests of a change; none where it fails, which it has reported.
    fn requests(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) -> Vec<OwnedRequest>;
}

/// Which requests a change means.
#[derive(Clone)]
pub enum Mapping {
    /// The object itself.
    Object,
    /// Its owner of a kind: that of the old state too, in case the owner changed.
    Owner(Owner),
    /// Whatever it says.
    Custom(Arc<dyn MapFunc>),
}

/// A request whose texts are borrowed from the object where they stand there unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) namespace: Cow<'a, str>,
    pub(super) cluster: Cow<'a, str>,
}

impl Mapping {
    /// Append the requests of a change, each once.
    pub(super) fn collect<'a>(
        &self,
        old: Option<&'a Arc<Object>>,
        new: Option<&'a Arc<Object>>,
        out: &mut Vec<Mapped<'a>>,
    ) {
        let begin = out.len();
        let mut push = |name: Cow<'a, str>, namespace: Cow<'a, str>, cluster: Cow<'a, str>| {
            let request = Mapped {
                name,
                namespace,
                cluster,
            };
            if !out.iter().skip(begin).any(|seen| *seen == request) {
                out.push(request);
            }
        };
        let none = || Cow::Borrowed("");
        match self {
            Self::Object => {
                if let Some(object) = new.or(old) {
                    push(
                        Cow::Borrowed(object.name()),
                        Cow::Borrowed(object.namespace()),
                        none(),
                    );
                }
            }
            Self::Owner(owner) => {
                for object in [old, new].into_iter().flatten() {
                    for reference in object
                        .owner_references()
                        .filter(|reference| owner.matches(reference))
                    {
                        let namespace = if owner.cluster_scoped {
                            ""
                        } else {
                            object.namespace()
                        };
                        push(reference.name, Cow::Borrowed(namespace), none());
                    }
                }
            }
            Self::Custom(func) => {
                for request in func.requests(old, new) {
                    push(
                        Cow::Owned(request.name),
                        Cow::Owned(request.namespace),
                        Cow::Owned(request.cluster),
                    );
                }
            }
        }
    }
}
