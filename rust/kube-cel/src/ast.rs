//! Expressions from the parser: nodes in one vector, so that neither depth nor size costs stack when they are
//! dropped.

use crate::value::Value;

/// The place of a node in [`Ast::nodes`].
pub(crate) type Id = usize;

/// One expression and its place in the text.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) expr: Expr,
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// The number of nodes on the longest way down, including this one.
    pub(crate) depth: usize,
}

/// A parsed text.
#[derive(Debug, Default)]
pub(crate) struct Ast {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: Id,
}

/// Binary operators, except `&&` and `||`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Binary {
    /// Return the name of the operator in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "_==_",
            Self::NotEqual => "_!=_",
            Self::Less => "_<_",
            Self::LessEqual => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEqual => "_>=_",
            Self::In => "@in",
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
        }
    }
}

/// The macros that iterate over a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Value),
    Ident(String),
    /// `of.field`; `test` for `has(of.field)`, `optional` for `of.?field`.
    Select {
        of: Id,
        field: String,
        test: bool,
        optional: bool,
    },
    /// `of[index]`; the flag marks `of[?index]`.
    Index(Id, Id, bool),
    /// Function, receiver, arguments.
    Call(String, Option<Id>, Vec<Id>),
    Not(Id),
    Negate(Id),
    Binary(Binary, Id, Id),
    /// Two or more, joined by `&&`.
    And(Vec<Id>),
    /// Two or more, joined by `||`.
    Or(Vec<Id>),
    Ternary(Id, Id, Id),
    /// The elements; the flag marks `?element`.
    List(Vec<(Id, bool)>),
    Map(Vec<(Id, Id, bool)>),
    Fold(Box<Comprehension>),
    /// `Name{field: value}`
    Message(String, Vec<Field>),
    /// `of.optMap(var, body)`; `flat` for `optFlatMap`.
    OptMap {
        flat: bool,
        of: Id,
        var: String,
        body: Id,
    },
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: Id,
    /// `?field: value`
    pub(crate) optional: bool,
    /// Byte offset of the colon.
    pub(crate) at: usize,
}

/// A macro that iterates over a list or a map.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub(crate) fold: Fold,
    pub(crate) over: Id,
    pub(crate) var: String,
    /// The second variable, for macros with key (or index) and value.
    pub(crate) second: Option<String>,
    pub(crate) filter: Option<Id>,
    pub(crate) body: Id,
}
