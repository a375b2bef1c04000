//! Label and field selectors in the text form of requests, as the API server reads them.

use std::collections::{BTreeSet, VecDeque};

use crate::handlers::{LabelRequirement, Labels};
use crate::object::Object;

/// The text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

/// Conditions on an object, all of which have to be met. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Label(LabelRequirement),
    /// The label is an integer above or below the limit.
    Number {
        key: String,
        above: bool,
        limit: i64,
    },
    Field {
        field: Field,
        value: String,
        negated: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
}

impl Selector {
    /// Parse a label selector, such as `a=b,c in (d,e),!f,g>1`.
    ///
    /// # Errors
    /// The text is not a label selector.
    pub fn labels(text: &str) -> Result<Self, SelectorError> {
        let mut tokens = Tokens::new(text);
        let mut conditions = Vec::new();
        while !tokens.is_empty() {
            conditions.push(tokens.condition()?);
            match tokens.next() {
                None => break,
                // After a comma a further condition is required.
                Some(",") if !tokens.is_empty() => {}
                _ => return Err(tokens.invalid()),
            }
        }
        Ok(Self(conditions))
    }

    /// Parse a field selector of names and namespaces; None if it has another field, which only the API server can
    /// evaluate.
    pub fn fields(text: &str) -> Option<Self> {
        let terms = text.split(',').filter(|term| !term.trim().is_empty());
        let condition = |term: &str| {
            let (field, value) = term.split_once('=')?;
            let (field, negated) = match field.strip_suffix('!') {
                Some(field) => (field, true),
                None => (field, false),
            };
            let value = if negated {
                value
            } else {
                value.strip_prefix('=').unwrap_or(value)
            };
            let field = match field.trim() {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                _ => return None,
            };
            let value = value.trim().to_owned();
            Some(Condition::Field {
                field,
                value,
                negated,
            })
        };
        terms.map(condition).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Add the conditions of another selector.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Return whether the object meets all conditions.
    pub fn selects(&self, object: &Object) -> bool {
        let labels = Labels::of(object, self.0.len());
        let mut conditions = self.0.iter();
        conditions.all(|condition| condition.is_met_by(object, &labels))
    }
}

impl Condition {
    fn is_met_by(&self, object: &Object, labels: &Labels<'_>) -> bool {
        match self {
            Self::Label(requirement) => requirement.is_met_by(labels),
            Self::Number { key, above, limit } => {
                let value = labels.get(key).and_then(|value| value.parse().ok());
                value.is_some_and(|value: i64| {
                    if *above {
                        value > *limit
                    } else {
                        value < *limit
                    }
                })
            }
            Self::Field {
                field,
                value,
                negated,
            } => {
                let actual = match field {
                    Field::Name => object.name(),
                    Field::Namespace => object.namespace(),
                };
                (actual == value) != *negated
            }
        }
    }
}

/// The words and operators of a label selector.
struct Tokens<'a> {
    text: &'a str,
    rest: VecDeque<&'a str>,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        let mut rest = VecDeque::new();
        let mut left = text.trim_start();
        while let Some(first) = left.chars().next() {
            let len = match first {
                '=' | '!' if left[1..].starts_with('=') => 2,
                _ if is_operator(first) => 1,
                _ => left
                    .find(|letter: char| letter.is_ascii_whitespace() || is_operator(letter))
                    .unwrap_or(left.len()),
            };
            let (token, after) = left.split_at(len);
            rest.push_back(token);
            left = after.trim_start();
        }
        Self { text, rest }
    }

    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn next(&mut self) -> Option<&'a str> {
        self.rest.pop_front()
    }

    fn next_is(&self, wanted: &[&str]) -> bool {
        self.rest.front().is_some_and(|next| wanted.contains(next))
    }

    fn invalid(&self) -> SelectorError {
        SelectorError(format!(
            "unable to parse requirement: {:?} is not a label selector",
            self.text
        ))
    }

    fn condition(&mut self) -> Result<Condition, SelectorError> {
        let absent = self.next_is(&["!"]);
        if absent {
            self.next();
        }
        let key = self.key()?;
        let label = |key, values, negated| {
            Condition::Label(LabelRequirement {
                key,
                values,
                negated,
            })
        };
        if absent || self.is_empty() || self.next_is(&[","]) {
            return Ok(label(key, None, absent));
        }
        match self.next() {
            Some(operator @ ("=" | "==" | "!=")) => {
                let value = self.value()?;
                Ok(label(key, Some([value].into()), operator == "!="))
            }
            Some(operator @ ("in" | "notin")) => {
                let values = self.values()?;
                Ok(label(key, Some(values), operator == "notin"))
            }
            Some(operator @ (">" | "<")) => {
                let limit = self.next().and_then(|limit| limit.parse().ok());
                Ok(Condition::Number {
                    key,
                    above: operator == ">",
                    limit: limit.ok_or_else(|| self.invalid())?,
                })
            }
            _ => Err(self.invalid()),
        }
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let key = self.next().unwrap_or_default();
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key),
        };
        let valid = !name.is_empty() && is_value(name) && prefix.is_none_or(is_subdomain);
        if valid {
            Ok(key.to_owned())
        } else {
            Err(self.invalid())
        }
    }

    /// Return the value that comes next; empty at the end and before a comma or parenthesis.
    fn value(&mut self) -> Result<String, SelectorError> {
        if self.is_empty() || self.next_is(&[",", ")"]) {
            return Ok(String::new());
        }
        match self.next() {
            Some(value) if is_value(value) => Ok(value.to_owned()),
            _ => Err(self.invalid()),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        if self.next() != Some("(") {
            return Err(self.invalid());
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.next() {
                Some(")") => return Ok(values),
                Some(",") => {}
                _ => return Err(self.invalid()),
            }
        }
    }
}

fn is_operator(letter: char) -> bool {
    "=!,()<>".contains(letter)
}

/// Return whether this is a valid value of a label; empty is one.
fn is_value(text: &str) -> bool {
    let ends = |text: &str| {
        let outer = [text.bytes().next(), text.bytes().last()];
        let mut outer = outer.into_iter().flatten();
        outer.all(|byte| byte.is_ascii_alphanumeric())
    };
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 63 && ends(text) && text.bytes().all(inner)
}

fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| !label.is_empty() && is_value(label) && !label.contains('_');
    text.len() <= 253
        && text.split('.').all(label)
        && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &str) -> bool {
        let object =
            crate::handlers::pod(&format!(r#""name":"a","namespace":"x","labels":{labels}"#));
        let selector = Selector::labels(selector).expect("a selector");
        selector.selects(&object)
    }

    // behaviour: supervision/FD8
    #[test]
    fn label_selectors_are_read_as_the_api_server_reads_them() {
        let labels = r#"{"app":"web","n":"12","empty":"","example.com/a":"b"}"#;
        for selector in [
            "",
            "  ",
            "app",
            "app=web",
            "app == web",
            "app!=db",
            "gone!=db",
            "!gone",
            "! gone",
            "app in (web, db)",
            "app in(db,web)",
            "gone notin (a)",
            "app notin (db,)",
            "n>11",
            "n < 13",
            "empty=",
            "empty in ()",
            "empty in (,x)",
            "example.com/a=b,app=web",
            "app=web, n>11 ,!gone",
            "empty==,app",
        ] {
            assert!(selects(selector, labels), "{selector}");
        }
        for selector in [
            "gone",
            "!app",
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web)",
            "n>12",
            "n<12",
            "app>1",
            "gone<5",
            "app=",
            "app=web,gone",
            "app in ()",
        ] {
            assert!(!selects(selector, labels), "{selector}");
        }
    }

    // behaviour: supervision/FD8
    #[test]
    fn what_is_no_label_selector_is_refused() {
        for text in [
            ",",
            "a,",
            "a,,b",
            "a b",
            "=",
            "a=b c",
            "a in b",
            "a in (b",
            "a in (b c)",
            "a=-b",
            "a>x",
            "a>",
            "-a",
            "A_/b",
            "/b",
            "a/",
            "a=b=c",
            "!",
            "!a=b",
            "a=b)",
            "a/b/c",
        ] {
            assert!(Selector::labels(text).is_err(), "{text}");
        }
        assert!(Selector::labels(&format!("a={}", "b".repeat(64))).is_err());
    }

    // behaviour: supervision/FD8
    #[test]
    fn fields_other_than_name_and_namespace_are_left_to_the_server() {
        let object = crate::handlers::pod(r#""name":"a","namespace":"x""#);
        let selects = |text| Some(Selector::fields(text)?.selects(&object));
        assert_eq!(selects(""), Some(true));
        assert_eq!(selects("metadata.name=a"), Some(true));
        assert_eq!(selects("metadata.name==b"), Some(false));
        assert_eq!(selects("metadata.name!=b,metadata.namespace=x"), Some(true));
        assert_eq!(
            selects("metadata.name=a,metadata.namespace!=x"),
            Some(false)
        );
        assert_eq!(selects("spec.nodeName=a"), None);
        assert_eq!(selects("metadata.name=a,status.phase=b"), None);
        assert_eq!(selects("metadata.name"), None);
    }
}
