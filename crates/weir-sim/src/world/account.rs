//! The account of a run: kept as it goes where its windows are known beforehand, else when it is over.

use std::time::Duration;

use weir_measure::accounting::Figures;
use weir_measure::{Accounting, Spec, Transfer};
use weir_plan::Plan;

/// Pause between two samples where the length of the run is not known beforehand.
const SAMPLES: Duration = Duration::from_secs(1);

/// See the module.
pub(super) enum Account {
    /// Rates are asked: the hold ends as planned. Steps beside them may go on for longer.
    Kept(Spec, Box<Accounting>),
    /// There are only steps: the hold ends with the last of them. They are few enough to be remembered.
    Remembered {
        spec: Spec,
        rows: Vec<Transfer>,
        gauges: Vec<(Duration, u64, u64)>,
    },
}

impl Account {
    pub(super) fn new(plan: &Plan) -> Self {
        let spec = Spec::of(plan);
        if plan.rates().next().is_some() {
            return Self::Kept(spec.clone(), Box::new(Accounting::new(spec)));
        }
        Self::Remembered {
            spec: Spec { bin: SAMPLES, ..spec },
            rows: Vec::new(),
            gauges: Vec::new(),
        }
    }

    /// Pause between two samples.
    pub(super) fn bin(&self) -> Duration {
        let (Self::Kept(spec, _) | Self::Remembered { spec, .. }) = self;
        spec.bin
    }

    pub(super) fn add(&mut self, row: Transfer) {
        match self {
            Self::Kept(_, accounting) => accounting.add(&row),
            Self::Remembered { rows, .. } => rows.push(row),
        }
    }

    pub(super) fn gauge(&mut self, at: Duration, active: u64, queued: u64) {
        match self {
            Self::Kept(_, accounting) => accounting.gauge(at, active, queued),
            Self::Remembered { gauges, .. } => gauges.push((at, active, queued)),
        }
    }

    /// Computes the figures of a run in which injection was over at one moment and the last transfer ended at another.
    pub(super) fn finish(self, over: Duration, ended: Duration) -> (Figures, Spec) {
        let (mut spec, rows, gauges) = match self {
            Self::Kept(mut spec, mut accounting) => {
                let planned_end = spec.windows.hold_end;
                if over > planned_end {
                    spec.windows.drain_end = spec.windows.drain_end.max(ended);
                    accounting.drained(spec.windows.drain_end);
                }
                return (accounting.finish(), spec);
            }
            Self::Remembered { spec, rows, gauges } => (spec, rows, gauges),
        };
        spec.windows.hold_end = over;
        spec.windows.drain_end = ended.max(over);
        spec.bin = spec.windows.bin();
        let mut accounting = Accounting::new(spec.clone());
        rows.iter().for_each(|row| accounting.add(row));
        gauges
            .into_iter()
            .for_each(|(at, active, queued)| accounting.gauge(at, active, queued));
        (accounting.finish(), spec)
    }
}
