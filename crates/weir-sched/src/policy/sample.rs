//! A sample of the throughput of a transfer.

/// The bytes of one transfer in a stretch of its slot time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    /// The rate that it was taken to move at, if it had reported one.
    pub(crate) former: Option<f64>,
    /// The stretch begins with the transfer: it holds its start-up.
    pub(crate) begins: bool,
    /// The stretch ends with the transfer.
    pub(crate) ends: bool,
    /// Number of transfers that it stands for: transfers of its lane without reports are assumed to be like those with
    /// reports.
    pub(crate) weight: f64,
}

impl Sample {
    /// True for a sample of a transfer at work, or of one that does not report; false for a start-up alone. Many
    /// transfers begin together, and their throughput would seem to rise and fall with that.
    pub(crate) fn is_steady(&self) -> bool {
        self.seconds > 0.0 && self.weight > 0.0 && (!self.begins || self.ends)
    }
}
