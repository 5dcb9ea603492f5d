//! Errors of the command line, each with a tip: the command, option or variable that was probably meant.

use std::ffi::OsStr;

use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use weir_model::file::nearest;

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// The whole command line, with the variables of the environment that say something.
pub(crate) fn command() -> Command {
    without_empty(Cli::command(), &|name| {
        std::env::var_os(name).is_some_and(|value| value.is_empty())
    })
}

/// A variable that is set to nothing is none, as in shells and in programs of the field.
fn without_empty(command: Command, is_empty: &impl Fn(&OsStr) -> bool) -> Command {
    command
        .mut_args(|argument| match argument.get_env() {
            Some(name) if is_empty(name) => argument.env(Resettable::Reset),
            _ => argument,
        })
        .mut_subcommands(|below| without_empty(below, is_empty))
}

/// Prints an error of the command line itself, or the requested help.
pub(crate) fn tell(mut error: clap::Error) -> Exit {
    if !error.use_stderr() {
        let _gone = error.print();
        return Exit::Done;
    }
    // `args` would end the program at a word that is no text.
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let tip = improve(&mut error, &words);
    if words.iter().any(|word| word == "--json") {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let remedy = tip.unwrap_or_else(|| "see `weir --help`".to_owned());
        let failure = Failure::bad_input(anyhow::Error::msg(message.to_owned())).with_remedy(remedy);
        Output::new(String::new(), true, true).failure(&failure);
    } else {
        let _gone = error.print();
    }
    Exit::BadInput
}

/// Puts a better tip in the place of clap's, where there is one, and gives it.
fn improve(error: &mut clap::Error, words: &[String]) -> Option<String> {
    let mut root = command();
    // Every command learns its full name.
    root.build();
    let unknown = text(error, ContextKind::InvalidSubcommand);
    let level = reached(&root, words.iter().take_while(|word| unknown.as_ref() != Some(word)));
    // Clap shows options that variables of the environment set as if they had to be given.
    if error.get(ContextKind::Usage).is_some() {
        let usage = level.clone().render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            error.remove(ContextKind::SuggestedSubcommand);
            Some(instead(&root, level, &unknown?))
        }
        ErrorKind::UnknownArgument => match text(error, ContextKind::InvalidArg)?.as_str() {
            "--verbose" | "--debug" | "-v" => Some("`--log-level debug` says more".to_owned()),
            "--quiet" | "-q" => Some("`--log-level error` says less".to_owned()),
            argument if argument.starts_with('-') => {
                // "to pass '--x' as a value": no option has such values.
                error.remove(ContextKind::Suggested);
                None
            }
            _ => None,
        },
        ErrorKind::MissingRequiredArgument => variables(level, &text(error, ContextKind::InvalidArg)?),
        _ => None,
    }?;
    let styled = vec![StyledStr::from(tip.clone())];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(styled));
    Some(tip)
}

/// The context of an error, as text.
fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(" ")),
        _ => None,
    }
}

/// The command that the words lead to, options and their values left out.
fn reached<'a>(root: &'a Command, words: impl IntoIterator<Item = &'a String>) -> &'a Command {
    words
        .into_iter()
        .fold(root, |level, word| level.find_subcommand(word).unwrap_or(level))
}

/// The suggestion for an unknown command: the nearest here, else the nearest anywhere, else the list of those here.
fn instead(root: &Command, level: &Command, word: &str) -> String {
    let here: Vec<_> = level.get_subcommands().map(Command::get_name).collect();
    if let Some(name) = nearest(word, here.iter().copied()) {
        return format!("did you mean `{} {name}`?", level.get_bin_name().unwrap_or("weir"));
    }
    let mut all = Vec::new();
    gather(root, &mut all);
    if let Some(name) = nearest(word, all.iter().map(|command| command.get_name())) {
        let meant = all.iter().filter(|command| command.get_name() == name);
        let meant: Vec<_> = meant
            .filter_map(|command| Some(format!("`{}`", command.get_bin_name()?)))
            .collect();
        return format!("did you mean {}?", meant.join(" or "));
    }
    format!("commands: {}", here.join(", "))
}

fn gather<'a>(command: &'a Command, into: &mut Vec<&'a Command>) {
    // `weir help challenge run` is there beside `weir challenge run`.
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        into.push(below);
        gather(below, into);
    }
}

/// The environment variables for missing options.
fn variables(level: &Command, missing: &str) -> Option<String> {
    let arguments = level.get_arguments().filter(|argument| {
        let option = argument.get_long().map(|long| format!("--{long} "));
        option.is_some_and(|option| missing.contains(&option))
    });
    let said: Vec<String> = arguments
        .filter_map(|argument| {
            let (long, name) = (argument.get_long()?, argument.get_env()?.to_str()?);
            Some(format!("{name} in the environment says --{long} for all commands"))
        })
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(words: &[&str]) -> String {
        let mut error = command()
            .try_get_matches_from([&["weir"], words].concat())
            .expect_err("a command line with a mistake");
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        improve(&mut error, &words);
        error.to_string()
    }

    fn check(words: &[&str], expected: &str, unexpected: &str) {
        let text = error(words);
        assert!(text.contains(expected) && !text.contains(unexpected), "{text}");
    }

    /// Wrong: a typing error leads to a command that has nothing to do with it, or nowhere.
    #[test]
    fn a_mistyped_command_leads_to_the_one_that_was_meant() {
        check(
            &["challenge", "rnu"],
            "tip: did you mean `weir challenge run`?",
            "commands:",
        );
        check(&["chalenge", "run"], "tip: did you mean `weir challenge`?", "commands:");
        check(
            &["runs"],
            "`weir challenge run` or `weir sim run` or `weir incident run`?",
            "transfer",
        );
        let words = ["--log-level", "debug", "sim", "cmopare", "challenge"];
        check(&words, "did you mean `weir sim compare`?", "challenge");
        check(
            &["challenge", "zzzzz"],
            "tip: commands: run, new, check, plan, clean",
            "did you mean",
        );
    }

    /// Wrong: the advice on an unknown option is to give it as a file's name.
    #[test]
    fn an_unknown_option_is_no_value() {
        check(
            &["challenge", "run", "--verbose", "x"],
            "`--log-level debug` says more",
            "as a value",
        );
        check(
            &["challenge", "run", "--nonsense", "x"],
            "unexpected argument '--nonsense'",
            "as a value",
        );
        check(
            &["challenge", "run", "--scael", "x"],
            "a similar argument exists: '--scale'",
            "as a value",
        );
    }

    /// Wrong: a user does not learn that the address of a service can be set once.
    #[test]
    fn variables_are_named_where_an_option_is_missing() {
        let text = error(&["transfer", "list"]);
        assert!(
            text.contains("FTS_ENDPOINT in the environment says --endpoint"),
            "{text}"
        );
        assert!(
            text.contains("Usage: weir transfer list [OPTIONS] --endpoint <URL>"),
            "{text}"
        );
    }

    /// Wrong: a variable that a script sets to nothing stops every command.
    #[test]
    fn an_empty_variable_is_none() {
        let mut command = without_empty(Cli::command(), &|name| name == "WEIR_CA_FILE");
        command.build();
        let words = ["storage".to_owned(), "ls".to_owned()];
        let list = reached(&command, &words);
        let variables: Vec<_> = list.get_arguments().filter_map(clap::Arg::get_env).collect();
        assert!(!variables.contains(&OsStr::new("WEIR_CA_FILE")), "{variables:?}");
        assert!(variables.contains(&OsStr::new("X509_CERT_DIR")), "{variables:?}");
    }
}
