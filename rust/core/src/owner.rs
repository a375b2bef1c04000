//! Owner references, and the owners for which a handler looks.

use std::borrow::Cow;

use crate::json::read::Value;

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's `apiVersion`.
    pub api_version: Cow<'a, str>,
    /// The owner's `kind`.
    pub kind: Cow<'a, str>,
    /// The owner's name; the owner is in the object's namespace or cluster-scoped.
    pub name: Cow<'a, str>,
    /// The owner's uid.
    pub uid: Cow<'a, str>,
    /// Whether it is the one managing controller.
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for this object.
    pub block_owner_deletion: bool,
}

impl<'a> OwnerReference<'a> {
    pub(crate) fn read(value: Value<'a>) -> Option<Self> {
        let mut owner = Self {
            api_version: Cow::Borrowed(""),
            kind: Cow::Borrowed(""),
            name: Cow::Borrowed(""),
            uid: Cow::Borrowed(""),
            controller: false,
            block_owner_deletion: false,
        };
        for (key, inner) in value.members() {
            let text = || inner.as_str().unwrap_or_default();
            match key.as_str().as_deref() {
                Some("apiVersion") => owner.api_version = text(),
                Some("kind") => owner.kind = text(),
                Some("name") => owner.name = text(),
                Some("uid") => owner.uid = text(),
                Some("controller") => owner.controller = inner.is_true(),
                Some("blockOwnerDeletion") => owner.block_owner_deletion = inner.is_true(),
                _ => {}
            }
        }
        (!owner.kind.is_empty() && !owner.name.is_empty()).then_some(owner)
    }
}

/// Return the uid of the first owner that is marked as the controller, unless it is empty.
pub(crate) fn controller_uid<'a>(
    references: impl Iterator<Item = OwnerReference<'a>>,
) -> Option<Cow<'a, str>> {
    let mut controllers = references.filter(|reference| reference.controller);
    let uid = controllers.next()?.uid;
    (!uid.is_empty()).then_some(uid)
}

/// Return the API group of an `apiVersion`; empty for the core group.
fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The owner that a handler enqueues: by group and kind, since a reference keeps the version it was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The API group; empty for the core group.
    pub group: Box<str>,
    /// The kind.
    pub kind: Box<str>,
    /// Only the reference that is marked as the managing controller.
    pub controller_only: bool,
}

impl Owner {
    /// Create the owner of that kind in any version of the `apiVersion`'s group.
    pub fn new(api_version: &str, kind: &str, controller_only: bool) -> Self {
        Self {
            group: group_of(api_version).into(),
            kind: kind.into(),
            controller_only,
        }
    }

    /// Return the references to such owners. Of several that are marked as the controller the first is the controller.
    pub fn among<'a>(
        &self,
        references: Vec<OwnerReference<'a>>,
    ) -> impl Iterator<Item = OwnerReference<'a>> {
        let most = if self.controller_only { 1 } else { usize::MAX };
        references
            .into_iter()
            .filter(|reference| reference.controller || !self.controller_only)
            .take(most)
            .filter(|reference| {
                *self.kind == *reference.kind && *self.group == *group_of(&reference.api_version)
            })
    }
}
