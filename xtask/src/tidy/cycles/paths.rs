//! The paths of a source file that may lead to a module of its crate, read off its tokens.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Ident, LexError, TokenStream, TokenTree};

/// A path, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// The module in which it is written.
    pub(super) within: Vec<String>,
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

impl Path {
    fn new(within: &[String], segments: Vec<String>, line: usize) -> Self {
        let within = within.to_vec();
        Self { within, segments, line }
    }

    /// Whether it begins with a name, which may be a child's.
    pub(super) fn is_bare(&self) -> bool {
        !matches!(self.segments[0].as_str(), "crate" | "self" | "super")
    }

    /// The module at which it begins, and the names after that; none if it would begin above the crate.
    pub(super) fn start(&self) -> Option<(Vec<String>, &[String])> {
        let mut module = self.within.clone();
        let mut rest = self.segments.as_slice();
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()?),
                _ => break,
            }
            rest = others;
        }
        Some((module, rest))
    }
}

/// A name that a `use` brings into a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Path,
    /// The name in the module; none for `*`.
    pub(super) name: Option<String>,
    /// Whether the module passes the name on.
    pub(super) is_public: bool,
}

/// The paths that a file refers to.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Those of more than one segment outside of `use`.
    pub(super) paths: Vec<Path>,
    pub(super) imports: Vec<Import>,
    /// The names of items that a module defines: module and name.
    pub(super) defined: BTreeSet<(Vec<String>, String)>,
    /// The names that occur in a module outside of `use`: module and name.
    pub(super) named: BTreeSet<(Vec<String>, String)>,
    /// The module that the file is, and those written out in it.
    pub(super) modules: Vec<Vec<String>>,
    /// Modules that are for tests alone.
    pub(super) tests: BTreeSet<Vec<String>>,
    /// First and last line of each item for tests.
    pub(super) test_lines: Vec<(usize, usize)>,
}

impl Source {
    pub(super) fn parse(module: &[String], text: &str) -> Result<Self, LexError> {
        let tokens: TokenStream = text.parse()?;
        let mut source = Self::default();
        source.modules.push(module.to_vec());
        source.read(module, tokens);
        Ok(source)
    }

    fn read(&mut self, module: &[String], tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += if is_for_tests(rest) {
                self.skip(module, rest)
            } else {
                self.step(module, rest)
            };
        }
    }

    /// Leaves out an item for tests; returns how many tokens it has.
    fn skip(&mut self, module: &[String], rest: &[TokenTree]) -> usize {
        let is_end = |token: &TokenTree| match token {
            TokenTree::Punct(punct) => punct.as_char() == ';' || punct.as_char() == ',',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        let length = rest.iter().position(is_end).map_or(rest.len(), |end| end + 1);
        if let (Some(first), Some(last)) = (rest.first(), rest[..length].last()) {
            let lines = (first.span().start().line, last.span().end().line);
            self.test_lines.push(lines);
        }
        let is_mod = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "mod");
        if let Some(place) = rest[..length].iter().position(is_mod)
            && let Some(TokenTree::Ident(name)) = rest.get(place + 1)
        {
            self.tests.insert(child(module, name));
        }
        length
    }

    /// Takes in what stands at the front; returns how many tokens that was.
    fn step(&mut self, module: &[String], rest: &[TokenTree]) -> usize {
        match rest {
            [TokenTree::Ident(word), ..] if word == "pub" => {
                let scope = matches!(rest.get(1), Some(TokenTree::Group(group)) if is_round(group));
                let length = if scope { 2 } else { 1 };
                length + self.uses(module, &rest[length..], true)
            }
            [
                TokenTree::Ident(word),
                TokenTree::Ident(name),
                TokenTree::Group(group),
                ..,
            ] if word == "mod" => {
                let inner = child(module, name);
                self.modules.push(inner.clone());
                self.read(&inner, group.stream());
                3
            }
            [TokenTree::Ident(word), ..] if word == "use" => self.uses(module, rest, false),
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if DEFINES.iter().any(|one| word == one) => {
                self.defined.insert((module.to_vec(), name.to_string()));
                2
            }
            [TokenTree::Group(group), ..] => {
                self.read(module, group.stream());
                1
            }
            // `::name` is another crate's, `.name::<T>()` a method.
            [one, two, TokenTree::Ident(_), ..] if is_punct(one, ':') && is_punct(two, ':') => 2 + path(&rest[2..]).1,
            [one, TokenTree::Ident(_), ..] if is_punct(one, '.') => 2,
            [TokenTree::Ident(first), ..] => {
                let (segments, length) = path(rest);
                if is_use(&segments, &rest[length..]) {
                    self.named.insert((module.to_vec(), first.to_string()));
                }
                if segments.len() > 1 {
                    self.paths.push(Path::new(module, segments, first.span().start().line));
                }
                length
            }
            _ => 1,
        }
    }

    /// Takes in the `use` at the front; returns how many tokens it has, 0 if there is none.
    fn uses(&mut self, module: &[String], rest: &[TokenTree], is_public: bool) -> usize {
        if !matches!(rest.first(), Some(TokenTree::Ident(word)) if word == "use") {
            return 0;
        }
        let length = rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len());
        self.tree(module, &[], &rest[1..length], is_public);
        length + 1
    }

    /// Takes in what a `use` names below a path.
    fn tree(&mut self, module: &[String], above: &[String], tokens: &[TokenTree], is_public: bool) {
        let branches = tokens.split(|token| is_punct(token, ','));
        for branch in branches.filter(|branch| !branch.is_empty()) {
            let (segments, length) = path(branch);
            let mut whole: Vec<String> = above.iter().cloned().chain(segments).collect();
            let group = branch[length - 1..].iter().find_map(|token| match token {
                TokenTree::Group(group) => Some(group.stream().into_iter().collect::<Vec<_>>()),
                _ => None,
            });
            if let Some(inner) = group {
                self.tree(module, &whole, &inner, is_public);
                continue;
            }
            let last = branch.last().filter(|_| !whole.is_empty());
            // `{self}` names the module above it.
            if whole.len() > 1 && whole.last().is_some_and(|last| last == "self") {
                whole.pop();
            }
            let name = match last {
                Some(TokenTree::Ident(name)) if name == "self" => whole.last().cloned(),
                Some(TokenTree::Ident(name)) => Some(name.to_string()),
                Some(star) if is_punct(star, '*') => None,
                _ => continue,
            };
            let line = branch[0].span().start().line;
            self.imports.push(Import {
                path: Path::new(module, whole, line),
                name,
                is_public,
            });
        }
    }
}

/// The words before the name of an item.
const DEFINES: [&str; 8] = ["struct", "enum", "union", "trait", "type", "fn", "const", "static"];

fn child(module: &[String], name: &Ident) -> Vec<String> {
    module.iter().cloned().chain([name.to_string()]).collect()
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_round(group: &proc_macro2::Group) -> bool {
    group.delimiter() == Delimiter::Parenthesis
}

/// Whether `#[cfg(test)]` or one of its kind begins here, or `#[test]`.
fn is_for_tests(rest: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = rest else {
        return false;
    };
    let text = group.stream().to_string();
    let words: Vec<&str> = text
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .collect();
    is_punct(hash, '#') && words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not")
}

/// Whether a path is more than a variable or a field: a type, a constant, something that is called or longer than a name.
fn is_use(segments: &[String], after: &[TokenTree]) -> bool {
    let is_called = matches!(after.first(), Some(TokenTree::Group(group)) if is_round(group));
    is_called || segments.len() > 1 || segments[0].starts_with(char::is_uppercase)
}

/// The names of the path at the front, joined by `::`, and how many tokens they take with the last `::`.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut segments, mut at) = (Vec::new(), 0);
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        segments.push(name.to_string());
        at += 1;
        match tokens.get(at..at + 2) {
            Some([one, two]) if is_punct(one, ':') && is_punct(two, ':') => at += 2,
            _ => break,
        }
    }
    (segments, at.max(1))
}
