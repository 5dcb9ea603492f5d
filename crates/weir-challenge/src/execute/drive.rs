//! The loop that turns a run: injects, observes, tells, stops, drains.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use weir_measure::gauges::GaugeRow;
use weir_measure::report::Event;
use weir_measure::samples::{Sample, Stage};
use weir_measure::{Standing, WindowSpec};
use weir_plan::Phases;
use weir_world::{Gauge, Place, PlaceKind};

use crate::Stop;
use crate::execute::clock::Clock;
use crate::execute::engine::{Engine, Sums, Withdrawal};
use crate::execute::live::SharedMeasurement;
use crate::execute::rates::RatesDriver;
use crate::execute::signal_watch::SignalWatch;
use crate::execute::steps::StepsDriver;
use crate::inject::injection::InjectionDoor;
use crate::output::books::Books;
use crate::output::folder::RunFolder;
use crate::verify::load::{Load, LoadReading};

/// How often the loop turns: fine enough that neither a cycle nor a step waits for it noticeably.
const TURN: Duration = Duration::from_millis(50);

/// How often unfinished jobs are asked for, with rates: half a cycle.
const POLL_RATES: Duration = Duration::from_millis(500);

/// The same with steps, where the next one waits for the answer.
const POLL_STEPS: Duration = Duration::from_millis(100);

/// How often active and queued transfers are written down.
const GAUGE: Duration = Duration::from_secs(1);

/// Longest drain after an interruption.
const DRAIN_INTERRUPTED: Duration = Duration::from_secs(10);

/// Longest time for asking the service to cancel unfinished transfers, at the very end: copies at external storage must
/// not keep running.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// How long withdrawn transfers may take to say so.
const WITHDRAWAL: Duration = Duration::from_secs(10);

/// The state of the loop.
pub(crate) struct Drive<'a, D> {
    pub(crate) engine: &'a mut Engine<D>,
    pub(crate) rates: Option<&'a mut RatesDriver>,
    pub(crate) steps: &'a mut [StepsDriver],
    pub(crate) phases: Phases,
    pub(crate) clock: Clock,
    pub(crate) measurement: &'a SharedMeasurement,
    pub(crate) books: &'a mut Books,
    pub(crate) folder: &'a Arc<RunFolder>,
    pub(crate) stop: &'a Stop,
    /// Cancelled when no submission may be tried again.
    pub(crate) no_more: &'a CancellationToken,
    /// The activity of the run.
    pub(crate) stage: Stage,
    /// Reads the waits of its transfers.
    pub(crate) signals: Option<SignalWatch>,
    /// The moment of the last sample.
    pub(crate) sampled: Duration,
}

/// The result of the loop.
#[derive(Debug, Default)]
pub(crate) struct Driven {
    /// The phase that was cut short, if the run was interrupted.
    pub(crate) interrupted: Option<String>,
    /// Of the machine, while the hold lasted.
    pub(crate) load: Load,
}

/// Moments of the loop's next actions.
struct Due {
    poll: Duration,
    gauge: Duration,
}

impl<D: InjectionDoor> Drive<'_, D> {
    /// Runs from the start of the ramp to the end of the drain.
    pub(crate) async fn run(mut self) -> Driven {
        let windows = WindowSpec::planned(&self.phases);
        let (ramp_end, planned_end) = (windows.ramp_end, windows.hold_end);
        let mut driven = Driven::default();
        let mut due = Due {
            poll: Duration::ZERO,
            gauge: Duration::ZERO,
        };
        self.event(if ramp_end.is_zero() {
            "hold begins"
        } else {
            "ramp begins"
        });
        let mut before = None;
        let mut ticks = tokio::time::interval(TURN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.stop.soft.cancelled() => {}
            }
            let now = self.clock.now();
            self.turn(now, &mut due);
            if self.stop.soft.is_cancelled() {
                driven.interrupted = Some(format!("interrupted {}", windows.place(now, None)));
                break;
            }
            if before.is_none() && now >= ramp_end {
                before = Some(LoadReading::now());
                if !ramp_end.is_zero() {
                    self.event("hold begins");
                }
            }
            let steps_done = self.steps.iter().all(StepsDriver::is_done);
            if now >= planned_end && steps_done {
                break;
            }
            if let Some(rates) = self.rates.as_deref_mut() {
                rates.tick(now, self.engine);
            }
            if now >= ramp_end {
                for steps in &mut *self.steps {
                    steps.tick(now, self.engine);
                }
            }
        }
        self.close(&mut driven, before);
        self.drain(&mut due, &mut driven, &mut ticks).await;
        driven
    }

    /// Injection ends: the windows of ramp and hold are known.
    fn close(&mut self, driven: &mut Driven, before: Option<LoadReading>) {
        self.no_more.cancel();
        let now = self.clock.now();
        if let Some(rates) = self.rates.as_deref_mut() {
            let ended = now.min(self.phases.end());
            rates.finish(ended);
            let given_up = rates.given_up();
            self.measurement
                .with(|measurement| measurement.given_up(ended, given_up));
        }
        self.measurement.with(|measurement| measurement.close(now));
        self.stage = Stage::Draining;
        self.sample(now);
        driven.load = before
            .map(|before| LoadReading::now().since(before))
            .unwrap_or_default();
        let text = if driven.interrupted.is_some() {
            "interrupted; drain begins"
        } else {
            "drain begins"
        };
        self.event(text);
    }

    /// Waits for transfers under way, and withdraws those that the drain leaves over.
    async fn drain(&mut self, due: &mut Due, driven: &mut Driven, ticks: &mut tokio::time::Interval) {
        let limit = if driven.interrupted.is_some() {
            self.phases.drain.min(DRAIN_INTERRUPTED)
        } else {
            self.phases.drain
        };
        let began = self.clock.now();
        let mut deadline = began + limit;
        while !self.engine.is_idle() && self.clock.now() < deadline && !self.stop.hard.is_cancelled() {
            self.wait(ticks).await;
            self.turn(self.clock.now(), due);
            if self.stop.soft.is_cancelled() && driven.interrupted.is_none() {
                let now = self.clock.now();
                driven.interrupted = Some(format!(
                    "interrupted {:.1} s into the drain of {:.1} s",
                    now.saturating_sub(began).as_secs_f64(),
                    limit.as_secs_f64()
                ));
                deadline = deadline.min(now + DRAIN_INTERRUPTED);
            }
        }
        if !self.engine.is_idle() {
            let count = self.engine.unfinished();
            self.event(&format!("drain ends: {count} transfers are withdrawn"));
            let why = if driven.interrupted.is_some() {
                Withdrawal::Interrupted
            } else {
                Withdrawal::Overdue(limit)
            };
            let out_of_time = async {
                self.stop.hard.cancelled().await;
                tokio::time::sleep(CANCEL_MAX).await;
            };
            tokio::select! {
                () = self.engine.withdraw(why) => {}
                () = out_of_time => {}
            }
            let deadline = self.clock.now() + WITHDRAWAL;
            while !self.engine.is_idle() && self.clock.now() < deadline && !self.stop.hard.is_cancelled() {
                self.wait(ticks).await;
                self.turn(self.clock.now(), due);
            }
            let count = self.engine.give_up(why);
            if count > 0 {
                self.event(&format!(
                    "run ends before the transfer service said how {count} transfers ended"
                ));
            }
        }
        self.take_in();
        if let Some(signals) = self.signals.take() {
            // A second interruption does not wait for a service.
            tokio::select! {
                biased;
                () = self.stop.hard.cancelled() => {}
                rows = signals.finish() => self.books.read(&rows),
            }
        }
        let now = self.clock.now();
        self.measurement.with(|measurement| measurement.drained(now));
        self.event("run ends");
        self.stage = Stage::Over;
        self.sample(now);
        self.books.write();
    }

    async fn wait(&self, ticks: &mut tokio::time::Interval) {
        tokio::select! {
            _ = ticks.tick() => {}
            () = self.stop.hard.cancelled() => {}
        }
    }

    /// Takes new results, and sends the requests that are due.
    fn turn(&mut self, now: Duration, due: &mut Due) {
        self.engine.turn();
        if now >= due.poll {
            self.engine.poll();
            due.poll = now + if self.steps.is_empty() { POLL_RATES } else { POLL_STEPS };
        }
        self.take_in();
        let sums = self.engine.sums();
        let standing = standing(&sums);
        let is_due = now >= due.gauge;
        self.measurement.with(|measurement| {
            measurement.standing(standing);
            if is_due {
                measurement.gauge(now, sums.active, sums.queued);
            }
        });
        if is_due {
            due.gauge = now + GAUGE;
            self.sample(now);
        }
        self.books.write();
    }

    /// Records the current numbers and the activity of the run.
    fn sample(&mut self, now: Duration) {
        let from = std::mem::replace(&mut self.sampled, now);
        self.books.gauges(&overdue(self.engine, (from, now)));
        let sums = self.engine.sums();
        self.books.sample(&Sample {
            at: now,
            stage: self.stage,
            standing: standing(&sums),
        });
    }

    /// Writes ended transfers and injections into the books.
    fn take_in(&mut self) {
        for record in self.engine.take_ended() {
            let cell = self.steps.iter_mut().find_map(|steps| steps.ended(record.id));
            self.books.ended(&record, cell);
        }
        for rule in self.engine.take_rules() {
            self.books.rule(&rule);
        }
        if let Some(signals) = &mut self.signals {
            self.books.read(&signals.take());
        }
        if let Some(rates) = self.rates.as_deref_mut() {
            rates.take_ledger().iter().for_each(|row| self.books.injected(row));
            let events = rates.take_events();
            self.measurement
                .with(|measurement| events.into_iter().for_each(|event| measurement.event(event)));
        }
    }

    fn event(&self, text: &str) {
        self.folder.log(text);
        let event = Event {
            t_s: self.clock.now().as_secs_f64(),
            text: text.to_owned(),
        };
        self.measurement.with(|measurement| measurement.event(event));
    }
}

/// The deletions that the catalogue has not made, of a run that makes rules.
fn overdue<D: InjectionDoor>(engine: &Engine<D>, span: (Duration, Duration)) -> Vec<GaugeRow> {
    if !engine.makes_rules() {
        return Vec::new();
    }
    let overdue = engine.overdue(span.1);
    let mut rows = Vec::new();
    for (door, name) in engine.destinations() {
        let (count, age) = overdue.get(&door).copied().unwrap_or_default();
        let values = [
            (Gauge::DeletionBacklog, Some(count as f64)),
            (Gauge::DeletionAge, (count > 0).then_some(age.as_secs_f64())),
        ];
        rows.extend(values.into_iter().filter_map(|(gauge, value)| {
            Some(GaugeRow {
                span,
                gauge,
                place: Place::new(PlaceKind::RseIn, name),
                value: value?,
            })
        }));
    }
    rows
}

fn standing(sums: &Sums) -> Standing {
    Standing {
        active: sums.active,
        queued: sums.queued,
        injected_bytes: sums.injected_bytes,
    }
}

#[cfg(test)]
mod tests;
