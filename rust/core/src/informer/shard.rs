//! The part of all objects that an informer holds, and the filter before the bodies of the others are decoded.

use std::borrow::Cow;
use std::sync::Arc;

use super::SharedInformer;
use super::bookmarks::is_older;
use super::intake::Intake;
use crate::budget::OverBudget;
use crate::object::{Identity, Object};
use crate::owner::controller_uid;
use crate::shards::{By, Ranges, hash};

/// What is taken of what comes.
#[derive(Debug)]
pub(super) struct Shard {
    by: By,
    /// The ranges that are held, or listed.
    ranges: Ranges,
    /// The ranges of the list in progress, if it adds to what is held.
    adding: Option<Ranges>,
    /// Ranges that were listed at a later version than that of the watch, with their versions: what the watch replays of
    /// them up to there is in the list.
    ahead: Vec<(Ranges, String)>,
}

/// What is done with an object that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is taken.
    Own,
    /// It is in a range that others hold.
    Foreign,
    /// The list of its range has shown this state, or a later one.
    Past,
}

impl Shard {
    pub(super) fn new(by: By) -> Self {
        Self {
            by,
            ranges: Ranges::default(),
            adding: None,
            ahead: Vec::new(),
        }
    }

    /// Return whether an object that is held can come to belong to others: an owner may change, the rest cannot.
    pub(super) fn moves(&self) -> bool {
        self.by == By::Owner
    }

    /// Return whether the watch may be behind an object of a range that was listed later, under a key that was in
    /// another range before: that of an earlier object, or of an earlier owner.
    pub(super) fn is_behind(&self) -> bool {
        !self.ahead.is_empty() && matches!(self.by, By::Uid | By::Owner)
    }

    /// Return whether the list in progress adds to what is held.
    pub(super) fn is_adding(&self) -> bool {
        self.adding.is_some()
    }

    pub(super) fn begin_list(&mut self, adding: Option<Ranges>) {
        self.adding = adding;
    }

    /// Hold these ranges alone.
    pub(super) fn hold(&mut self, ranges: Ranges) {
        self.ranges = ranges;
    }

    /// The list of all that is held is complete, so that a watch goes on from there.
    pub(super) fn listed(&mut self) {
        self.ahead.clear();
    }

    /// The list that adds is complete: hold its ranges too.
    fn added(&mut self, version: &str) {
        let adding = self.adding.take().unwrap_or_default();
        let both = self.ranges.as_slice().iter().chain(adding.as_slice());
        self.ranges = both.cloned().collect();
        self.ahead.push((adding, version.to_owned()));
    }

    /// The watch has come to this version.
    pub(super) fn reached(&mut self, version: &str) {
        self.ahead.retain(|(_, listed)| is_older(version, listed));
    }

    /// Return what is done with an object of a list, or of a watch that is not `staged`.
    pub(super) fn admit(&self, identity: &Identity<'_>, staged: bool) -> Admission {
        let Some(text) = self.text_of(identity) else {
            return Admission::Foreign;
        };
        let hash = hash(&text);
        if !self.adding.as_ref().unwrap_or(&self.ranges).contains(hash) {
            return Admission::Foreign;
        }
        let version = &*identity.resource_version;
        let shown = |(ranges, listed): &(Ranges, String)| {
            ranges.contains(hash) && (version == listed || is_older(version, listed))
        };
        if !staged && self.ahead.iter().any(shown) {
            return Admission::Past;
        }
        Admission::Own
    }

    fn text_of<'a>(&self, identity: &'a Identity<'_>) -> Option<Cow<'a, str>> {
        Some(match self.by {
            By::Namespace => Cow::Borrowed(identity.namespace()),
            By::Name => Cow::Borrowed(identity.name()),
            By::Uid => Cow::Borrowed(&identity.uid),
            By::Owner => return identity.controller_uid(),
        })
    }
}

/// Return the hash of a cached object; None if it is in no range.
fn hash_of(by: By, object: &Object) -> Option<u64> {
    Some(match by {
        By::Namespace => hash(object.namespace()),
        By::Name => hash(object.name()),
        By::Uid => hash(&object.uid()),
        By::Owner => hash(&controller_uid(object.owner_references().into_iter())?),
    })
}

impl SharedInformer {
    /// Hold these ranges alone: let go of the objects outside without telling any handler. A list is to bring what is
    /// new. Nothing may be fed meanwhile.
    pub fn hold(&self, ranges: Ranges) {
        let Some(by) = self.config.shard_by else {
            return;
        };
        self.process();
        let is_foreign = |object: &Arc<Object>| {
            let hash = hash_of(by, object);
            hash.is_none_or(|hash| !ranges.contains(hash))
        };
        let known = self.fifo.newest(&self.store).into_iter();
        let gone = known.filter(|(_, object)| is_foreign(object));
        self.fifo.drop_keys(gone.map(|(key, _)| key).collect());
        self.feed(|intake, _| {
            if let Some(shard) = &mut intake.shard {
                shard.hold(ranges);
            }
        });
        self.process();
    }

    /// Begin to stage a list of these ranges, which `replace` adds to what is held.
    pub fn begin_range(&self, ranges: Ranges) {
        self.feed(|intake, _| intake.begin_list(Some(ranges)));
    }

    /// Add the staged objects of new ranges: the next `process` notifies handlers of them, as of a first list.
    pub(super) fn add_range(&self, intake: &mut Intake, version: &str) -> Result<(), OverBudget> {
        let list = intake.take_list(&self.store);
        if list.is_incomplete {
            return Err(self.account.over_budget(self.store.len()));
        }
        if let Some(shard) = &mut intake.shard {
            shard.added(version);
        }
        self.fifo.merge(list.objects);
        Ok(())
    }

    /// Return the hashes of the cached objects, in order, each with the number of its objects.
    pub fn hashes(&self) -> Vec<(u64, u64)> {
        let Some(by) = self.config.shard_by else {
            return Vec::new();
        };
        let entries = self.store.entries().into_iter();
        let mut hashes: Vec<_> = entries
            .filter_map(|(_, object)| hash_of(by, &object))
            .collect();
        hashes.sort_unstable();
        let groups = hashes.chunk_by(|one, other| one == other);
        groups
            .filter_map(|group| Some((*group.first()?, group.len() as u64)))
            .collect()
    }

    /// Return the cached objects whose hashes are in these ranges.
    pub fn objects_of(&self, ranges: &Ranges) -> Vec<Arc<Object>> {
        let Some(by) = self.config.shard_by else {
            return Vec::new();
        };
        let entries = self.store.entries().into_iter().map(|(_, object)| object);
        let is_in =
            |object: &Arc<Object>| hash_of(by, object).is_some_and(|hash| ranges.contains(hash));
        entries.filter(is_in).collect()
    }
}
