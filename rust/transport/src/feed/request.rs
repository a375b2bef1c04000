//! Requests: which objects are wanted, in which form, and how.

use std::time::Duration;

use ctrlhost_core::object::Form;
use ctrlhost_core::selector::Selector;
use hyper::header::ACCEPT;
use hyper::{Method, Request, StatusCode};

use super::answers::Failure;

/// The wanted objects.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) api_version: String,
    pub(super) plural: String,
    /// Empty for all of them.
    pub(super) namespace: String,
    pub(super) label_selector: String,
    pub(super) field_selector: String,
    pub(super) labels: Selector,
}

/// How to watch.
#[derive(Debug)]
pub(super) struct Watching {
    /// Empty or `0` for any.
    pub(super) version: String,
    pub(super) bookmarks: bool,
    /// End the initial events with a bookmark.
    pub(super) initial_events: bool,
    pub(super) timeout: Option<Duration>,
}

/// A request that was understood.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) target: Target,
    pub(super) form: Form,
    /// None for a list.
    pub(super) watch: Option<Watching>,
}

impl Wanted {
    pub(super) fn read<B>(request: &Request<B>) -> Result<Self, Failure> {
        if request.method() != Method::GET {
            return Err(Failure::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!(
                    "{} is not supported: the feed is read-only",
                    request.method()
                ),
            ));
        }
        let path = request.uri().path();
        let (api_version, namespace, plural) = split(path).ok_or_else(|| {
            let what = format!("{path} is neither a list nor a watch");
            Failure::new(StatusCode::NOT_FOUND, "NotFound", what)
        })?;
        let form = form(request)?;
        let mut target = Target {
            api_version,
            plural,
            namespace,
            label_selector: String::new(),
            field_selector: String::new(),
            labels: Selector::default(),
        };
        let mut watching = Watching {
            version: String::new(),
            bookmarks: false,
            initial_events: false,
            timeout: None,
        };
        let mut watch = false;
        let query = request.uri().query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "labelSelector" => target.label_selector = value.into_owned(),
                "fieldSelector" => target.field_selector = value.into_owned(),
                "resourceVersion" => watching.version = value.into_owned(),
                "watch" => watch = is_true(&value),
                "allowWatchBookmarks" => watching.bookmarks = is_true(&value),
                "sendInitialEvents" => watching.initial_events = is_true(&value),
                "timeoutSeconds" => {
                    let seconds = value.parse().map_err(|_| {
                        Failure::bad(format!("timeoutSeconds is not a number: {value}"))
                    })?;
                    watching.timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
                }
                _ => {}
            }
        }
        target.labels = Selector::labels(&target.label_selector)
            .map_err(|error| Failure::bad(error.to_string()))?;
        let watch = watch.then_some(watching);
        Ok(Self {
            target,
            form,
            watch,
        })
    }
}

/// Split a path into `apiVersion`, namespace and plural; None if it is not a collection.
fn split(path: &str) -> Option<(String, String, String)> {
    let parts: Vec<_> = path.strip_prefix('/')?.split('/').collect();
    let (api_version, rest) = match &*parts {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return None,
    };
    let (namespace, plural) = match rest {
        [plural] => ("", *plural),
        ["namespaces", namespace, plural] if !namespace.is_empty() => (*namespace, *plural),
        _ => return None,
    };
    (!plural.is_empty()).then(|| (api_version, namespace.to_owned(), plural.to_owned()))
}

/// The API server reads booleans so.
fn is_true(value: &str) -> bool {
    !["false", "False", "FALSE", "0"].contains(&value)
}

/// Return the form of the first acceptable encoding.
fn form<B>(request: &Request<B>) -> Result<Form, Failure> {
    let accept = request.headers().get(ACCEPT);
    let Some(accept) = accept.and_then(|value| value.to_str().ok()) else {
        return Ok(Form::Whole);
    };
    let of_range = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        if !["application/json", "application/*", "*/*"].contains(&parts.next()?) {
            return None;
        }
        match parts.find_map(|part| part.strip_prefix("as=")) {
            None => Some(Form::Whole),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
            Some(_) => None,
        }
    };
    accept.split(',').find_map(of_range).ok_or_else(|| {
        let what = "only application/json is available, whole or as PartialObjectMetadata";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", what.to_owned())
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn wanted(uri: &str) -> Result<Wanted, u16> {
        let request = Request::get(uri).body(()).unwrap();
        Wanted::read(&request).map_err(|failure| failure.code())
    }

    // behaviour: supervision/FD11
    #[test]
    fn only_collections_have_paths() {
        for (path, api_version, namespace, plural) in [
            ("/api/v1/pods", "v1", "", "pods"),
            ("/api/v1/namespaces", "v1", "", "namespaces"),
            ("/api/v1/namespaces/a/pods", "v1", "a", "pods"),
            (
                "/apis/apps/v1/deployments?watch=1",
                "apps/v1",
                "",
                "deployments",
            ),
            ("/apis/a.b/v1/namespaces/c/ds", "a.b/v1", "c", "ds"),
        ] {
            let target = wanted(path).unwrap().target;
            assert_eq!(target.api_version, api_version, "{path}");
            assert_eq!(target.namespace, namespace, "{path}");
            assert_eq!(target.plural, plural, "{path}");
        }
        for path in [
            "/",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "/api/v1/namespaces/a",
            "/healthz",
            "/api/v1/namespaces/a/pods/b",
            "/api/v1/pods/",
            "/api/v1/namespaces//pods",
            "/apis/apps/v1/namespaces/a/deployments/b/status",
        ] {
            assert_eq!(wanted(path).unwrap_err(), 404, "{path}");
        }
        let put = Request::put("/api/v1/namespaces/a/pods/b")
            .body(())
            .unwrap();
        assert_eq!(Wanted::read(&put).unwrap_err().code(), 405);
    }

    #[test]
    fn parameters_are_read_as_the_api_server_reads_them() {
        let plain = wanted("/api/v1/pods?watch=0&resourceVersion=7").unwrap();
        assert!(plain.watch.is_none());
        let uri = "/api/v1/pods?watch=1&resourceVersion=7&labelSelector=a%3Db%2C%21c&allowWatchBookmarks=true\
                   &timeoutSeconds=300&fieldSelector=metadata.name%3Dx";
        let all = wanted(uri).unwrap();
        assert_eq!(all.target.label_selector, "a=b,!c");
        assert_eq!(all.target.field_selector, "metadata.name=x");
        let watch = all.watch.unwrap();
        assert_eq!((&*watch.version, watch.bookmarks), ("7", true));
        assert_eq!(watch.timeout, Some(Duration::from_secs(300)));
        assert!(!watch.initial_events);
        assert_eq!(
            wanted("/api/v1/pods?labelSelector=a%3D%3D%3D").unwrap_err(),
            400
        );
        assert_eq!(wanted("/api/v1/pods?timeoutSeconds=x").unwrap_err(), 400);
    }

    // behaviour: supervision/FD10
    #[test]
    fn the_form_follows_the_first_acceptable_encoding() {
        let form_of = |accept: &str| {
            let request = Request::get("/").header(ACCEPT, accept).body(()).unwrap();
            form(&request).map_err(|failure| failure.code())
        };
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(form_of("application/json"), Ok(Form::Whole));
        assert_eq!(form_of("*/*"), Ok(Form::Whole));
        assert_eq!(form_of(metadata), Ok(Form::Metadata));
        assert_eq!(
            form_of(&format!("{metadata},application/json")),
            Ok(Form::Metadata)
        );
        assert_eq!(
            form_of("application/json;as=Table;v=v1;g=meta.k8s.io, application/json"),
            Ok(Form::Whole)
        );
        assert_eq!(
            form_of("application/vnd.kubernetes.protobuf,application/json"),
            Ok(Form::Whole)
        );
        assert_eq!(form_of("application/vnd.kubernetes.protobuf"), Err(406));
    }
}
