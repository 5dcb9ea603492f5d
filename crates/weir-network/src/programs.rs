//! Programs of the system.

use std::process::Command;

/// Folders of programs for administrators, which an ordinary user's path lacks.
const OF_ADMINISTRATORS: &str = "/usr/sbin:/sbin";

/// A command of a program of the system.
pub(crate) fn of_system(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.env("PATH", format!("{path}:{OF_ADMINISTRATORS}"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nft` would be missing for every user but root.
    #[test]
    fn programs_of_administrators_are_found() {
        let path = of_system("true");
        let path = path.get_envs().find(|(name, _)| *name == "PATH");
        let path = path.and_then(|(_, value)| value).unwrap_or_default();
        assert!(path.to_string_lossy().ends_with(":/usr/sbin:/sbin"), "{path:?}");
    }
}
