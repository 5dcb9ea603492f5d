//! Reading of keys that other services may write in another form.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

/// A value of the expected form; `None` if it is null or has another form. The key is one that a client can do without.
///
/// # Errors
/// The text is no JSON.
pub fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok().flatten())
}
