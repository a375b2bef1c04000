//! Flipped bits in lists and streams: what is stored is what Go reads of the messages that a slow splitter finds.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;

use ctrlhost_core::informer::{Config, SharedInformer};
use ctrlhost_core::store::Store;
use serde_json::Value;

use super::random::pairs;
use super::{difference, run_with};

#[path = "../proto_stream/wire.rs"]
#[expect(
    dead_code,
    reason = "only lists and streams in protobuf are built here"
)]
mod wire;

use wire::{Encoding, event, list, pod};

/// Read a number; None if it is cut or too long.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u128;
    for at in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u128::from(first & 0x7f) << (7 * at);
        if *first < 0x80 {
            return u64::try_from(value).ok();
        }
    }
    None
}

/// A field: its tag, what it holds if that has a length, and all of it.
type Field<'a> = (u64, &'a [u8], &'a [u8]);

/// Return the fields up to the first error, and what follows.
fn fields(mut bytes: &[u8]) -> (Vec<Field<'_>>, &[u8]) {
    let mut fields = Vec::new();
    loop {
        let all = bytes;
        let Some(tag) = number(&mut bytes) else {
            return (fields, all);
        };
        let length = match tag & 7 {
            0 => number(&mut bytes).map(|_| 0),
            1 => Some(8),
            2 => number(&mut bytes).and_then(|length| usize::try_from(length).ok()),
            5 => Some(4),
            _ => None,
        };
        let Some((content, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return (fields, all);
        };
        fields.push((tag, content, &all[..all.len() - rest.len()]));
        bytes = rest;
    }
}

/// Return the contents of the fields of that number in some messages.
fn inside<'a>(messages: &[&'a [u8]], wanted: u64) -> Vec<&'a [u8]> {
    let all = messages.iter().flat_map(|message| fields(message).0);
    let matching = all.filter(|(tag, ..)| *tag == wanted << 3 | 2);
    matching.map(|(_, content, _)| content).collect()
}

fn messages(bytes: &[u8], streamed: bool) -> Vec<&[u8]> {
    let opened = |envelope: &&[u8]| envelope.starts_with(b"k8s\0");
    if !streamed {
        let lists = inside(&[bytes.get(4..).unwrap_or_default()], 2);
        return inside(&lists, 2);
    }
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else {
            break;
        };
        frames.push(frame);
        rest = after;
    }
    let envelopes = inside(&inside(&frames, 2), 1);
    let opened: Vec<_> = envelopes
        .into_iter()
        .filter(opened)
        .map(|envelope| &envelope[4..])
        .collect();
    inside(&opened, 2)
}

/// Return the message without its managed fields, which are not decoded.
fn without_managed_fields(message: &[u8]) -> Vec<u8> {
    let (parts, rest) = fields(message);
    let mut out = Vec::new();
    for (tag, content, all) in parts {
        if tag != 1 << 3 | 2 {
            out.extend_from_slice(all);
            continue;
        }
        let (parts, rest) = fields(content);
        let kept = parts.iter().filter(|(tag, ..)| tag >> 3 != 17);
        let metadata: Vec<u8> = kept
            .flat_map(|(.., all)| *all)
            .chain(rest)
            .copied()
            .collect();
        out.extend(wire::message(&[(1, (&metadata).into())]));
    }
    [&out[..], rest].concat()
}

/// Return the objects that an informer stores of the bytes, by key.
fn stored(bytes: &[u8], streamed: bool) -> Vec<(String, Value)> {
    let informer = SharedInformer::new(Config::new("pods", "v1", "Pod"), Arc::new(Store::new()));
    let media = Some(Encoding::Proto.media());
    if streamed {
        informer.begin_watch(media);
        let _ = informer.feed_watch(bytes);
        let _ = informer.end_watch();
    } else {
        informer.begin_list();
        informer.begin_page(media);
        let fed = informer.feed_list(bytes);
        match fed.map(|()| informer.end_page()) {
            Ok(Ok(meta)) => {
                let replaced = informer.replace(&meta.resource_version);
                replaced.expect("there is no budget");
            }
            _ => informer.abort_list(),
        }
    }
    informer.process();
    let entries = informer.store().entries().into_iter();
    let read = |json: &str| serde_json::from_str(json).expect("JSON");
    entries
        .map(|(key, object)| (key.to_string(), read(&object.json().expect("a plain body"))))
        .collect()
}

/// Return what Go makes of the messages; Null if it refuses one.
fn read_by_go(messages: &[Vec<u8>]) -> Option<Vec<Value>> {
    let mut input = Vec::new();
    for message in messages {
        input.extend(
            u32::try_from(message.len())
                .expect("a small message")
                .to_le_bytes(),
        );
        input.extend_from_slice(message);
    }
    let output = run_with(
        Command::new("bin/protobuf").args(["read", "v1", "Pod"]),
        input,
    )?;
    let mut objects = Vec::with_capacity(messages.len());
    pairs(&output, |pair| {
        objects.push(serde_json::from_slice(pair.json).unwrap_or_default());
    });
    Some(objects)
}

// behaviour: scale/SC137
#[test]
#[ignore = "needs Go: make test-real runs it"]
fn after_flipped_bits_each_object_is_one_that_go_reads() {
    let pods = [pod("a", 1), pod("b", 2), pod("c", 3)];
    let list = list("PodList", 9, &pods);
    let stream = pods.map(|pod| event("ADDED", &pod)).concat();
    // The messages, each once, and for each case what was stored and of which messages.
    let (mut known, mut cases) = (HashMap::new(), Vec::new());
    let mut seed = 5_u64;
    let mut random = |limit: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).expect("31 bits") % limit
    };
    for turn in 0..100_000 {
        let streamed = turn % 2 == 0;
        let mut bytes = if streamed {
            stream.clone()
        } else {
            list.clone()
        };
        for _ in 0..=turn % 3 {
            let at = random(bytes.len());
            bytes[at] ^= 1 << random(8);
        }
        let stored = stored(&bytes, streamed);
        if stored.is_empty() {
            continue;
        }
        let messages = messages(&bytes, streamed).into_iter().map(|message| {
            let next = known.len();
            *known.entry(without_managed_fields(message)).or_insert(next)
        });
        cases.push((messages.collect::<Vec<_>>(), stored, bytes));
    }
    let mut distinct: Vec<_> = known.into_iter().collect();
    distinct.sort_by_key(|(_, number)| *number);
    let distinct: Vec<_> = distinct.into_iter().map(|(message, _)| message).collect();
    let Some(objects) = read_by_go(&distinct) else {
        return;
    };
    let mut compared = 0;
    for (messages, stored, bytes) in cases {
        for (key, object) in stored {
            let possible = messages.iter().map(|number| &objects[*number]);
            let closest = possible.map(|wanted| difference("", &object, wanted)).min();
            assert_eq!(closest, Some(None), "{key} of {}", bytes.escape_ascii());
            let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
            let wanted = [text("namespace"), text("name")].join("/");
            assert_eq!(key, wanted.trim_start_matches('/'));
            compared += 1;
        }
    }
    assert!(compared > 100_000, "{compared}");
}
