//! Checksums that are not stored yet: the file is read once for all requests, and the result is stored with it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use weir_units::{Algorithm, Checksums, Hasher};

use crate::{
    area::Area,
    backend::{BackendError, Meta, Reader},
    data::blocking,
    memory::{Budget, Lease, READING},
    metrics::Metrics,
};

/// One file being read: later requests wait for the first.
type FileReading = Arc<tokio::sync::Mutex<Option<Checksums>>>;

/// The checksum readers, limited in number. Clones share the limit.
#[derive(Clone)]
pub(crate) struct ChecksumReaders {
    places: Arc<Semaphore>,
    /// A floor for each place, held for good.
    memory: Arc<Mutex<Vec<Arc<Lease>>>>,
    under_way: Arc<Mutex<HashMap<Key, FileReading>>>,
    metrics: Arc<Metrics>,
}

/// A content, by its area and identity, and the requested algorithm.
type Key = (String, u64, u64, i64, Algorithm);

/// A request that waits for a checksum. When the last one leaves before the reading has begun, no state remains.
struct Asker {
    under_way: Arc<Mutex<HashMap<Key, FileReading>>>,
    key: Key,
    reading: Option<FileReading>,
}

impl Drop for Asker {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        self.reading = None;
        if under_way
            .get(&self.key)
            .is_some_and(|reading| Arc::strong_count(reading) == 1)
        {
            under_way.remove(&self.key);
        }
    }
}

impl ChecksumReaders {
    pub(crate) fn new(readers: usize, metrics: Arc<Metrics>, memory: &Budget) -> Self {
        Self {
            memory: Arc::new(Mutex::new(
                (0..readers).filter_map(|_| memory.floor(None).ok()).collect(),
            )),
            places: Arc::new(Semaphore::new(readers)),
            under_way: Arc::default(),
            metrics,
        }
    }

    /// The checksum of an open file, with all of the area's own that it lacked.
    ///
    /// Once begun, the reading goes on even if the asker leaves: it will ask again.
    pub(crate) async fn compute(
        &self,
        area: &Area,
        reader: Arc<dyn Reader>,
        wanted: Algorithm,
    ) -> Result<Checksums, BackendError> {
        let Meta {
            identity,
            size,
            modified_ns,
            ..
        } = reader.meta();
        let key = (area.name.clone(), identity, size, modified_ns, wanted);
        let reading = self.under_way.lock().entry(key.clone()).or_default().clone();
        let asker = Asker {
            under_way: self.under_way.clone(),
            key,
            reading: Some(reading.clone()),
        };
        let mut done = reading.lock_owned().await;
        if let Some(checksums) = &*done {
            return Ok(checksums.clone());
        }
        let place = self.places.clone().acquire_owned().await.expect("nobody closes it");
        self.metrics
            .checksums_read
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut algorithms = area.algorithms.clone();
        algorithms.push(wanted);
        let floors = self.memory.clone();
        blocking(move || {
            let memory = floors.lock().pop().expect("there is a floor for each place");
            let outcome = read_through(&*reader, &algorithms, &memory);
            memory.fit(&READING.into_iter().skip(READING.len() - 1));
            floors.lock().push(memory);
            if let Ok(checksums) = &outcome {
                reader.keep_checksums(checksums);
                *done = Some(checksums.clone());
            }
            drop((done, asker, place));
            outcome
        })
        .await
    }
}

fn read_through(reader: &dyn Reader, algorithms: &[Algorithm], memory: &Lease) -> Result<Checksums, BackendError> {
    let mut hasher = Hasher::new(algorithms);
    let mut buffer = Vec::new();
    let mut at = 0;
    loop {
        let size = READING[memory.fit(&READING.into_iter())];
        if buffer.len() != size {
            buffer = vec![0; size];
        }
        let read = reader.read_at(&mut buffer, at)?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer[..read]);
        at += read as u64;
    }
}
