//! The identity of an object, which a transform cannot change.

use std::sync::Arc;

use super::{Builder, Object};
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
        let mut text = Vec::with_capacity(changed.body.len() + 128);
        for (key, value) in changed.value().members() {
            text.push(if text.is_empty() { b'{' } else { b',' });
            text.extend_from_slice(key.0.as_bytes());
            text.push(b':');
            if key.as_str().is_some_and(|key| key == "metadata") {
                self.write_metadata_of(&changed, &mut text);
            } else {
                text.extend_from_slice(value.0.as_bytes());
            }
        }
        text.push(b'}');
        let built = Builder::new("", "").partial(changed.partial).parse(&text);
        built.map_or_else(|_| self.clone(), Arc::new)
    }

    /// Write the metadata of `changed` with the identity of this object.
    fn write_metadata_of(&self, changed: &Self, text: &mut Vec<u8>) {
        let mut separator = b'{';
        for name in IDENTITY {
            let value = self.in_metadata(name);
            if !value.0.is_empty() {
                text.push(std::mem::replace(&mut separator, b','));
                quote_into(text, name);
                text.push(b':');
                text.extend_from_slice(value.0.as_bytes());
            }
        }
        for (key, value) in changed.at(changed.metadata).members() {
            if key.as_str().is_none_or(|key| !IDENTITY.contains(&&*key)) {
                text.push(std::mem::replace(&mut separator, b','));
                text.extend_from_slice(key.0.as_bytes());
                text.push(b':');
                text.extend_from_slice(value.0.as_bytes());
            }
        }
        text.push(b'}');
    }
}
