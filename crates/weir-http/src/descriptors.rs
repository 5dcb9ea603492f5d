//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is asked for where there is no limit: more than any process here has use for.
const PLENTY: u64 = 1 << 20;

/// Lets the process open as many files as the system allows, and returns how many that is; `None`: no limit.
///
/// Shells and most systems begin with 1024, which 500 transfers use up: a connection and a file each. Nothing here uses `select`,
/// for whose sake the soft limit is low.
pub fn raise_open_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    let most = Some(maximum.unwrap_or(PLENTY));
    match setrlimit(Resource::Nofile, Rlimit { current: most, maximum }) {
        Ok(()) => most,
        Err(errno) => {
            tracing::warn!(%errno, ?current, "could not raise the limit of open files");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that believed in more than it has would fail where it counts on them.
    #[test]
    fn what_is_told_is_what_holds() {
        let told = raise_open_files();
        assert_eq!(told, getrlimit(Resource::Nofile).current);
        assert_eq!(raise_open_files(), told);
    }
}
