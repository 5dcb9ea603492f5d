//! Rules that a run left in a catalogue which outlives it.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::answers::lines;
use super::{AT_ONCE, CatalogService};
use crate::inject::injection::InjectionError;

/// A rule in a listing.
#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    name: String,
}

impl CatalogService {
    /// The rules over the datasets of a run; the names of the datasets begin with the name of the run.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn rules_of(&self, run: &str) -> Result<Vec<String>, InjectionError> {
        let path = format!("/rules/?account={}&scope={}", self.account, self.scope);
        let answer = self.service.ask(Method::GET, &path, None).await?;
        let rows: Vec<Row> = lines(&answer).map_err(|error| self.service.unreachable(error))?;
        let prefix = format!("{run}.");
        let own = rows.into_iter().filter(|row| row.name.starts_with(&prefix));
        Ok(own.map(|row| row.id).collect())
    }

    /// Ends rules: the catalogue cancels their transfers and deletes their copies.
    ///
    /// # Errors
    /// [`InjectionError`] of the first that could not be ended.
    pub(crate) async fn end(&self, rules: impl IntoIterator<Item = &str>) -> Result<(), InjectionError> {
        let end = |rule: &str| {
            let path = format!("/rules/{rule}");
            async move {
                // A deleted rule lives for an hour more, so that it can be had back (Rucio): its lifetime ends now instead.
                let content = json!({ "options": { "lifetime": 0 } });
                match self.service.ask(Method::PUT, &path, Some(content)).await {
                    Err(InjectionError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => Ok(()),
                    answer => answer.map(drop),
                }
            }
        };
        let ends: Vec<_> = rules.into_iter().map(end).collect();
        stream::iter(ends).buffer_unordered(AT_ONCE).try_collect().await
    }
}
