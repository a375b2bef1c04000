//! The identity of an object, which a transform cannot change.

use std::sync::Arc;

use super::{Builder, Object};
use crate::json::read::Value;
use crate::json::text::quote_into;

/// What the server alone decides: where an object is, which one it is, and in which state.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];

impl Object {
    /// Return `changed`, made from this object, with the name, namespace, uid and resource version of this one.
    #[must_use]
    pub fn restore_identity(self: &Arc<Self>, changed: Arc<Self>) -> Arc<Self> {
        let same = changed.key == self.key
            && changed.uid() == self.uid()
            && changed.resource_version() == self.resource_version();
        if same {
            return changed;
        }
        let (Ok(own), Ok(theirs)) = (self.json(), changed.json()) else {
            return self.clone();
        };
        let mut text = Vec::with_capacity(theirs.len() + 128);
        for (key, value) in Value(&theirs).members() {
            text.push(if text.is_empty() { b'{' } else { b',' });
            text.extend_from_slice(key.0.as_bytes());
            text.push(b':');
            if key.as_str().is_some_and(|key| key == "metadata") {
                let own = Value(&own).get("metadata").unwrap_or(Value("{}"));
                write_metadata_of(own, value, &mut text);
            } else {
                text.extend_from_slice(value.0.as_bytes());
            }
        }
        text.push(b'}');
        let built = Builder::new("", "").partial(changed.partial).parse(&text);
        built.map_or_else(|_| self.clone(), Arc::new)
    }
}

/// Write the metadata of `changed` with the identity of `own`.
fn write_metadata_of(own: Value<'_>, changed: Value<'_>, text: &mut Vec<u8>) {
    let mut separator = b'{';
    for name in IDENTITY {
        if let Some(value) = own.get(name) {
            text.push(std::mem::replace(&mut separator, b','));
            quote_into(text, name);
            text.push(b':');
            text.extend_from_slice(value.0.as_bytes());
        }
    }
    for (key, value) in changed.members() {
        if key.as_str().is_none_or(|key| !IDENTITY.contains(&&*key)) {
            text.push(std::mem::replace(&mut separator, b','));
            text.extend_from_slice(key.0.as_bytes());
            text.push(b':');
            text.extend_from_slice(value.0.as_bytes());
        }
    }
    text.push(b'}');
}
