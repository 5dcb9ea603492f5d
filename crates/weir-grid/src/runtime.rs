//! The runtimes on which the services of a grid run.

use tokio::runtime::Runtime;

use crate::GridError;

/// A runtime with so many threads, which are named.
pub(crate) fn runtime(name: &str, threads: usize) -> Result<Runtime, GridError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| not_started(&format!("the runtime {name}"), error))
}

/// Runs a future on another runtime and waits for it here.
pub(crate) async fn run_on<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    match runtime.spawn(future).await {
        Ok(output) => output,
        // It is never cancelled, only panics, and then the panic goes on here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

pub(crate) fn not_started(door: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> GridError {
    GridError::Start {
        door: door.to_owned(),
        source: source.into(),
    }
}
