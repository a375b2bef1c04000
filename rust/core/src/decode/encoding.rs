//! The encodings of answers, as their `Content-Type` names them.

/// How the objects of an answer are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`
    #[default]
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Proto,
    /// Anything else, which cannot be read.
    Foreign(Box<str>),
}

impl Encoding {
    /// Read a `Content-Type`, without regard to case and parameters.
    pub fn of(content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        // A table has columns instead of objects.
        let table = content_type
            .split(';')
            .skip(1)
            .filter_map(|parameter| parameter.split_once('='))
            .any(|(name, value)| {
                name.trim().eq_ignore_ascii_case("as") && value.trim().eq_ignore_ascii_case("table")
            });
        match media.to_ascii_lowercase().as_str() {
            "application/json" if !table => Self::Json,
            "application/vnd.kubernetes.protobuf" if !table => Self::Proto,
            _ => Self::Foreign(content_type.chars().take(100).collect()),
        }
    }

    /// Return the name for metrics; empty for an unreadable one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Proto => "protobuf",
            Self::Foreign(_) => "",
        }
    }

    /// Return what is wrong with it, if it cannot be read.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Json | Self::Proto => None,
            Self::Foreign(name) if name.trim().is_empty() => {
                Some("the answer has no content type".to_owned())
            }
            Self::Foreign(name) => Some(format!(
                "the answer is of the content type `{name}`, not JSON or protobuf"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: scale/SC56
    #[test]
    fn a_content_type_is_understood_whatever_its_case_spaces_and_parameters() {
        for text in [
            "application/json",
            "Application/JSON ; charset=utf-8",
            "application/json;stream=watch",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ] {
            assert_eq!(Encoding::of(text), Encoding::Json, "{text}");
        }
        for text in [
            "application/vnd.kubernetes.protobuf",
            " APPLICATION/vnd.Kubernetes.Protobuf;stream=watch",
            "application/vnd.kubernetes.protobuf; x=\"y\" ;stream=watch",
        ] {
            assert_eq!(Encoding::of(text), Encoding::Proto, "{text}");
        }
    }

    // behaviour: scale/SC57
    #[test]
    fn another_content_type_is_named() {
        for text in [
            "text/html",
            "application/yaml",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/vnd.kubernetes.protobuf; AS=table",
            "application/jsonx",
        ] {
            let problem = Encoding::of(text).problem().expect(text);
            assert!(problem.contains(&format!("`{text}`")), "{problem}");
        }
        let problem = Encoding::of("").problem();
        assert_eq!(problem.as_deref(), Some("the answer has no content type"));
    }
}
