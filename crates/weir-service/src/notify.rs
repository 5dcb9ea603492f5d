//! Reports to the service manager by the protocol of `sd_notify(3)`: for systemd units of `Type=notify`. Without
//! `NOTIFY_SOCKET` in the environment it reports nothing.

use sd_notify::NotifyState;

/// It serves at this URL: units that come after it may start.
pub fn ready(url: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("serves at {url}"))]);
}

/// It reads its configuration again. [`ready`] tells the end of that.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(since) => tell(&[NotifyState::Reloading, since]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// It has been told to stop, and lets work in hand end.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("lets requests in hand end")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "could not tell the service manager at NOTIFY_SOCKET");
    }
}
