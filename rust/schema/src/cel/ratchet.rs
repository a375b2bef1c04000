//! What a value was before an update, if that can be told.

use ctrlhost_core::json::read;

/// A new value and what it was.
pub(super) type Pair<'j> = (read::Value<'j>, read::Value<'j>);

/// What a value was before, or what the nearest part above was that can be told.
#[derive(Clone, Copy)]
pub(super) struct Ratchet<'j> {
    pub(super) current: Option<Pair<'j>>,
    pub(super) parent: Option<Pair<'j>>,
}

impl<'j> Ratchet<'j> {
    /// Whether nothing changed, so that what is wrong was wrong before.
    pub(super) fn unchanged(self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|(new, old)| new.0 == old.0)
    }

    pub(super) fn below(self, new: read::Value<'j>, old: Option<read::Value<'j>>) -> Self {
        match self.current {
            None => self,
            Some(_) => Self {
                current: old.map(|old| (new, old)),
                parent: self.current,
            },
        }
    }
}

/// What tells an element of a list that is a map from the others.
pub(super) fn identity<'j>(keys: &[String], item: read::Value<'j>) -> Vec<Option<&'j str>> {
    keys.iter()
        .map(|key| item.get(key).map(|value| value.0))
        .collect()
}

pub(super) fn by_keys<'j>(
    keys: &[String],
    list: read::Value<'j>,
) -> std::collections::BTreeMap<Vec<Option<&'j str>>, read::Value<'j>> {
    list.elements()
        .map(|item| (identity(keys, item), item))
        .collect()
}
