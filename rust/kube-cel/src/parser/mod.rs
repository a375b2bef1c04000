//! From tokens to expressions, by precedence.

use crate::ast::{Ast, Binary, Expr, Id, Node};
use crate::error::CompileError;
use lexer::{Spanned, Token, tokens};

mod lexer;
mod macros;
mod primaries;

pub(crate) use lexer::is_reserved;

/// The maximum length of a rule in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The maximum nesting of expressions, which bounds the stack of everything that recurses over them.
const MAX_DEPTH: usize = 160;

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

/// Parse a rule.
pub(crate) fn parse(text: &str) -> Result<Ast, CompileError> {
    if text.len() > MAX_TEXT {
        return Err(CompileError::at(
            0,
            format!("the expression is longer than {MAX_TEXT} bytes"),
        ));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        open: 0,
        nodes: Vec::new(),
    };
    let root = parser.expression()?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected("the end"));
    }
    Ok(Ast {
        nodes: parser.nodes,
        root,
    })
}

pub(crate) struct Parser {
    pub(crate) tokens: Vec<Spanned>,
    pub(crate) next: usize,
    /// Running calls of [`Parser::expression`].
    open: usize,
    nodes: Vec<Node>,
}

pub(crate) type Parsed = Result<Id, CompileError>;

impl Parser {
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

    pub(crate) fn accept(&mut self, sign: &str) -> bool {
        let matches = self.is(sign);
        self.next += usize::from(matches);
        matches
    }

    pub(crate) fn expect(&mut self, sign: &str) -> Result<(), CompileError> {
        if self.accept(sign) {
            return Ok(());
        }
        if *self.peek() == Token::End {
            let why = format!("Syntax error: missing '{sign}' at '<EOF>'");
            return Err(CompileError::at(self.at(), why));
        }
        Err(self.unexpected(&format!("'{sign}'")))
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> CompileError {
        let token = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Ident(text) | Token::Int(text) | Token::Uint(text) | Token::Double(text) => {
                text.clone()
            }
            Token::Quoted(text) => format!("`{text}`"),
            Token::Text(_) | Token::Bytes(_) => "a string".to_owned(),
            Token::Sign(sign) => (*sign).to_owned(),
        };
        CompileError::at(
            self.at(),
            format!("Syntax error: mismatched input '{token}' expecting {wanted}"),
        )
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
        if depth > MAX_DEPTH {
            return Err(CompileError::at(
                at,
                format!("expression recursion limit exceeded: {MAX_DEPTH}"),
            ));
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
        if self.open > MAX_DEPTH {
            let why = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            return Err(CompileError::at(self.at(), why));
        }
        Ok(())
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
