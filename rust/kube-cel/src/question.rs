//! Questions to the authorizer, its answers, and the values in between.

use std::sync::Arc;

/// What the functions of the authorizer take and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authz {
    Authorizer,
    PathCheck,
    GroupCheck,
    ResourceCheck,
    Decision,
}

impl Authz {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::PathCheck => "kubernetes.authorization.PathCheck",
            Self::GroupCheck => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Self::Decision => "kubernetes.authorization.Decision",
        }
    }
}

/// A question to the authorizer, as far as an expression has stated it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of the account; the user of the request if it is None.
    pub account: Option<(String, String)>,
    /// The path; empty for a resource.
    pub path: String,
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The plural name of the resource; empty for a path.
    pub resource: String,
    /// The sub-resource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// An answer of the authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it allows the request.
    pub allowed: bool,
    /// The reason.
    pub reason: String,
}

/// A value of the authorizer.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// The authorizer for the user of the question, with the resource of the request.
    Authorizer(Question, Arc<Question>),
    Path(Question),
    Group(Question),
    Resource(Question),
    Decision(Decision),
}

impl Check {
    pub(crate) fn type_of(&self) -> Authz {
        match self {
            Self::Authorizer(..) => Authz::Authorizer,
            Self::Path(_) => Authz::PathCheck,
            Self::Group(_) => Authz::GroupCheck,
            Self::Resource(_) => Authz::ResourceCheck,
            Self::Decision(_) => Authz::Decision,
        }
    }

    /// Return the check of the request's own resource.
    pub(crate) fn request_resource(&self) -> Option<Self> {
        match self {
            Self::Authorizer(_, own) => Some(Self::Resource((**own).clone())),
            _ => None,
        }
    }
}
