//! How many transfers fit into the descriptors that the process may have.

/// Store, log, listeners, spools, resolvers.
const KEPT: usize = 256;

/// Of this many connections one is left to looks at files, to messages, and to the second half of streamed copies.
const SPARE_OF: usize = 100;
const SPARE_MIN: usize = 8;

/// More are of no use to one process: every one costs some 50 KiB.
const COPIES_MAX: usize = 50_000;

/// The split of a process's file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Connections to storages, issuers and sinks at once.
    pub(crate) connections: usize,
    /// Attempts at once. Each holds one connection at any time.
    pub(crate) attempts: usize,
    /// Attempts that hold a second one, because the bytes go through this service.
    pub(crate) relays: usize,
}

impl Descriptors {
    /// The descriptors of this process, for so many connected clients at the door. Requests as many as the system
    /// allows: most systems begin with 1024.
    pub(crate) fn of_this_process(clients: usize) -> Self {
        let limit = weir_http::raise_open_files().unwrap_or(1 << 20);
        Self::share(usize::try_from(limit).unwrap_or(usize::MAX), clients)
    }

    /// Reserves descriptors for clients, at most a quarter of all.
    fn share(limit: usize, clients: usize) -> Self {
        let connections = limit
            .saturating_sub(KEPT)
            .saturating_sub(clients.min(limit / 4))
            .max(24);
        let spare = (connections / SPARE_OF).max(SPARE_MIN);
        Self {
            connections,
            attempts: (connections - spare).min(COPIES_MAX),
            // The other half of the spare ones is for connections of their own: a streamed copy never waits for a
            // connection while it holds one.
            relays: spare / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    /// Attempts that each hold a connection and wait for another would wait for ever.
    #[test]
    fn the_holder_of_a_connection_gets_the_second() {
        for limit in [0, 64, 256, 1024, 4096, 20_000, 1 << 20, usize::MAX] {
            for clients in [0, 16, 512, 4096, usize::MAX] {
                let share = Descriptors::share(limit, clients);
                assert!(
                    share.attempts + share.relays < share.connections,
                    "{limit} {clients} {share:?}"
                );
                assert!(share.attempts >= 16 && share.relays >= 1, "{limit} {clients} {share:?}");
            }
        }
    }

    /// The aim of a process with 20,000 descriptors; and no process may promise more than it has.
    #[test]
    fn a_process_of_20000_descriptors_bears_19000_copies() {
        let share = Descriptors::share(20_000, 512);
        assert!(share.attempts >= 19_000, "{share:?}");
        assert!(share.connections + 512 < 20_000, "{share:?}");
    }
}
