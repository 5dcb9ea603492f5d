//! Bodies: JSON, whatever their content type says. Rucio's client sends none.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use serde_json::{Map, Value};

use super::answer::Failure;
use crate::refusal::{Class, Refusal};

/// A JSON object; empty where there is no body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object(Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| Failure::from(Refusal::new(Class::BodyTooLarge, error.body_text())))?;
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(Failure::value("the body is no JSON object")),
            Err(error) => Err(Failure::value(format!(
                "cannot decode json parameter dictionary: {error}"
            ))),
        }
    }
}

impl Object {
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

    /// Any value that is not null.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.found(key)
    }
}

pub(crate) fn missing(key: &str) -> Failure {
    Failure::from(Refusal::new(Class::KeyNotFound, format!("'{key}' not defined")))
}
