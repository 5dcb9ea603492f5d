//! Election of the scheduler: a node tries to become it, renews its term, and stops scheduling when that is lost.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use weir_store::blocking;

use crate::{
    driver::Driver,
    nodes::Membership,
    service::Service,
    store::{Standing, Store, StoreError},
};

/// Between two signs of life of the scheduler, and two tries to become it.
const BEAT: Duration = Duration::from_secs(2);

/// Whether this node may become the scheduler is in `stands`. Works until it is stopped.
pub(crate) async fn hold(service: Arc<Service>, membership: Arc<Membership>, stands: bool, stop: CancellationToken) {
    loop {
        if let Some(driver) = service.driver.driver() {
            if !stays(&membership, &driver, &stop).await {
                return;
            }
            tracing::warn!("this node is not the scheduler any more; its door stays open");
            service.driver.vacate();
            driver.shutdown().await;
            let store = membership.store.clone();
            // A new leader is not affected.
            let _ = blocking(move || store.resign()).await;
            membership.end_scheduling();
        } else if stands {
            stand(&service, &membership).await;
        }
        service.follow_settings().await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

/// Leads: until that is lost (true), or the service stops.
async fn stays(membership: &Arc<Membership>, driver: &Driver, stop: &CancellationToken) -> bool {
    loop {
        tokio::select! {
            () = stop.cancelled() => return false,
            () = driver.stopped() => return true,
            () = tokio::time::sleep(BEAT) => {}
        }
        let store = membership.store.clone();
        let renewed = tokio::select! {
            renewed = blocking(move || store.renew()) => renewed,
            () = membership.term().over() => return true,
            () = stop.cancelled() => return false,
        };
        match renewed {
            Ok(()) => {}
            Err(StoreError::LeadershipLost) => return true,
            Err(error) => tracing::warn!(
                error = weir_auth::error_chain(&error),
                "could not say that this scheduler lives"
            ),
        }
        if membership.term().is_over() {
            return true;
        }
    }
}

async fn stand(service: &Arc<Service>, membership: &Arc<Membership>) {
    let store = membership.store.clone();
    match blocking(move || store.stand()).await {
        Ok(Standing::Elected(epoch)) => {
            if let Err(error) = service.lead(epoch).await {
                tracing::error!(
                    error = weir_auth::error_chain(&error),
                    epoch,
                    "elected, and could not begin to schedule"
                );
                let store = membership.store.clone();
                let _ = blocking(move || store.resign()).await;
                membership.end_scheduling();
            }
        }
        Ok(Standing::HeldBy(holder)) => tracing::debug!(holder, "another node schedules"),
        Err(error) => tracing::warn!(error = weir_auth::error_chain(&error), "could not read the leader"),
    }
}
