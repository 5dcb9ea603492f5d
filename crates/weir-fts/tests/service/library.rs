//! The tape behind a stub: the WLCG Tape REST API, version 1, and whatever else it is told to do.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// A tape system in memory.
#[derive(Default)]
pub(crate) struct Library {
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    /// Polls until what was asked for is on disk; nothing comes while it is none.
    polls: Option<u32>,
    online: BTreeSet<String>,
    on_tape: BTreeSet<String>,
    refused: BTreeMap<String, &'static str>,
    /// Requests are forgotten as soon as they are made.
    forgetful: bool,
    requests: BTreeMap<String, (Vec<String>, u32)>,
    asked: Vec<Vec<Value>>,
    polled: u32,
    looked: u32,
    cancelled: Vec<String>,
    released: Vec<String>,
}

impl Library {
    /// From now on what is asked for comes at the nth poll; never, if there is no number.
    pub(crate) fn delivers(&self, polls: Option<u32>) {
        self.shelves.lock().polls = polls;
    }

    /// This file will not come, and this is why.
    pub(crate) fn refuses(&self, path: &str, why: &'static str) {
        self.shelves.lock().refused.insert(path.to_owned(), why);
    }

    /// This copy is on tape now.
    pub(crate) fn archives(&self, path: &str) {
        self.shelves.lock().on_tape.insert(path.to_owned());
    }

    /// Files of each stage request that was made.
    pub(crate) fn asked(&self) -> Vec<Vec<Value>> {
        self.shelves.lock().asked.clone()
    }

    pub(crate) fn polled(&self) -> u32 {
        self.shelves.lock().polled
    }

    pub(crate) fn looked(&self) -> u32 {
        self.shelves.lock().looked
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.shelves.lock().cancelled.clone()
    }

    pub(crate) fn released(&self) -> Vec<String> {
        self.shelves.lock().released.clone()
    }

    /// The storage forgets all requests.
    pub(crate) fn forgets(&self) {
        self.shelves.lock().requests.clear();
    }

    /// From now on the storage forgets each request as soon as it has taken it.
    pub(crate) fn is_forgetful(&self) {
        self.shelves.lock().forgetful = true;
    }

    /// The answer to a request about tape; none if it is about something else.
    pub(crate) fn answer(&self, host: &str, method: &str, path: &str, body: &[u8]) -> Option<(u16, Value)> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if path == "/.well-known/wlcg-tape-rest-api" {
            let endpoint = json!({ "uri": format!("{host}/api/v1"), "version": "v1", "metadata": {} });
            return Some((
                200,
                json!({ "sitename": "lab", "description": "", "endpoints": [endpoint] }),
            ));
        }
        let parts = path
            .strip_prefix("/api/v1/")?
            .trim_end_matches('/')
            .split('/')
            .collect::<Vec<_>>();
        let paths = || -> Vec<String> { serde_json::from_value(body["paths"].clone()).unwrap_or_default() };
        let mut shelves = self.shelves.lock();
        Some(match (method, &parts[..]) {
            ("POST", ["stage"]) => shelves.stage(&body),
            ("GET", ["stage", id]) => shelves.status(id),
            ("POST", ["stage", id, "cancel"]) => {
                let paths = paths();
                if shelves
                    .requests
                    .get(*id)
                    .is_none_or(|(files, _)| paths.iter().any(|path| !files.contains(path)))
                {
                    return Some((400, json!({ "title": "a path is not part of the request" })));
                }
                shelves.cancelled.extend(paths);
                (200, Value::Null)
            }
            ("POST", ["release", _]) => {
                shelves.released.extend(paths());
                (200, Value::Null)
            }
            ("POST", ["archiveinfo"]) => {
                shelves.looked += 1;
                let told = paths()
                    .into_iter()
                    .map(|path| shelves.locality(&path))
                    .collect::<Vec<_>>();
                (200, json!(told))
            }
            _ => (404, json!({ "title": "no such request" })),
        })
    }
}

impl Shelves {
    fn stage(&mut self, body: &Value) -> (u16, Value) {
        let files = body["files"].as_array().cloned().unwrap_or_default();
        let paths = files.iter().map(|file| file["path"].as_str().unwrap().to_owned());
        let id = format!("request-{}", self.asked.len() + 1);
        if !self.forgetful {
            self.requests.insert(id.clone(), (paths.collect(), 0));
        }
        self.asked.push(files);
        (201, json!({ "requestId": id }))
    }

    fn status(&mut self, id: &str) -> (u16, Value) {
        self.polled += 1;
        let polls = self.polls;
        let Some((paths, looks)) = self.requests.get_mut(id) else {
            return (404, json!({ "title": "no such request" }));
        };
        *looks += 1;
        let comes = polls.is_some_and(|polls| *looks >= polls);
        let paths = paths.clone();
        let files = paths.iter().map(|path| match self.refused.get(path) {
            Some(why) => json!({ "path": path, "onDisk": false, "error": why }),
            None if comes => {
                self.online.insert(path.clone());
                json!({ "path": path, "onDisk": true })
            }
            None => json!({ "path": path, "onDisk": false }),
        });
        let files = files.collect::<Vec<_>>();
        (200, json!({ "id": id, "createdAt": 1, "startedAt": 1, "files": files }))
    }

    fn locality(&self, path: &str) -> Value {
        if let Some(why) = self.refused.get(path) {
            return json!({ "path": path, "error": why });
        }
        let locality = match (self.on_tape.contains(path), self.online.contains(path)) {
            (true, true) => "DISK_AND_TAPE",
            (true, false) => "TAPE",
            (false, _) => "DISK",
        };
        json!({ "path": path, "locality": locality })
    }
}
