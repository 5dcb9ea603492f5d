//! The staging of a file, and the watch over its copy on tape, as operations.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use weir_service::time::{self, Millis};
use weir_world::{ErrorClass, Failure, OpId, Outcome, Party, Phase, Retry, WorldEvent};

use super::client::Wanted;
use super::stager::{Ask, News};
use super::watcher::Watch;
use super::{counter_of, path_of, tape_of};
use crate::Executor;
use crate::orders::{Journal, Note, Order};
use crate::requests::failure::Scene;
use crate::requests::failure::internal;

/// Timeout of a last look at a request whose time is over: it may have been fulfilled meanwhile.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// How long is left of so many seconds, counted from then.
fn left(since: Option<Millis>, seconds: u32) -> Duration {
    let over = since
        .unwrap_or_else(time::now)
        .saturating_add(i64::from(seconds).saturating_mul(1000));
    let left = u64::try_from(over.saturating_sub(time::now())).unwrap_or_default();
    Duration::from_millis(left)
        .min(Duration::from_secs(seconds.into()))
        .max(LAST_LOOK)
}

impl Executor {
    /// Has a file brought online.
    pub(crate) async fn stage(&self, id: OpId, journal: &dyn Journal) -> WorldEvent {
        ended(self.staged(id, journal).await)
    }

    async fn staged(&self, id: OpId, journal: &dyn Journal) -> Result<(), Failure> {
        // No limit of its own. Its bound: the names of a file's two requests at most, and its end.
        let (tell, mut news) = mpsc::unbounded_channel();
        let heard = Arc::new(AtomicBool::new(false));
        // Boxed, and dropped: each of very many waiting operations keeps only the data that it needs.
        let (tape, path, vo, since, seconds, ask) = Box::pin(async {
            let order = self.order(id).await?;
            let source = self.side(Party::Source, &order);
            source.right.now(source.scene(Phase::Preparation)).await?;
            let (params, path) = (&order.job.params, path_of(&source.surl));
            heard.store(order.file.tape.request.is_some(), Ordering::Release);
            let ask = Ask {
                wanted: Wanted {
                    path: path.clone(),
                    lifetime: params.copy_pin_lifetime,
                    metadata: metadata(&order),
                },
                request: order.file.tape.request.clone(),
                forgotten: false,
                heard: heard.clone(),
                tell,
            };
            let seconds = params.bring_online.unwrap_or(u32::MAX);
            let since = order.file.tape.staging_start;
            Ok::<_, Failure>((tape_of(&source), path, order.job.vo.clone(), since, seconds, ask))
        })
        .await?;
        let (tapes, endpoint) = (&self.shared.tapes, tape.endpoint.clone());
        let _asking = tapes.stage(counter_of(&tape, &vo), tape, ask);
        let wait = async {
            while let Some(news) = news.recv().await {
                match news {
                    News::Requested(request) => {
                        tapes.pins.took(id.transfer.0, endpoint.clone(), path.clone());
                        heard.store(true, Ordering::Release);
                        let files = vec![id.transfer.0];
                        journal.make_durable(Note::Requested { files, request }).await;
                    }
                    News::Ended(end) => return end.map_err(|failure| *failure),
                }
            }
            Err(internal("the stager has stopped"))
        };
        let over = tokio::time::timeout(left(since, seconds), wait).await;
        over.unwrap_or_else(|_| {
            let text = format!("the file was not online within {seconds} s");
            Err(too_late(
                Party::Source,
                &text,
                "allow more time with 'bring_online', or look after the tape system",
            ))
        })
    }

    /// Watches a copy until it is on tape.
    pub(crate) async fn archive(&self, id: OpId) -> WorldEvent {
        ended(self.archived(id).await)
    }

    async fn archived(&self, id: OpId) -> Result<(), Failure> {
        let (tell, end) = oneshot::channel();
        let (tape, vo, since, seconds, watch) = Box::pin(async {
            let order = self.order(id).await?;
            let destination = self.side(Party::Destination, &order);
            destination.right.now(destination.scene(Phase::Finalization)).await?;
            let path = path_of(&destination.surl);
            let seconds = order.job.params.archive_timeout.filter(|seconds| *seconds > 0);
            let (vo, since) = (order.job.vo.clone(), order.file.tape.archive_start);
            Ok::<_, Failure>((tape_of(&destination), vo, since, seconds, Watch { path, tell }))
        })
        .await?;
        self.shared.tapes.watch(counter_of(&tape, &vo), tape, watch);
        let gone = || Err(internal("the watcher of copies has stopped"));
        let Some(seconds) = seconds else {
            return end.await.unwrap_or_else(|_| gone());
        };
        let end = tokio::time::timeout(left(since, seconds), end).await;
        let Ok(end) = end else {
            let text = format!("the copy was not on tape within {seconds} s");
            let remedy = "allow more time with 'archive_timeout', or look after the tape system";
            return Err(too_late(Party::Destination, &text, remedy));
        };
        end.unwrap_or_else(|_| gone())
    }

    /// Starts the release of pins: those of an earlier life, and those of transfers that end.
    pub async fn keep_pins(self, journal: Arc<dyn Journal>) {
        self.give_back_pins(journal).await;
    }

    /// A transfer has come to its end, durably.
    pub fn settled(&self, file: u64) {
        self.shared.tapes.pins.settled(file);
    }
}

fn metadata(order: &Order) -> Option<serde_json::Value> {
    serde_json::from_str(order.file.spec.staging_metadata.as_ref()?.get()).ok()
}

fn ended(end: Result<(), Failure>) -> WorldEvent {
    WorldEvent::Ended(match end {
        Ok(()) => Outcome::Ready,
        Err(failure) => Outcome::Failed(failure),
    })
}

fn too_late(party: Party, text: &str, remedy: &str) -> Failure {
    let phase = match party {
        Party::Destination => Phase::Finalization,
        _ => Phase::Preparation,
    };
    let mut failure = Scene::new(party, phase).fail(ErrorClass::Timeout, text);
    remedy.clone_into(&mut failure.remedy);
    failure.retry = Retry::Never;
    failure
}
