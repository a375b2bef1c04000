//! Writing a cached object for another process, without reading it again.

use super::body::Body;
use super::place::Place;
use super::{Damaged, Object};
use crate::json::read::Value;
use crate::json::text::quote_into;

/// The form in which an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is cached.
    Whole,
    /// As `PartialObjectMetadata`.
    Metadata,
}

impl Object {
    /// Append the object as JSON; with `version` in place of its own resource version.
    ///
    /// # Errors
    /// The compressed body is damaged. Nothing was appended.
    pub fn write(
        &self,
        form: Form,
        version: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let text = self.json()?;
        let (metadata, own) = self.metadata_in(&text);
        match form {
            Form::Whole => write_part(&text, Place::new(0, text.len()), own, version, out),
            Form::Metadata => {
                let head =
                    r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;
                out.extend_from_slice(head.as_bytes());
                write_part(&text, metadata, own, version, out);
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// Return where the metadata and the resource version lie in the text of this object.
    fn metadata_in(&self, text: &str) -> (Place, Place) {
        if let (Body::Json(body), None) = (&self.body, &self.frame) {
            return (body.metadata, body.resource_version);
        }
        let place =
            |part: Option<Value<'_>>| part.map(|value| Place::of(value, text)).unwrap_or_default();
        let metadata = Value(text).get("metadata");
        let version = metadata.and_then(|metadata| metadata.get("resourceVersion"));
        (place(metadata), place(version))
    }
}

/// Append a part of a text; with `version` in place of its own one, which lies at `own`.
fn write_part(text: &str, part: Place, own: Place, version: Option<&str>, out: &mut Vec<u8>) {
    let (Some(version), true) = (version, own.end > own.start) else {
        out.extend_from_slice(part.in_text(text).0.as_bytes());
        return;
    };
    let before = Place {
        end: own.start,
        ..part
    };
    let after = Place {
        start: own.end,
        ..part
    };
    out.extend_from_slice(before.in_text(text).0.as_bytes());
    quote_into(out, version);
    out.extend_from_slice(after.in_text(text).0.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Builder;

    fn written(form: Form, version: Option<&str>) -> String {
        let text = r#"{"metadata":{"managedFields":[{}],"name":"a","resourceVersion":"7","labels":{"b":"c"}},"spec":{}}"#;
        let object = Builder::new("v1", "Pod").parse(text.as_bytes());
        let mut out = Vec::new();
        let written = object.expect("an object").write(form, version, &mut out);
        written.expect("a plain body");
        String::from_utf8(out).expect("UTF-8")
    }

    // behaviour: supervision/FD10
    #[test]
    fn an_object_is_written_whole_or_as_metadata() {
        assert_eq!(
            written(Form::Whole, None),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"7","labels":{"b":"c"}},"spec":{}}"#
        );
        assert_eq!(
            written(Form::Metadata, None),
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"7","labels":{"b":"c"}}}"#
        );
    }

    // behaviour: supervision/FD8
    #[test]
    fn another_version_takes_the_place_of_its_own() {
        assert_eq!(
            written(Form::Whole, Some("12")),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"12","labels":{"b":"c"}},"spec":{}}"#
        );
        assert_eq!(
            written(Form::Metadata, Some("12")),
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"12","labels":{"b":"c"}}}"#
        );
    }
}
