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

/// The paths that a file refers to.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) paths: Vec<Path>,
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
            [TokenTree::Ident(word), TokenTree::Group(group), ..] if word == "pub" && is_round(group) => 2,
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
            [TokenTree::Ident(word), ..] if word == "use" => {
                let length = rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len());
                self.tree(module, &[], &rest[1..length]);
                length + 1
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
                if segments.len() > 1 {
                    self.add(module, segments, first);
                }
                length
            }
            _ => 1,
        }
    }

    fn add(&mut self, module: &[String], segments: Vec<String>, first: &Ident) {
        self.paths.push(Path {
            within: module.to_vec(),
            segments,
            line: first.span().start().line,
        });
    }

    /// Takes in what a `use` names below a path.
    fn tree(&mut self, module: &[String], above: &[String], tokens: &[TokenTree]) {
        let branches = tokens.split(|token| is_punct(token, ','));
        for branch in branches.filter(|branch| !branch.is_empty()) {
            let (segments, length) = path(branch);
            let whole: Vec<String> = above.iter().cloned().chain(segments).collect();
            let group = branch[length..].iter().find_map(|token| match token {
                TokenTree::Group(group) => Some(group.stream().into_iter().collect::<Vec<_>>()),
                _ => None,
            });
            match (group, branch.first()) {
                (Some(inner), _) => self.tree(module, &whole, &inner),
                (None, Some(TokenTree::Ident(first))) => self.add(module, whole, first),
                // `*` names everything of the path above.
                (None, Some(star)) if !above.is_empty() && is_punct(star, '*') => {
                    let line = star.span().start().line;
                    let within = module.to_vec();
                    self.paths.push(Path {
                        within,
                        segments: whole,
                        line,
                    });
                }
                _ => {}
            }
        }
    }
}

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
