//! Suggestion of the known word nearest to a misspelt one.

/// Gives the known word nearest to `word`: at most a third of its letters inserted, left out, replaced or swapped with
/// their neighbour, whatever the case. Words of one or two letters must match exactly. `None` if no word is that near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let allowed = if word.len() < 3 { 0 } else { word.len() / 3 };
    let distance_to = |candidate: &'a str| {
        let letters: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        (distance(&word, &letters), candidate)
    };
    let best = known.into_iter().map(distance_to).min()?;
    (best.0 <= allowed).then_some(best.1)
}

/// Edits between two words, a swap of neighbours counting once (restricted Damerau-Levenshtein distance).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped {
                    best.min(rows[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    /// A typing error would get no suggestion, or an unrelated word a wrong one.
    #[test]
    fn suggestions() {
        let known = ["quota", "durability", "read_only", "name"];
        let check = |word, expected| assert_eq!(nearest(word, known), expected, "{word}");
        check("quotas", Some("quota"));
        check("qouta", Some("quota"));
        check("readonly", Some("read_only"));
        check("Name", Some("name"));
        check("durablity", Some("durability"));
        check("colour", None);
        check("x", None);
        check("", None);
        assert_eq!(nearest("x", []), None);
    }
}
