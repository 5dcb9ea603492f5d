//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of files requested where there is no limit: more than any process here needs.
const PLENTY: u64 = 1 << 20;

/// Raises the limit of open files to the system's maximum, and returns it; `None`: no limit.
///
/// Shells and most systems begin with 1024, which 500 transfers use up: a connection and a file each. Nothing here uses
/// `select`, for whose sake the soft limit is low.
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
    fn reported_limits_are_those_in_force() {
        let told = raise_open_files();
        assert_eq!(told, getrlimit(Resource::Nofile).current);
        assert_eq!(raise_open_files(), told);
    }
}
