//! Projections of objects filled at random: the same part is kept of both encodings.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use ctrlhost_core::informer::{Config, FeedError, SharedInformer};
use ctrlhost_core::json::path::{Path, Step};
use ctrlhost_core::object::Object;
use ctrlhost_core::projection::Projection;
use ctrlhost_core::store::Store;
use serde_json::Value;

use super::difference;
use super::random::{Pair, collect, output, pairs};

const PROTO: &str = "application/vnd.kubernetes.protobuf";

/// Append a field of that number and length.
fn field(number: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        out.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    out.push(length.to_le_bytes()[0]);
    out.extend_from_slice(value);
}

/// Return a list with one item.
fn list(pair: &Pair<'_>) -> Vec<u8> {
    let (mut types, mut items, mut out) = (Vec::new(), Vec::new(), b"k8s\0".to_vec());
    field(1, pair.api_version.as_bytes(), &mut types);
    field(2, format!("{}List", pair.kind).as_bytes(), &mut types);
    field(1, &types, &mut out);
    field(2, pair.body, &mut items);
    field(2, &items, &mut out);
    out
}

/// Return the object of a list as an informer keeps it.
fn kept(
    pair: &Pair<'_>,
    projection: Option<Projection>,
    media: &str,
    list: &[u8],
) -> Result<Option<Arc<Object>>, FeedError> {
    let config = Config {
        projection,
        ..Config::new("things", pair.api_version, pair.kind)
    };
    let informer = SharedInformer::new(config, Arc::new(Store::new()));
    informer.begin_list();
    informer.begin_page(Some(media));
    informer.feed_list(list)?;
    informer.end_page()?;
    informer.replace("1")?;
    informer.process();
    let mut entries = informer.store().entries().into_iter();
    Ok(entries.next().map(|(_, object)| object))
}

fn text(object: &Object) -> Cow<'_, str> {
    object.json().expect("a plain body")
}

/// Return the path that leads through all elements of its lists.
fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        let _ = match step {
            Step::Key(key) => write!(text, "[\"{key}\"]"),
            _ => write!(text, "[*]"),
        };
    }
    text
}

/// Return whether a path can be written as text.
fn is_plain(path: &[Step]) -> bool {
    path.iter().all(|step| match step {
        Step::Key(key) => !key.contains(['"', '\'', '[', ']', '\\']) && !key.is_empty(),
        _ => true,
    })
}

// behaviour: scale/SC81
#[test]
#[ignore = "needs Go: make test-real runs it"]
fn a_projection_keeps_the_same_of_both_encodings() {
    let Some(output) = output("random", 2, 7) else {
        return;
    };
    let (mut turn, mut compared, mut cut) = (0, 0, 0);
    pairs(&output, |pair| {
        let name = format!("{}/{}", pair.api_version, pair.kind);
        let bytes = list(pair);
        let Ok(Some(whole)) = kept(pair, None, PROTO, &bytes) else {
            // Lists, options, and objects whose random name is none.
            return;
        };
        let json = format!(
            r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{}},"items":[{}]}}"#,
            pair.kind,
            pair.api_version,
            text(&whole)
        );
        let value: Value = serde_json::from_str(&text(&whole)).expect("JSON");
        let mut paths = Vec::new();
        collect(&value, &mut Vec::new(), &mut paths);
        paths.retain(|(path, _)| path.len() > 1 && is_plain(path));
        turn += 1;
        for (first, second) in [(turn * 7, turn * 31), (turn * 13, turn * 17)] {
            let chosen = [first, second].map(|at| &*paths[at % paths.len()].0);
            let texts = chosen.map(shown);
            let projection = Projection::paths(texts.iter().map(String::as_str)).expect("paths");
            let of = |media, bytes: &[u8]| {
                let page = kept(pair, Some(projection.clone()), media, bytes);
                page.expect("a page").expect("an object")
            };
            let (one, other) = (of(PROTO, &bytes), of("application/json", json.as_bytes()));
            let actual: Value = serde_json::from_str(&text(&one)).expect("JSON");
            let wanted: Value = serde_json::from_str(&text(&other)).expect("JSON");
            assert_eq!(
                difference("", &actual, &wanted),
                None,
                "{texts:?} of {name}"
            );
            assert!(*one == *other && one.partial() && other.partial());
            for (path, _) in paths.iter().step_by(1 + paths.len() / 20) {
                let read = |object: &Object| {
                    let text = object.find(path).expect("a plain body")?;
                    Some(serde_json::from_str::<Value>(&text).expect("JSON"))
                };
                assert_eq!(
                    read(&one),
                    read(&other),
                    "{path:?} with {texts:?} of {name}"
                );
                let path = Path(path.clone());
                let sorted = |object: &Object| {
                    let mut texts = object.texts(&path).expect("a plain body");
                    texts.sort_unstable();
                    texts
                };
                let (actual, wanted) = (sorted(&one), sorted(&other));
                assert_eq!(actual, wanted, "{path:?} with {texts:?} of {name}");
            }
            cut += usize::from(one.plain_len() < whole.plain_len());
            compared += 1;
        }
    });
    assert!(
        compared > 200 && cut * 10 > compared * 9,
        "{cut} of {compared}"
    );
}
