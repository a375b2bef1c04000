//! Requirements of labels, as Python passes them.

use std::collections::BTreeSet;

use ctrlhost_core::handlers::LabelRequirement;

/// Requirements of labels: key, values or None, negated.
pub(crate) type Labels = Vec<(String, Option<BTreeSet<String>>, bool)>;

pub(crate) fn requirements(labels: Labels) -> Vec<LabelRequirement> {
    let requirement = |(key, values, negated)| LabelRequirement {
        key,
        values,
        negated,
    };
    labels.into_iter().map(requirement).collect()
}
