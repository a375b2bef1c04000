//! What must be the same whatever the encoding is.

use std::collections::BTreeMap;

use ctrlhost_core::decode::MAX_OBJECT_BYTES;
use ctrlhost_core::projection::Projection;
use serde_json::Value;

use super::rig::{content, count, informer, informer_of, page_in, watch_in};
use super::wire::{ENCODINGS, Encoding, message};

/// Random numbers that are the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("a small number")
    }
}

/// Return a pod of that many bytes.
fn pod_of(encoding: Encoding, size: usize) -> Vec<u8> {
    let body_of = |filler: usize| match encoding {
        Encoding::Json => {
            let text = "x".repeat(filler);
            format!(r#"{{"metadata":{{"name":"large","namespace":"default"}},"spec":{{"nodeName":"{text}"}}}}"#)
                .into_bytes()
        }
        Encoding::Proto => {
            let metadata = message(&[(1, "large".into()), (3, "default".into())]);
            let spec = message(&[(10, ("x".repeat(filler).as_str()).into())]);
            message(&[(1, (&metadata).into()), (2, (&spec).into())])
        }
    };
    let around = body_of(size).len() - size;
    let pod = body_of(size - around);
    assert_eq!(pod.len(), size);
    pod
}

// behaviour: scale/SC64
#[test]
fn an_item_that_cannot_be_held_is_skipped_or_refused_alike() {
    let counted = ENCODINGS.map(|encoding| {
        let (nameless, bare) = match encoding {
            Encoding::Json => (
                br#"{"metadata":{"resourceVersion":"2"}}"#.to_vec(),
                br#"{"spec":{}}"#.to_vec(),
            ),
            Encoding::Proto => {
                let metadata = message(&[(6, "2".into())]);
                (
                    message(&[(1, (&metadata).into())]),
                    message(&[(2, "".into())]),
                )
            }
        };
        let informer = informer_of(MAX_OBJECT_BYTES, None);
        informer.begin_list();
        let items = [
            nameless.clone(),
            encoding.pod("a", 1),
            bare.clone(),
            pod_of(encoding, MAX_OBJECT_BYTES),
        ];
        let meta = page_in(encoding, &informer, &[&encoding.list(9, &items)]).expect("a page");
        let replaced = informer.replace(&meta.resource_version);
        replaced.expect("there is no budget");
        let stream =
            [&nameless, &encoding.pod("b", 10), &bare].map(|pod| encoding.event("ADDED", pod));
        let progress = watch_in(encoding, &informer, &[&stream.concat()]).expect("a stream");
        assert_eq!((progress.skipped, progress.events), (2, 1), "{encoding:?}");
        let skip = informer.stats().last_skip;
        assert!(skip.contains("metadata.name is missing"), "{skip}");
        assert_eq!(content(&informer).len(), 3);

        let large = pod_of(encoding, MAX_OBJECT_BYTES + 1);
        let list = encoding.list(9, std::slice::from_ref(&large));
        let too_large = |error: &str| error.contains("the object is larger than 16777216 bytes");
        let error = page_in(encoding, &informer, &[&list]).expect_err("too large");
        assert!(too_large(&error.what), "{encoding:?}: {error}");
        let stream = encoding.event("ADDED", &large);
        let error = watch_in(encoding, &informer, &[&stream]).expect_err("too large");
        assert!(too_large(&error.what), "{encoding:?}: {error}");
        assert_eq!(content(&informer).len(), 3);
        ["skipped", "listed", "events", "decode_errors"].map(|name| count(&informer, name))
    });
    assert_eq!(counted[0], counted[1]);
    assert_eq!(counted[0], [4, 4, 1, 2]);
}

/// Return where bytes are cut: at each of the last 4 KB, and at 1,000 random places.
fn cuts(length: usize, random: &mut Random) -> Vec<usize> {
    assert!(length > 5_000);
    let last = length - 4096..length;
    last.chain((0..1_000).map(|_| random.below(length)))
        .collect()
}

// behaviour: scale/SC136
#[test]
fn what_is_truncated_is_an_error_and_leaves_the_cache_as_it_was() {
    let mut random = Random(7);
    for encoding in ENCODINGS {
        let pods: Vec<_> = (0..150)
            .map(|number| encoding.pod(&format!("new-{number}"), number + 10))
            .collect();
        let informer = informer();
        informer.begin_list();
        let meta = page_in(
            encoding,
            &informer,
            &[&encoding.list(9, &[encoding.pod("a", 1)])],
        )
        .expect("a page");
        let replaced = informer.replace(&meta.resource_version);
        replaced.expect("there is no budget");
        let before = content(&informer);

        let bytes = encoding.list(9, &pods);
        // Where the items end. The last two fields of the envelope are empty, so the list is complete without them.
        let mut ends = Vec::new();
        for pod in &pods {
            let from = ends.last().copied().unwrap_or_default();
            let at = bytes[from..]
                .windows(pod.len())
                .position(|part| part == pod);
            ends.push(from + at.expect("the item") + pod.len());
        }
        let complete = match encoding {
            Encoding::Json => vec![],
            Encoding::Proto => vec![bytes.len() - 2, bytes.len() - 4],
        };
        for cut in cuts(bytes.len(), &mut random) {
            if complete.contains(&cut) {
                continue;
            }
            informer.begin_list();
            let error = page_in(encoding, &informer, &[&bytes[..cut]]).expect_err("a cut page");
            assert_eq!(
                (error.offset, &*error.what),
                (cut as u64, "unexpected end of the page")
            );
            assert_eq!(error.first_bytes, bytes[..cut.min(64)]);
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(
                count(&informer, "staged"),
                whole as u64,
                "{encoding:?} {cut}"
            );
            informer.abort_list();
        }
        assert_eq!(content(&informer), before);

        let events: Vec<_> = pods
            .iter()
            .map(|pod| encoding.event("ADDED", pod))
            .collect();
        let stream = events.concat();
        let mut end = 0;
        let ends = events.iter().map(|event| {
            end += event.len();
            end
        });
        let ends: Vec<_> = ends.collect();
        for cut in cuts(stream.len(), &mut random) {
            let informer = super::rig::informer();
            let result = watch_in(encoding, &informer, &[&stream[..cut]]);
            // A line is complete without its end.
            let whole = ends
                .iter()
                .filter(|end| **end <= cut || encoding == Encoding::Json && **end == cut + 1)
                .count();
            if ends.contains(&cut)
                || encoding == Encoding::Json && ends.contains(&(cut + 1))
                || cut == 0
            {
                assert!(result.is_ok());
            } else {
                let error = result.expect_err("a cut stream");
                assert_eq!(
                    (error.offset, &*error.what),
                    (cut as u64, "unexpected end of the frame")
                );
            }
            informer.process();
            assert_eq!(
                informer.store().entries().len(),
                whole,
                "{encoding:?} {cut}"
            );
        }
    }
}

/// Return the objects that serde reads, up to the first error.
fn reference(bytes: &[u8], streamed: bool) -> Vec<Value> {
    let values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let values = values.map_while(Result::ok);
    if streamed {
        return values.map(|mut frame| frame["object"].take()).collect();
    }
    let lists = values.filter_map(|mut list| match list["items"].take() {
        Value::Array(items) => Some(items),
        _ => None,
    });
    lists.flatten().collect()
}

/// Return the object without its managed fields, with its type.
fn normal(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(members) = object.as_object_mut() {
        for (name, text) in [("apiVersion", "v1"), ("kind", "Pod")] {
            let said = members.get(name).and_then(Value::as_str);
            if said.is_none_or(str::is_empty) {
                members.insert(name.to_owned(), text.into());
            }
        }
    }
    object
}

// behaviour: scale/SC137
#[test]
fn after_flipped_bits_each_object_of_json_is_one_that_a_slow_reader_finds() {
    let mut random = Random(11);
    let pods = ["a", "b", "c"].map(|name| Encoding::Json.pod(name, 1));
    let list = Encoding::Json.list(9, &pods);
    let stream = pods.map(|pod| Encoding::Json.event("ADDED", &pod)).concat();
    let mut stored = 0;
    for turn in 0..100_000 {
        let streamed = turn % 2 == 0;
        let mut bytes = if streamed {
            stream.clone()
        } else {
            list.clone()
        };
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        let informer = informer();
        if streamed {
            let _ = watch_in(Encoding::Json, &informer, &[&bytes]);
        } else {
            informer.begin_list();
            match page_in(Encoding::Json, &informer, &[&bytes]) {
                Ok(meta) => {
                    let replaced = informer.replace(&meta.resource_version);
                    replaced.expect("there is no budget");
                }
                Err(_) => informer.abort_list(),
            }
        }
        informer.process();
        let objects: BTreeMap<_, _> = informer.store().entries().into_iter().collect();
        if objects.is_empty() {
            continue;
        }
        let possible: Vec<_> = reference(&bytes, streamed)
            .into_iter()
            .map(normal)
            .collect();
        for (key, object) in objects {
            let json = object.json().expect("a plain body");
            let value: Value = serde_json::from_str(&json).expect("JSON");
            let text = || String::from_utf8_lossy(&bytes).into_owned();
            assert!(possible.contains(&value), "{value} of {}", text());
            let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
            let name = value["metadata"]["name"].as_str().expect("a name");
            let wanted = [namespace, name].join("/");
            assert_eq!(*key, *wanted.trim_start_matches('/'));
            stored += 1;
        }
    }
    assert!(stored > 100_000, "{stored}");
}

// behaviour: scale/SC85
#[test]
fn managed_fields_are_gone_wherever_they_were_in_the_text() {
    let managed = r#""managedFields":[{"manager":"m","fieldsV1":{"f:metadata":{}}}]"#;
    let rest = [
        r#""name" : "a""#,
        r#""labels":{"b":"c\u0041"}"#,
        r#""uid":"u""#,
    ];
    for at in 0..=rest.len() {
        let mut members = rest.to_vec();
        members.insert(at, managed);
        let wanted = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{}}},"spec": {{"managedFields":[1] }}}}"#,
            rest.map(|member| member.replace("\" : ", "\":")).join(",")
        );
        let pod = format!(
            r#"{{"metadata":{{{}}},"spec": {{"managedFields":[1] }}}}"#,
            members.join(" , ")
        );
        let informer = informer();
        watch_in(
            Encoding::Json,
            &informer,
            &[&Encoding::Json.event("ADDED", pod.as_bytes())],
        )
        .expect("a stream");
        let wanted = wanted.replace(r#""spec": "#, r#""spec":"#);
        assert_eq!(content(&informer), [wanted]);
    }
}

// behaviour: scale/SC81
#[test]
fn a_projection_of_protobuf_cuts_bytes_and_does_not_decode_the_rest() {
    let paths = ["spec.nodeName", "status.containerStatuses[*].image"];
    let projection = Projection::paths(paths).expect("paths");
    let metadata = message(&[(1, "a".into()), (6, "1".into())]);
    let spec = message(&[(10, "node".into()), (2, "no container".into())]);
    let image = message(&[(1, "c".into()), (7, "id".into()), (6, "image".into())]);
    let status = message(&[(8, (&image).into()), (1, "Running".into()), (8, "".into())]);
    let pod = message(&[
        (1, (&metadata).into()),
        (2, (&spec).into()),
        (3, (&status).into()),
    ]);
    let whole = informer_of(4096, None);
    assert!(
        watch_in(
            Encoding::Proto,
            &whole,
            &[&Encoding::Proto.event("ADDED", &pod)]
        )
        .is_err()
    );
    let cut = informer_of(4096, Some(projection));
    watch_in(
        Encoding::Proto,
        &cut,
        &[&Encoding::Proto.event("ADDED", &pod)],
    )
    .expect("a stream");
    let wanted = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"1"},"spec":{"nodeName":"node"},"status":{"containerStatuses":[{"image":"image"},{"image":""}]}}"#;
    assert_eq!(content(&cut), [wanted]);
    let object = cut.store().get("a").expect("a pod");
    assert!(object.partial());
    // The body is what is left of the message: the metadata, the node and the images.
    let image = message(&[(6, "image".into())]);
    let status = message(&[(8, (&image).into()), (8, "".into())]);
    let spec = message(&[(10, "node".into())]);
    let left = message(&[
        (1, (&metadata).into()),
        (2, (&spec).into()),
        (3, (&status).into()),
    ]);
    let bare = informer_of(4096, None);
    watch_in(
        Encoding::Proto,
        &bare,
        &[&Encoding::Proto.event("ADDED", &left)],
    )
    .expect("a stream");
    bare.process();
    let same = bare.store().get("a").expect("a pod");
    assert_eq!(object.memory(), same.memory());
}
