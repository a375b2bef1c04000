//! What changes in a store while an index is built beside it.

use hashbrown::HashSet;

use super::slots::Place;

/// What has changed in the store since a build began.
pub(super) struct Change {
    pub(super) build: u64,
    names: Vec<Box<str>>,
    places: Vec<Place>,
    /// Everything below this place has changed.
    all_below: usize,
}

impl Change {
    /// Note that everything below a place has changed, which is all for a build that begins.
    pub(super) fn new(build: u64, names: Vec<Box<str>>, all_below: usize) -> Self {
        Self {
            build,
            names,
            places: Vec::new(),
            all_below,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Note a write.
    pub(super) fn note(&mut self, place: Place) {
        self.places.push(place);
    }

    /// Note that all objects below a place were replaced.
    pub(super) fn note_all(&mut self, end: usize) {
        self.places.clear();
        self.all_below = self.all_below.max(end);
    }

    pub(super) fn take(&mut self) -> Vec<Place> {
        let below = Place::try_from(std::mem::take(&mut self.all_below)).unwrap_or(Place::MAX);
        let places: HashSet<Place> = std::mem::take(&mut self.places).into_iter().collect();
        let above = places.into_iter().filter(|place| *place >= below);
        above.chain(0..below).collect()
    }
}
