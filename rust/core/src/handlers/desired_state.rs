//! The changes of what is desired of an object, as opposed to what is reported in its status.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::object::{Damaged, Object};

/// The members that say nothing of what is desired, or are compared by themselves.
const NOT_DESIRED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Passes changes of generation, labels, annotations, finalizers, deletionTimestamp and uid. Of objects without a
/// generation, such as `ConfigMaps`, every member but the status counts in its place.
#[derive(Clone, Debug, Default)]
pub struct DesiredState {
    /// Finalizers whose addition does not count, nor their removal from an object that is being deleted.
    own: Arc<BTreeSet<Box<str>>>,
}

impl DesiredState {
    /// Ignore these finalizers: the controller adds and removes them itself.
    pub fn ignoring(own: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        let own = Arc::new(own.into_iter().map(Into::into).collect());
        Self { own }
    }

    /// Return whether the desired state differs; what is damaged differs.
    pub(super) fn differs(&self, old: &Arc<Object>, new: &Arc<Object>) -> bool {
        !Arc::ptr_eq(old, new)
            && (head_differs(old, new) || self.rest_differs(old, new).unwrap_or(true))
    }

    /// Compare what can need decompressing, which is done once for all of it.
    fn rest_differs(&self, old: &Arc<Object>, new: &Arc<Object>) -> Result<bool, Damaged> {
        let by_content = new.generation() == 0;
        if !by_content && old.lacks_marks() && new.lacks_marks() {
            return Ok(false);
        }
        let (old, new) = (&*old.plain()?, &*new.plain()?);
        Ok(self.finalizers_differ(old, new)?
            || !old.same_annotations(new)?
            || by_content && !old.same_beside(new, &NOT_DESIRED)?)
    }

    fn finalizers_differ(&self, old: &Object, new: &Object) -> Result<bool, Damaged> {
        let (before, after) = (old.finalizers()?, new.finalizers()?);
        let foreign = |name: &str| !self.own.contains(name);
        Ok(if new.deletion_timestamp().is_some() {
            // They can only be removed now.
            let foreign = |name: &&Cow<'_, str>| foreign(name);
            let (before, after) = (before.iter().filter(foreign), after.iter().filter(foreign));
            before.ne(after)
        } else {
            let kept = |name: &&Cow<'_, str>| foreign(name) || before.contains(name);
            before.iter().ne(after.iter().filter(kept))
        })
    }
}

/// Compare what every object has at hand.
fn head_differs(old: &Object, new: &Object) -> bool {
    let generation = new.generation();
    generation != 0 && generation != old.generation()
        || old.deletion_timestamp() != new.deletion_timestamp()
        || old.uid() != new.uid()
        || !old.same_labels(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{Codec, Samples};
    use crate::object::Builder;

    fn pod(annotation: &str, status: &str) -> Arc<Object> {
        let text = format!(
            r#"{{"metadata":{{"name":"a","uid":"u","generation":1,"annotations":{{"a":"{annotation}"}}}},"spec":{{"text":"{}"}},"status":{{"phase":"{status}"}}}}"#,
            "some text ".repeat(60)
        );
        Arc::new(
            Builder::new("v1", "Pod")
                .parse(text.as_bytes())
                .expect("a pod"),
        )
    }

    #[test]
    fn a_damaged_body_passes() {
        let all: Vec<_> = (0..400)
            .map(|number| pod(&number.to_string(), "Running"))
            .collect();
        let texts: Vec<_> = all.iter().map(|one| one.json().expect("plain")).collect();
        let bodies: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
        let samples = Samples::draw(&bodies).expect("enough samples");
        let codec = Arc::new(Codec::learn(&samples).expect("compressing pays"));
        let packed = pod("x", "Running").pack(&codec).expect("a large body");
        let desired = DesiredState::default();
        let damaged = Arc::new(packed.falsified(80).expect("a frame"));
        let packed = Arc::new(packed);
        assert!(!desired.differs(&packed, &pod("x", "Failed")));
        assert!(desired.differs(&packed, &pod("y", "Failed")));
        assert!(desired.differs(&damaged, &pod("x", "Failed")));
        // It is not read if it is the same object.
        assert!(!desired.differs(&damaged, &damaged.clone()));
    }
}
