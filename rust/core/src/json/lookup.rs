//! Repeated look-ups in one large object or array: from the second one on by a table of offsets.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::read::{Kind, Value, Walk};
use super::text::key_is;

/// Smaller values are read from their start each time.
const LARGE: usize = 32;

/// Finds the members or elements of one value, which is passed to each call and always the same.
#[derive(Default)]
pub struct Lookup {
    /// The size of the value, as far as it was seen.
    seen: AtomicUsize,
    table: OnceLock<Box<Table>>,
}

enum Table {
    /// Where each name begins; of duplicates the last one.
    Names {
        hasher: RandomState,
        offsets: HashTable<u32>,
    },
    /// Where each element begins.
    Elements(Vec<u32>),
}

impl Lookup {
    /// Return the member of that name, as [`Value::get`] does.
    pub fn get<'a>(&self, value: Value<'a>, name: &str) -> Option<Value<'a>> {
        if let Some(table) = self.table(value) {
            return table.get(value, name);
        }
        let mut member = None;
        let mut size = 0;
        for (key, inner) in value.members() {
            size += 1;
            if key_is(key.json().as_bytes(), name) {
                member = Some(inner);
            }
        }
        self.saw(size);
        member
    }

    /// Return the element at a position.
    pub fn nth<'a>(&self, value: Value<'a>, index: usize) -> Option<Value<'a>> {
        if let Some(table) = self.table(value) {
            return table.nth(value, index);
        }
        self.saw(index);
        value.elements().nth(index)
    }

    /// Return the number of elements.
    pub fn count(&self, value: Value<'_>) -> usize {
        if let Some(Table::Elements(offsets)) = self.table(value) {
            return offsets.len();
        }
        let count = value.elements().count();
        self.saw(count);
        count
    }

    fn saw(&self, size: usize) {
        self.seen.fetch_max(size, Ordering::Relaxed);
    }

    /// Return the table if it is worth its memory.
    fn table(&self, value: Value<'_>) -> Option<&Table> {
        let large = self.seen.load(Ordering::Relaxed) > LARGE;
        large.then(|| &**self.table.get_or_init(|| Box::new(Table::of(value))))
    }
}

/// Return where a part of a value begins. Objects are smaller than 4 GiB.
fn offset(part: Value<'_>, value: Value<'_>) -> u32 {
    u32::try_from(part.offset_in(value.json())).unwrap_or(u32::MAX)
}

impl Table {
    fn of(value: Value<'_>) -> Self {
        if value.kind() != Kind::Object {
            let elements = value.elements();
            return Self::Elements(elements.map(|inner| offset(inner, value)).collect());
        }
        let hasher = RandomState::default();
        let mut offsets = HashTable::new();
        let key_at = |at: u32| key_at(value, at);
        for (key, _) in value.members() {
            let name = key.as_str().unwrap_or_default();
            let same = |at: &u32| key_is(key_at(*at).json().as_bytes(), &name);
            let hash = |at: &u32| hasher.hash_one(&*key_at(*at).as_str().unwrap_or_default());
            match offsets.entry(hasher.hash_one(&*name), same, hash) {
                Entry::Occupied(mut known) => *known.get_mut() = offset(key, value),
                Entry::Vacant(new) => {
                    new.insert(offset(key, value));
                }
            }
        }
        Self::Names { hasher, offsets }
    }

    fn get<'a>(&self, value: Value<'a>, name: &str) -> Option<Value<'a>> {
        let Self::Names { hasher, offsets } = self else {
            return None;
        };
        let same = |at: &u32| key_is(key_at(value, *at).json().as_bytes(), name);
        let at = *offsets.find(hasher.hash_one(name), same)?;
        walk_from(value, at).nth(1)
    }

    fn nth<'a>(&self, value: Value<'a>, index: usize) -> Option<Value<'a>> {
        let Self::Elements(offsets) = self else {
            return None;
        };
        walk_from(value, *offsets.get(index)?).next()
    }
}

fn walk_from(value: Value<'_>, at: u32) -> Walk<'_> {
    Walk::from(value.json(), at as usize)
}

fn key_at(value: Value<'_>, at: u32) -> Value<'_> {
    walk_from(value, at).next().unwrap_or(Value::of_json(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read::STEPS;

    /// Return how many values are read by `work`.
    fn steps(work: impl FnOnce()) -> usize {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    }

    fn object(names: impl Iterator<Item = String>) -> String {
        let members: Vec<_> = names
            .enumerate()
            .map(|(at, name)| format!("\"{name}\": {at}"))
            .collect();
        format!("{{{}}}", members.join(", "))
    }

    // behaviour: findings/FQ15
    #[test]
    fn look_ups_of_all_names_and_positions_read_no_more_than_five_times_the_items() {
        const SIZE: usize = 16_000;
        let text = object((0..SIZE).map(|number| format!("key-{number}")));
        let value = Value::of_json(&text);
        let items = steps(|| assert_eq!(value.members().count(), SIZE));
        let lookup = Lookup::default();
        let all = steps(|| {
            for number in 0..SIZE {
                let member = lookup.get(value, &format!("key-{number}"));
                assert_eq!(member.map(Value::json), Some(&*number.to_string()));
            }
        });
        assert!(all <= 5 * items, "{all} values read, {items} by one pass");

        let text = format!("[{}]", vec!["{\"a\": [1, 2]}"; SIZE].join(","));
        let value = Value::of_json(&text);
        let items = steps(|| assert_eq!(value.elements().count(), SIZE));
        let lookup = Lookup::default();
        let all = steps(|| {
            assert_eq!(lookup.count(value), SIZE);
            for at in (0..SIZE).rev().chain(0..SIZE) {
                assert_eq!(lookup.nth(value, at).map(Value::kind), Some(Kind::Object));
            }
            assert_eq!((lookup.nth(value, SIZE), lookup.count(value)), (None, SIZE));
        });
        assert!(all <= 5 * items, "{all} values read, {items} by one pass");
    }

    #[test]
    fn a_table_finds_what_a_pass_finds() {
        let mut names: Vec<_> = (0..100).map(|number| format!("k{}", number % 60)).collect();
        names.push("esc\\u0061ped".to_owned());
        let text = object(names.into_iter());
        let value = Value::of_json(&text);
        let lookup = Lookup::default();
        for name in ["k0", "k59", "escaped", "k60", ""].repeat(3) {
            assert_eq!(lookup.get(value, name), value.get(name), "{name}");
        }
        assert!(lookup.table.get().is_some());
    }

    #[test]
    fn a_small_value_has_no_table() {
        let lookup = Lookup::default();
        for _ in 0..3 {
            assert!(lookup.get(Value::of_json(r#"{"a": 1}"#), "a").is_some());
        }
        assert!(lookup.table.get().is_none());
        assert_eq!(lookup.get(Value::of_json("[1]"), "a"), None);
        assert_eq!(Lookup::default().nth(Value::of_json("{}"), 0), None);
    }
}
