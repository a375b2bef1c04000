//! Hashes, ranges and selectors of shards.

use std::ops::RangeInclusive;

use ctrlhost_core::shards::{Field, MAX_RANGES, Ranges, hash};
use proptest::prelude::*;

const HALF: u64 = 1 << 63;

fn ranges(parts: impl IntoIterator<Item = RangeInclusive<u64>>) -> Ranges {
    parts.into_iter().collect()
}

/// Return a text of each length up to 63, of any characters: steps of a linear congruential generator.
fn texts() -> impl Iterator<Item = String> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..10_000).map(move |_| {
        let length = next() % 64;
        (0..length)
            .map(|_| {
                char::from_u32(u32::try_from(next() % 0x800).unwrap_or_default())
                    .unwrap_or_default()
            })
            .collect()
    })
}

// behaviour: shards/SH01
#[test]
fn the_hash_is_that_of_the_server() {
    assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash("default"), 0xebad_a516_8620_c5fe);
    assert_eq!(hash("kube-system"), 0xdf65_c7bc_1d82_b35e);
    // All hashes one after the other, as `hash/fnv` of Go 1.26 computes them for the same texts.
    let all = texts().fold(0, |all: u64, text| all.rotate_left(7) ^ hash(&text));
    assert_eq!(all, 0x39c8_1473_af07_2c21);
}

// behaviour: shards/SH02
#[test]
fn a_bound_belongs_to_the_range_that_begins_with_it() {
    for bound in [1, HALF, u64::MAX] {
        let (before, from) = (ranges([0..=bound - 1]), ranges([bound..=u64::MAX]));
        assert!(!before.contains(bound) && from.contains(bound));
        assert!(before.contains(bound - 1) && !from.contains(bound - 1));
    }
    assert!(!Ranges::default().contains(0));
    assert!(ranges([0..=u64::MAX]).contains(u64::MAX));
}

// behaviour: shards/SH03
#[test]
fn neighbours_are_one_range_of_the_selector() {
    let held = ranges([
        0x2000..=0x2fff,
        HALF..=u64::MAX,
        0x1000..=0x1fff,
        0x3000..=0x3fff,
    ]);
    assert_eq!(
        held.selector(Field::Namespace),
        "shardRange(object.metadata.namespace, '0x0000000000001000', '0x0000000000004000') || \
         shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')"
    );
    assert_eq!(
        ranges([0..=u64::MAX]).selector(Field::Uid),
        "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"
    );
    assert_eq!(Ranges::default().selector(Field::Uid), "");
}

// behaviour: shards/SH04
#[test]
fn a_selector_has_at_most_sixty_ranges() {
    // A hundred ranges whose gaps grow.
    let held = ranges((0..100).map(|part: u64| {
        let start = part * part * 0x1000;
        start..=start + 0xfff
    }));
    assert_eq!(held.as_slice().len(), 99, "the first two touch");
    let wide = held.widened(MAX_RANGES);
    assert_eq!(wide.as_slice().len(), MAX_RANGES);
    assert_eq!(held.selector(Field::Uid), wide.selector(Field::Uid));
    assert_eq!(held.selector(Field::Uid).matches("shardRange").count(), 60);
    for range in held.as_slice() {
        assert!(wide.contains(*range.start()) && wide.contains(*range.end()));
    }
    // The smallest gaps are filled, the first ones here; the others are not.
    assert!(wide.contains(0x2000) && !wide.contains(99 * 99 * 0x1000 - 1));
}

proptest! {
    #[test]
    fn ranges_hold_what_their_parts_hold(
        parts in prop::collection::vec((0_u64..200, 0_u64..20), 0..20),
        most in 0_usize..8,
    ) {
        let parts: Vec<_> = parts.into_iter().map(|(start, size)| start..=start + size).collect();
        let held = ranges(parts.clone());
        let wide = held.widened(most);
        prop_assert!(wide.as_slice().len() <= most.max(1));
        for hash in 0..=u64::from(u8::MAX) {
            prop_assert_eq!(held.contains(hash), parts.iter().any(|part| part.contains(&hash)));
            prop_assert!(!held.contains(hash) || wide.contains(hash));
        }
        for pair in held.as_slice().windows(2) {
            prop_assert!(pair[0].end() + 1 < *pair[1].start());
        }
    }
}
