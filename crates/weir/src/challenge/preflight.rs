//! The needs of a run and the resources of the machine, as lines.

use weir_challenge::Preflight;
use weir_units::Bytes;

/// Describes the needs of a run and the resources of the machine.
pub(super) fn preflight(preflight: &Preflight) -> Vec<String> {
    let volume = Bytes(preflight.volume_bytes);
    let what = match (preflight.asked_bps, preflight.planned_s) {
        (Some(asked), Some(seconds)) => format!("{asked:.2} for {seconds:.0} s, {volume:.1} in all"),
        _ => format!("{volume:.1} in all"),
    };
    let free = preflight
        .free_bytes
        .map_or_else(|| "unknown".to_owned(), |bytes| format!("{:.1}", Bytes(bytes)));
    let files = preflight
        .open_files
        .map_or_else(|| "any number of".to_owned(), |files| files.to_string());
    let mut lines = vec![
        format!("{}: {what}", preflight.challenge),
        format!("  starts   {}", preflight.starts),
        format!(
            "  machine  {} cores; {free} of disk free, {:.1} needed; {files} open files",
            preflight.cores,
            Bytes(preflight.needed_bytes)
        ),
    ];
    lines.extend(preflight.warnings.iter().map(|warning| format!("  ! {warning}")));
    lines
}
