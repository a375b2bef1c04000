//! Building an object from a message.

use std::sync::Arc;

use super::body::Body;
use super::build::{Decide, Identity, References, Taken};
use super::proto_body::ProtoBody;
use super::{Builder, ObjectError, Types};
use crate::decode::{DecodeError, RawProto};
use crate::proto::{self, Message, ProtoError, Table};

const METADATA_ONLY: (&str, &str) = ("meta.k8s.io/v1", "PartialObjectMetadata");

impl Builder {
    pub(super) fn take_proto(
        &mut self,
        raw: &RawProto<'_>,
        decide: Decide<'_>,
    ) -> Result<Taken, ObjectError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let taken = self.take_message(raw, &mut bytes, decide);
        self.scratch = bytes;
        taken
    }

    fn take_message(
        &mut self,
        raw: &RawProto<'_>,
        bytes: &mut Vec<u8>,
        decide: Decide<'_>,
    ) -> Result<Taken, ObjectError> {
        let malformed = |error: ProtoError| {
            let error = DecodeError::of_message(raw.offset, &error, raw.bytes);
            ObjectError::Malformed(Box::new(error))
        };
        let (types, mut message) = self.message_of(raw)?;
        proto::strip_managed_fields(message, raw.bytes, bytes).map_err(malformed)?;
        let header = proto::header(message, bytes).map_err(malformed)?;
        let strings = [
            header.name,
            header.namespace,
            header.uid,
            header.resource_version,
        ];
        let identity = Identity::new(strings, References::Proto(header.owner_references))?;
        if let Some(taken) = identity.decided(decide) {
            return Ok(taken);
        }
        let key = identity.key;
        match &types.projection {
            Some(kept) if kept.is_metadata() => {
                message = Table::kind(METADATA_ONLY.0, METADATA_ONLY.1).unwrap_or(message);
                proto::keep_metadata(bytes).map_err(malformed)?;
            }
            Some(kept) => proto::cut(message, bytes, kept.root()).map_err(malformed)?,
            None => {}
        }
        let unknown = proto::check(message, bytes).map_err(|error| {
            // The place of the error in what came, with its managed fields.
            malformed(proto::check(message, raw.bytes).err().unwrap_or(error))
        })?;
        self.unknown = (unknown.count > 0).then_some(unknown);
        if u32::try_from(bytes.len()).is_err() {
            return Err(ObjectError::TooLarge);
        }
        let body = Body::Proto(ProtoBody::new(message, bytes));
        self.object(key, types, body).map(Taken::New)
    }

    /// Return the type and the message of an object of an envelope, or of an item of a list, which has no type.
    fn message_of(&self, raw: &RawProto<'_>) -> Result<(Arc<Types>, Message), ObjectError> {
        let types = self.type_of([raw.api_version.clone(), raw.kind.clone()])?;
        let message = match &*raw.kind {
            "PartialObjectMetadata" => Table::kind(METADATA_ONLY.0, METADATA_ONLY.1),
            _ => Table::kind(&types.api_version, &types.kind),
        };
        let message = message.ok_or_else(|| {
            ObjectError::OtherKind(format!(
                "{} of {}, in protobuf",
                types.kind, types.api_version
            ))
        })?;
        Ok((types, message))
    }
}
