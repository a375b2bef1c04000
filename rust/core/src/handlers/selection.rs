//! Selections: the part of a wider informer that a narrower one would have.

use std::borrow::Cow;
use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::object::Object;

/// From so many look-ups in the labels of an object on, a table of them pays.
const MANY: usize = 8;

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The values that match; None requires only the key.
    pub values: Option<BTreeSet<String>>,
    /// Inverted: a missing key matches.
    pub negated: bool,
}

/// Objects by namespace, name and labels. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One of these; None for any.
    pub namespaces: Option<BTreeSet<String>>,
    /// This name; None for any.
    pub name: Option<String>,
    /// All of these match.
    pub labels: Vec<LabelRequirement>,
}

impl Selection {
    /// Return whether the object is selected.
    pub fn selects(&self, object: &Object) -> bool {
        let here = self
            .namespaces
            .as_ref()
            .is_none_or(|all| all.contains(object.namespace()));
        here && self.name.as_ref().is_none_or(|name| name == object.name())
            && LabelRequirement::all_are_met(&self.labels, object)
    }
}

/// The labels of an object, for a number of look-ups.
pub(crate) enum Labels<'a> {
    Few(&'a Object),
    Many(HashMap<Cow<'a, str>, Cow<'a, str>, RandomState>),
}

impl<'a> Labels<'a> {
    pub(crate) fn of(object: &'a Object, look_ups: usize) -> Self {
        if look_ups < MANY {
            return Self::Few(object);
        }
        Self::Many(object.labels().into_iter().collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Few(object) => object.label(key),
            Self::Many(table) => table.get(key).map(|value| Cow::Borrowed(&**value)),
        }
    }
}

impl LabelRequirement {
    /// Return whether the object meets all of them.
    pub fn all_are_met(all: &[Self], object: &Object) -> bool {
        if all.is_empty() {
            return true;
        }
        let labels = Labels::of(object, all.len());
        all.iter().all(|one| one.is_met_by(&labels))
    }

    pub(crate) fn is_met_by(&self, labels: &Labels<'_>) -> bool {
        let selected = match (labels.get(&self.key), &self.values) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(value), Some(values)) => values.contains(&*value),
        };
        selected != self.negated
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::handlers::Predicate;

    fn pod(namespace: &str, labels: &str) -> Arc<Object> {
        crate::handlers::pod(&format!(
            r#""name":"a","namespace":"{namespace}","labels":{labels}"#
        ))
    }

    fn label(key: &str, values: Option<&[&str]>, negated: bool) -> LabelRequirement {
        let values = values.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        LabelRequirement {
            key: key.into(),
            values,
            negated,
        }
    }

    #[test]
    fn an_object_is_selected_by_namespace_name_and_labels() {
        let all = Selection::default();
        assert!(all.selects(&pod("x", "{}")));
        let some = Selection {
            namespaces: Some(["x".into()].into()),
            name: Some("a".into()),
            labels: vec![
                label("app", Some(&["b", "c"]), false),
                label("gone", None, true),
            ],
        };
        assert!(some.selects(&pod("x", r#"{"app":"c"}"#)));
        assert!(!some.selects(&pod("y", r#"{"app":"c"}"#)));
        assert!(!some.selects(&pod("x", r#"{"app":"d"}"#)));
        assert!(!some.selects(&pod("x", r#"{"app":"c","gone":""}"#)));
        assert!(!some.selects(&pod("x", "{}")));
        let other = Selection {
            name: Some("b".into()),
            ..Selection::default()
        };
        assert!(!other.selects(&pod("x", "{}")));
    }

    #[test]
    fn an_object_that_enters_or_leaves_the_selection_is_new_or_gone() {
        let selection = Selection {
            labels: vec![label("mine", None, false)],
            ..Selection::default()
        };
        let within = Predicate::Within(selection, vec![Predicate::GenerationChanged]);
        let (mine, other) = (pod("x", r#"{"mine":""}"#), pod("x", "{}"));
        assert!(within.passes(None, Some(&mine)));
        assert!(!within.passes(None, Some(&other)));
        assert!(within.passes(Some(&mine), Some(&other)));
        assert!(within.passes(Some(&other), Some(&mine)));
        assert!(!within.passes(Some(&other), Some(&other)));
        assert!(!within.passes(Some(&mine), Some(&mine)));
        assert!(within.passes(Some(&mine), None));
        assert!(!within.passes(Some(&other), None));
    }
}
