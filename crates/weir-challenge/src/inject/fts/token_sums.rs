//! Sums that Weir's transfer service keeps of its tokens, read from its metrics.

use http::Method;

use super::FtsDoor;

/// Numbers and sums at a moment, of all issuers together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TokenSums {
    /// Requests for tokens, and seconds that they took.
    pub(crate) requests: [f64; 2],
    /// Tokens that attempts used, and seconds that they had left.
    pub(crate) lives: [f64; 2],
}

impl FtsDoor {
    /// Reads the sums; `None` from a service that does not tell them, or not to this host.
    pub(crate) async fn token_sums(&self) -> Option<TokenSums> {
        let page = self
            .client
            .ask(Method::GET, "/.well-known/weir/metrics", None)
            .await
            .ok()?;
        parse(&String::from_utf8(page).ok()?)
    }
}

fn parse(text: &str) -> Option<TokenSums> {
    let sum = |name: &str| {
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
        samples
            .filter_map(|rest| rest.rsplit_once([' ', '}'])?.1.trim().parse::<f64>().ok())
            .sum::<f64>()
    };
    let both = |name: &str| [sum(&format!("{name}_count")), sum(&format!("{name}_sum"))];
    text.contains("weir_transfer_token_life_seconds").then(|| TokenSums {
        requests: both("weir_transfer_token_request_seconds"),
        lives: both("weir_transfer_token_life_seconds"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_added_up_over_issuers() {
        // Wrong: buckets, or one issuer of two, are taken for the whole.
        let text = "# TYPE weir_transfer_token_request_seconds histogram\n\
            weir_transfer_token_request_seconds_sum{issuer=\"https://a\"} 1.5\n\
            weir_transfer_token_request_seconds_count{issuer=\"https://a\"} 3\n\
            weir_transfer_token_request_seconds_bucket{issuer=\"https://a\",le=\"0.1\"} 9\n\
            weir_transfer_token_request_seconds_sum{issuer=\"https://b\"} 0.5\n\
            weir_transfer_token_request_seconds_count{issuer=\"https://b\"} 1\n\
            weir_transfer_token_life_seconds_sum 600.0\nweir_transfer_token_life_seconds_count 2\n";
        let sums = TokenSums {
            requests: [4.0, 2.0],
            lives: [2.0, 600.0],
        };
        assert_eq!(parse(text), Some(sums));
        assert_eq!(parse("fts_transfers 7\n"), None);
    }
}
