//! Predicates: the changes that a handler gets.

use std::fmt;
use std::sync::Arc;

use super::{DesiredState, Selection};
use crate::object::Object;

/// A predicate from beyond the border.
pub trait PredicateFunc: Send + Sync {
    /// Return whether the change passes; a function that fails lets it pass.
    fn passes(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) -> bool;
}

/// A condition on the states before and after a change. The predefined ones let every add and delete pass.
#[derive(Clone)]
pub enum Predicate {
    /// `metadata.generation` differs: the spec changed, or the object is being deleted.
    GenerationChanged,
    /// The labels differ.
    LabelsChanged,
    /// The annotations differ.
    AnnotationsChanged,
    /// What is desired differs, not only the status.
    DesiredStateChanged(DesiredState),
    /// The resource version differs: not a resync.
    ResourceVersionChanged,
    /// All of them pass; true if there are none.
    All(Vec<Predicate>),
    /// One of them passes; false if there are none.
    Any(Vec<Predicate>),
    /// It does not pass; adds and deletes are inverted too.
    Not(Box<Predicate>),
    /// All of these pass for the selected objects: an object that becomes selected is new, one that is no longer
    /// selected is gone.
    Within(Selection, Vec<Predicate>),
    /// The result of a function.
    Custom(Arc<dyn PredicateFunc>),
}

impl Predicate {
    /// Return whether it calls nothing beyond the border.
    pub(super) fn is_native(&self) -> bool {
        match self {
            Self::GenerationChanged
            | Self::LabelsChanged
            | Self::AnnotationsChanged
            | Self::DesiredStateChanged(_)
            | Self::ResourceVersionChanged => true,
            Self::All(inner) | Self::Any(inner) | Self::Within(_, inner) => {
                inner.iter().all(Self::is_native)
            }
            Self::Not(inner) => inner.is_native(),
            Self::Custom(_) => false,
        }
    }

    /// Return whether the change from `old` to `new` passes; one of them is None for an add or a delete.
    pub fn passes(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) -> bool {
        let differ = |different: fn(&Object, &Object) -> bool| match (old, new) {
            (Some(old), Some(new)) => different(old, new),
            _ => true,
        };
        match self {
            Self::GenerationChanged => differ(|old, new| old.generation() != new.generation()),
            Self::LabelsChanged => differ(|old, new| !old.same_labels(new)),
            Self::AnnotationsChanged => differ(|old, new| old.same_annotations(new) != Ok(true)),
            Self::DesiredStateChanged(desired) => match (old, new) {
                (Some(old), Some(new)) => desired.differs(old, new),
                _ => true,
            },
            Self::ResourceVersionChanged => {
                differ(|old, new| old.resource_version() != new.resource_version())
            }
            Self::All(inner) => inner.iter().all(|one| one.passes(old, new)),
            Self::Any(inner) => inner.iter().any(|one| one.passes(old, new)),
            Self::Not(inner) => !inner.passes(old, new),
            Self::Within(selection, inner) => {
                let old = old.filter(|object| selection.selects(object));
                let new = new.filter(|object| selection.selects(object));
                (old.is_some() || new.is_some()) && inner.iter().all(|one| one.passes(old, new))
            }
            Self::Custom(func) => func.passes(old, new),
        }
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GenerationChanged => f.write_str("generation_changed"),
            Self::LabelsChanged => f.write_str("labels_changed"),
            Self::AnnotationsChanged => f.write_str("annotations_changed"),
            Self::DesiredStateChanged(_) => f.write_str("desired_state_changed"),
            Self::ResourceVersionChanged => f.write_str("resource_version_changed"),
            Self::All(inner) => f.debug_tuple("all_of").field(inner).finish(),
            Self::Any(inner) => f.debug_tuple("any_of").field(inner).finish(),
            Self::Not(inner) => f.debug_tuple("negate").field(inner).finish(),
            Self::Within(selection, inner) => f
                .debug_tuple("within")
                .field(selection)
                .field(inner)
                .finish(),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}
