//! Bodies: JSON, whatever their content type says. Rucio's client sends none.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use http::header;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, SemaphorePermit};
use weir_http::BodyError;

use super::answer::Failure;
use crate::refusal::{Class, Refusal};

/// A JSON object; empty where there is no body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object(Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        match read(request).await? {
            None => Ok(Self::default()),
            Some(Value::Object(object)) => Ok(Self(object)),
            Some(_) => Err(Failure::value("the body is no JSON object")),
        }
    }
}

impl Object {
    /// A body that was read.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn new(object: Map<String, Value>) -> Self {
        Self(object)
    }

    fn found(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A text that may be missing or null.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Failure> {
        match self.found(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Failure::value(format!("'{key}' is no text"))),
        }
    }

    /// A text that has to be there.
    pub(crate) fn needed(&self, key: &str) -> Result<&str, Failure> {
        self.text(key)?.ok_or_else(|| missing(key))
    }

    /// A truth value that may be missing or null.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Failure> {
        match self.found(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(Failure::value(format!("'{key}' is neither true nor false"))),
        }
    }

    /// A whole number that may be missing or null.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Failure> {
        match self.found(key) {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or_else(|| Failure::value(format!("'{key}' is no whole number"))),
        }
    }

    /// An object that may be missing or null.
    pub(crate) fn object(&self, key: &str) -> Result<Self, Failure> {
        match self.found(key) {
            None => Ok(Self::default()),
            Some(Value::Object(object)) => Ok(Self(object.clone())),
            Some(_) => Err(Failure::value(format!("'{key}' is no object"))),
        }
    }

    /// A list of objects; empty where it is missing or null.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Self>, Failure> {
        match self.found(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(all)) => objects(all.clone()),
            Some(_) => Err(Failure::value(format!("'{key}' is no list"))),
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Any value that is not null.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.found(key)
    }
}

fn objects(all: Vec<Value>) -> Result<Vec<Object>, Failure> {
    let object = |one: Value| match one {
        Value::Object(object) => Ok(Object(object)),
        _ => Err(Failure::value("a list holds something that is no object")),
    };
    all.into_iter().map(object).collect()
}

/// A JSON list of objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct List(pub(crate) Vec<Object>);

impl<S: Send + Sync> FromRequest<S> for List {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        match read(request).await? {
            Some(Value::Array(all)) => objects(all).map(Self),
            _ => Err(Failure::value("the body is no JSON list")),
        }
    }
}

/// Bytes of a body, at most.
const BODY_MAX: usize = 64 << 20;

/// Time that a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Memory for bodies on their way, in KiB: that of all connections together is bounded.
const ROOM_MAX: usize = 256 << 10;
static ROOM: Semaphore = Semaphore::const_new(ROOM_MAX);

/// Bytes that each body may have without asking for room.
const FREE: usize = 64 << 10;

/// Time that a large body waits for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// The value of a body; `None` where it is empty.
async fn read(request: Request) -> Result<Option<Value>, Failure> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let _room = room(length.unwrap_or(BODY_MAX)).await?;
    let bytes = weir_http::body::read_within(request.into_body(), BODY_MAX, ARRIVAL).await;
    let bytes = bytes.map_err(|error| match error {
        BodyError::TooLarge { .. } => Failure::from(Refusal::new(Class::BodyTooLarge, error.to_string())),
        _ => Failure::value(error.to_string()),
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let unreadable = |error| Failure::value(format!("cannot decode json parameter dictionary: {error}"));
    serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
}

/// Waits for room for a body of this length.
async fn room(length: usize) -> Result<Option<SemaphorePermit<'static>>, Failure> {
    if length > BODY_MAX {
        let message = format!("a body has at most {BODY_MAX} bytes, this one {length}");
        return Err(Refusal::new(Class::BodyTooLarge, message).into());
    }
    if length <= FREE {
        return Ok(None);
    }
    let permits = ROOM.acquire_many((length >> 10) as u32);
    match tokio::time::timeout(PATIENCE, permits).await {
        Ok(Ok(room)) => Ok(Some(room)),
        _ => Err(Failure::busy("Too many large bodies are on their way; come again")),
    }
}

pub(crate) fn missing(key: &str) -> Failure {
    Failure::from(Refusal::new(Class::KeyNotFound, format!("'{key}' not defined")))
}
