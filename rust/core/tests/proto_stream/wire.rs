//! Messages, built field by field.

/// The value of a field.
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Value<'a> {
    fn from(bytes: &'a T) -> Self {
        Self::Bytes(bytes.as_ref())
    }
}

pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
    out
}

pub(crate) fn message(fields: &[(u64, Value<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in fields {
        match value {
            Value::Number(value) => {
                out.extend(varint(number << 3));
                out.extend(varint(*value));
            }
            Value::Bytes(value) => {
                out.extend(varint(number << 3 | 2));
                out.extend(varint(value.len() as u64));
                out.extend_from_slice(value);
            }
        }
    }
    out
}

pub(crate) fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = message(&[(1, "v1".into()), (2, kind.into())]);
    let mut out = b"k8s\0".to_vec();
    out.extend(message(&[
        (1, (&types).into()),
        (2, raw.into()),
        (3, "".into()),
        (4, "".into()),
    ]));
    out
}

/// The encodings of lists and streams of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Proto,
}

pub(crate) const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Proto];

impl Encoding {
    pub(crate) fn media(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Proto => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Return the pod of [`pod`].
    pub(crate) fn pod(self, name: &str, version: u64) -> Vec<u8> {
        match self {
            Self::Proto => pod(name, version),
            Self::Json => format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"u","resourceVersion":"{version}","generation":3,"labels":{{"app":"{name}"}},"managedFields":[{{"manager":"manager"}}]}},"spec":{{"nodeName":"node"}}}}"#
            )
            .into_bytes(),
        }
    }

    /// Return a list of pods.
    pub(crate) fn list(self, version: u64, items: &[Vec<u8>]) -> Vec<u8> {
        if self == Self::Proto {
            return list("PodList", version, items);
        }
        let head = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"next","remainingItemCount":7}},"items":["#
        );
        [head.as_bytes(), &items.join(&b','), b"]}"].concat()
    }

    /// Return a frame of a watch.
    pub(crate) fn event(self, kind: &str, pod: &[u8]) -> Vec<u8> {
        if self == Self::Proto {
            return event(kind, pod);
        }
        let head = format!(r#"{{"type":"{kind}","object":"#);
        [head.as_bytes(), pod, b"}\n"].concat()
    }
}

/// Return a pod with this name and version, and a field of its spec.
pub(crate) fn pod(name: &str, version: u64) -> Vec<u8> {
    let label = message(&[(1, "app".into()), (2, name.into())]);
    let managed = message(&[(1, "manager".into())]);
    let metadata = message(&[
        (1, name.into()),
        (3, "default".into()),
        (5, "u".into()),
        (6, (&version.to_string()).into()),
        (7, Value::Number(3)),
        (11, (&label).into()),
        (17, (&managed).into()),
    ]);
    let spec = message(&[(10, "node".into())]);
    message(&[(1, (&metadata).into()), (2, (&spec).into())])
}

pub(crate) fn list(kind: &str, version: u64, items: &[Vec<u8>]) -> Vec<u8> {
    let meta = message(&[
        (2, (&version.to_string()).into()),
        (3, "next".into()),
        (4, Value::Number(7)),
    ]);
    let mut all = message(&[(1, (&meta).into())]);
    for item in items {
        all.extend(message(&[(2, item.into())]));
    }
    envelope(kind, &all)
}

pub(crate) fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let extension = message(&[(1, object.into())]);
    let event = message(&[(1, kind.into()), (2, (&extension).into())]);
    let length = u32::try_from(event.len()).expect("a small event");
    let mut out = length.to_be_bytes().to_vec();
    out.extend(event);
    out
}

pub(crate) fn event(kind: &str, pod: &[u8]) -> Vec<u8> {
    frame(kind, &envelope("Pod", pod))
}
