//! The end of a page: whether it is the list that was asked for, and what it says beside its items.

use super::{PageDecoder, State};
use crate::decode::DecodeError;
use crate::json::read::Value;
use crate::json::text::quote_into;

/// What a page says beside its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The resource version of the whole list.
    pub resource_version: String,
    /// Asks for the next page; empty on the last one.
    pub continue_token: String,
    /// How many items later pages hold, where the server says.
    pub remaining_item_count: Option<i64>,
    /// Items on this page.
    pub count: u64,
}

impl PageDecoder {
    /// The page is complete.
    ///
    /// # Errors
    /// It is not: the body was cut. Or it is no list of the expected kind, but for example a `Status`.
    pub fn finish(&mut self) -> Result<ListMeta, DecodeError> {
        if self.state != State::Done {
            let at = self.held.len();
            return Err(self.error(at, "the page ends too early"));
        }
        let other = |name: &str| {
            self.others
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .map(|(_, raw)| Value(raw))
        };
        let kind = other("kind").and_then(Value::as_str).unwrap_or_default();
        let fits = match &self.list_kind {
            _ if kind.is_empty() || kind == "List" || kind == "PartialObjectMetadataList" => true,
            Some(expected) => *kind == **expected,
            None => kind != "Status" && kind != "Table",
        };
        if !fits {
            let mut error = self.error(0, &format!("a list was expected, the body is a {kind}"));
            error.status = (kind == "Status").then(|| self.joined());
            return Err(error);
        }
        // Every list has the member, empty or null. A body without one must not be taken for "nothing is left".
        if !self.saw_items {
            return Err(self.error(0, "a list was expected, the body has no items"));
        }
        let metadata = other("metadata").unwrap_or(Value("null"));
        let string = |name| {
            metadata
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into_owned()
        };
        Ok(ListMeta {
            resource_version: string("resourceVersion"),
            continue_token: string("continue"),
            remaining_item_count: metadata
                .get("remainingItemCount")
                .and_then(|count| count.0.parse().ok()),
            count: self.count,
        })
    }

    fn joined(&self) -> String {
        let mut out = vec![b'{'];
        for (index, (key, raw)) in self.others.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            quote_into(&mut out, key);
            out.push(b':');
            out.extend_from_slice(raw.as_bytes());
        }
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }
}
