//! Words for a POSIX shell: printed commands can be pasted unchanged.

/// A value as one word of any POSIX shell, quoted where it must be.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+,:@%=".contains(letter);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_shell() {
        // Wrong: the command of a report does something else when it is pasted.
        assert_eq!(quoted("challenges/minidc-uk.toml"), "challenges/minidc-uk.toml");
        assert_eq!(quoted("https://127.0.1.1:8443"), "https://127.0.1.1:8443");
        assert_eq!(quoted("/my dir/x"), "'/my dir/x'");
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted(""), "''");
    }
}
