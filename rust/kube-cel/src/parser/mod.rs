//! From tokens to expressions, by precedence.

use crate::ast::{Ast, Binary, Expr, Id, Node};
use crate::error::CompileError;
use lexer::{Spanned, Token, tokens};

mod lexer;
mod macros;
mod primaries;
mod wanted;

pub(crate) use lexer::is_reserved;
use wanted::Wanted;

/// The maximum length of a rule in bytes.
const MAX_TEXT: usize = 64 << 10;

/// Binary operators by precedence, the weakest first.
const LEVELS: [&[(&str, Binary)]; 3] = [
    &[
        ("==", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("<", Binary::Less),
        ("<=", Binary::LessEqual),
        (">", Binary::Greater),
        (">=", Binary::GreaterEqual),
        ("in", Binary::In),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[
        ("*", Binary::Multiply),
        ("/", Binary::Divide),
        ("%", Binary::Modulo),
    ],
];

/// What the parser knows beside the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The macros, optionals and names of Kubernetes' rules.
    Rules,
    /// Nothing.
    Plain,
}

impl Dialect {
    /// Return the maximum nesting of expressions, which bounds the stack of everything that recurses over them.
    fn max_depth(self) -> usize {
        match self {
            Self::Rules => 160,
            Self::Plain => 250,
        }
    }
}

/// Parse a rule.
pub(crate) fn parse(text: &str) -> Result<Ast, CompileError> {
    parse_as(Dialect::Rules, text)
}

/// Parse an expression in a dialect.
pub(crate) fn parse_as(dialect: Dialect, text: &str) -> Result<Ast, CompileError> {
    if text.len() > MAX_TEXT {
        return Err(CompileError::at(
            0,
            format!("the expression is longer than {MAX_TEXT} bytes"),
        ));
    }
    let mut parser = Parser {
        dialect,
        text,
        tokens: tokens(text)?,
        closers: Vec::new(),
        opened: (usize::MAX, &[]),
        next: 0,
        open: 0,
        nodes: Vec::new(),
    };
    let root = parser.expression()?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected(Wanted::Tokens(&["<EOF>"])));
    }
    Ok(Ast {
        nodes: parser.nodes,
        root,
    })
}

pub(crate) struct Parser<'a> {
    pub(crate) dialect: Dialect,
    text: &'a str,
    /// What closes the brackets that are open.
    closers: Vec<&'static str>,
    /// A token behind a bracket that was opened, and what it may be besides the beginning of an expression.
    opened: (usize, &'static [&'static str]),
    pub(crate) tokens: Vec<Spanned>,
    pub(crate) next: usize,
    /// Running calls of [`Parser::expression`].
    open: usize,
    nodes: Vec<Node>,
}

pub(crate) type Parsed = Result<Id, CompileError>;

impl Parser<'_> {
    pub(crate) fn peek(&self) -> &Token {
        self.tokens
            .get(self.next)
            .map_or(&Token::End, |spanned| &spanned.token)
    }

    pub(crate) fn at(&self) -> usize {
        self.tokens
            .get(self.next)
            .or_else(|| self.tokens.last())
            .map_or(0, |spanned| spanned.at)
    }

    pub(crate) fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    /// Accept the question mark of optionals, which a plain expression must not have.
    pub(crate) fn optional(&mut self, syntax: &str) -> Result<bool, CompileError> {
        let at = self.at();
        let optional = self.accept("?");
        if optional && self.dialect == Dialect::Plain {
            return Err(CompileError::at(
                at,
                format!("unsupported syntax '{syntax}'"),
            ));
        }
        Ok(optional)
    }

    pub(crate) fn accept(&mut self, sign: &str) -> bool {
        let matches = self.is(sign);
        self.next += usize::from(matches);
        matches
    }

    /// Expect what closes a bracket or, for a colon, what separates two expressions.
    pub(crate) fn expect(&mut self, sign: &'static str) -> Result<(), CompileError> {
        if self.accept(sign) {
            return Ok(());
        }
        let wanted = Wanted::Tokens(match sign {
            ")" => &[")"],
            "]" => &["]"],
            "}" => &["}"],
            _ => &[":"],
        });
        let found = self.token(self.next);
        let fits = match sign {
            ":" => found.is_some_and(|found| Wanted::Expression(&[]).admits(found)),
            _ => match self.closers.last() {
                None => found.is_none(),
                Some(closer) => self.is(closer),
            },
        };
        if fits && !self.is_followed_by(wanted) {
            let why = format!("Syntax error: missing '{sign}' at '{}'", self.shown());
            return Err(CompileError::at(self.at(), why));
        }
        Err(self.unexpected(wanted))
    }

    /// Open a bracket: return what is read inside, up to where it should be closed.
    pub(crate) fn inside<T>(
        &mut self,
        closer: &'static str,
        first: &'static [&'static str],
        read: impl FnOnce(&mut Self) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        self.closers.push(closer);
        self.opened = (self.next, first);
        let value = read(self)?;
        self.closers.pop();
        Ok(value)
    }

    /// Return the error for a token that is not a beginning of an expression.
    pub(crate) fn no_expression(&self) -> CompileError {
        let (behind, more) = self.opened;
        self.unexpected(Wanted::Expression(if behind == self.next {
            more
        } else {
            &[]
        }))
    }

    pub(crate) fn unexpected(&self, wanted: Wanted) -> CompileError {
        let kind = if self.is_followed_by(wanted) {
            "extraneous"
        } else {
            "mismatched"
        };
        let token = self.shown();
        CompileError::at(
            self.at(),
            format!("Syntax error: {kind} input '{token}' expecting {wanted}"),
        )
    }

    /// Return whether there is a token here, and the next one is as wanted.
    fn is_followed_by(&self, wanted: Wanted) -> bool {
        self.token(self.next).is_some() && wanted.admits_end_or(self.token(self.next + 1))
    }

    /// Return a token, None for the end.
    fn token(&self, place: usize) -> Option<&Token> {
        let token = self.tokens.get(place).map(|spanned| &spanned.token);
        token.filter(|token| **token != Token::End)
    }

    /// Return the text of the token here.
    pub(crate) fn shown(&self) -> &str {
        match self.tokens.get(self.next) {
            Some(Spanned { at, end, .. }) if at < end => {
                self.text.get(*at..*end).unwrap_or_default()
            }
            _ => "<EOF>",
        }
    }

    /// Add a node; an error if it is nested too deep.
    pub(crate) fn add(&mut self, at: usize, expr: Expr) -> Parsed {
        let mut depth = 0;
        let mut below = |id: Id| depth = depth.max(self.nodes.get(id).map_or(0, |node| node.depth));
        match &expr {
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select { of, .. } | Expr::Not(of) | Expr::Negate(of) => below(*of),
            Expr::Index(of, index, _) => [*of, *index].into_iter().for_each(below),
            Expr::Call(_, target, args) => target.iter().chain(args).copied().for_each(below),
            Expr::Binary(_, left, right) => [*left, *right].into_iter().for_each(below),
            Expr::And(parts) | Expr::Or(parts) => parts.iter().copied().for_each(below),
            Expr::Ternary(a, b, c) => [*a, *b, *c].into_iter().for_each(below),
            Expr::List(items) => items.iter().map(|(id, _)| *id).for_each(below),
            Expr::Map(entries) => entries
                .iter()
                .flat_map(|(key, value, _)| [*key, *value])
                .for_each(below),
            Expr::Message(_, fields) => fields.iter().map(|field| field.value).for_each(below),
            Expr::Fold(fold) => [Some(fold.over), fold.filter, Some(fold.body)]
                .into_iter()
                .flatten()
                .for_each(below),
            Expr::OptMap { of, body, .. } => [*of, *body].into_iter().for_each(below),
        }
        depth += 1;
        if depth > self.dialect.max_depth() {
            return Err(match self.dialect {
                Dialect::Rules => self.too_deep(at),
                Dialect::Plain => CompileError::at(at, "max recursion depth exceeded".to_owned()),
            });
        }
        self.nodes.push(Node { expr, at, depth });
        Ok(self.nodes.len() - 1)
    }

    pub(crate) fn expr(&self, id: Id) -> Option<&Expr> {
        self.nodes.get(id).map(|node| &node.expr)
    }

    pub(crate) fn place(&self, id: Id) -> usize {
        self.nodes.get(id).map_or(0, |node| node.at)
    }

    fn enter(&mut self) -> Result<(), CompileError> {
        self.open += 1;
        if self.open > self.dialect.max_depth() {
            return Err(self.too_deep(self.at()));
        }
        Ok(())
    }

    fn too_deep(&self, at: usize) -> CompileError {
        let most = self.dialect.max_depth();
        CompileError::at(at, format!("expression recursion limit exceeded: {most}"))
    }

    pub(crate) fn expression(&mut self) -> Parsed {
        self.enter()?;
        let condition = self.chain("||")?;
        let at = self.at();
        let expr = if self.accept("?") {
            let yes = self.chain("||")?;
            self.expect(":")?;
            let no = self.expression()?;
            self.add(at, Expr::Ternary(condition, yes, no))?
        } else {
            condition
        };
        self.open -= 1;
        Ok(expr)
    }

    fn chain(&mut self, sign: &str) -> Parsed {
        let first = self.link(sign)?;
        let at = self.at();
        let mut parts = vec![first];
        while self.accept(sign) {
            parts.push(self.link(sign)?);
        }
        match parts.len() {
            1 => Ok(first),
            _ if sign == "||" => self.add(at, Expr::Or(parts)),
            _ => self.add(at, Expr::And(parts)),
        }
    }

    fn link(&mut self, sign: &str) -> Parsed {
        if sign == "||" {
            self.chain("&&")
        } else {
            self.binary(0)
        }
    }

    /// Parse the operators of a level of [`LEVELS`] and of those that bind tighter.
    fn binary(&mut self, level: usize) -> Parsed {
        let operand = |parser: &mut Self| match level + 1 {
            next if next < LEVELS.len() => parser.binary(next),
            _ => parser.unary(),
        };
        let mut left = operand(self)?;
        loop {
            let at = self.at();
            let written = match self.peek() {
                Token::Sign(sign) => sign,
                Token::Ident(name) => name.as_str(),
                _ => return Ok(left),
            };
            let Some((_, operator)) = LEVELS[level].iter().find(|(sign, _)| *sign == written)
            else {
                return Ok(left);
            };
            self.next += 1;
            let right = operand(self)?;
            left = self.add(at, Expr::Binary(*operator, left, right))?;
        }
    }

    pub(crate) fn unary(&mut self) -> Parsed {
        let at = self.at();
        let sign = match self.peek() {
            Token::Sign(sign @ ("!" | "-")) => *sign,
            _ => return self.member(),
        };
        let mut count = 0;
        while self.accept(sign) {
            count += 1;
        }
        if sign == "-" && matches!(self.peek(), Token::Int(_) | Token::Double(_)) {
            // The sign belongs to the literal, so that the smallest integer can be written.
            let operand = self.literal(true)?;
            let operand = self.member_of(operand)?;
            return if count % 2 == 0 {
                self.add(at, Expr::Negate(operand))
            } else {
                Ok(operand)
            };
        }
        let operand = self.member()?;
        match (count % 2, sign) {
            (0, _) => Ok(operand),
            (_, "!") => self.add(at, Expr::Not(operand)),
            _ => self.add(at, Expr::Negate(operand)),
        }
    }
}
