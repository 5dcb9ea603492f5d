//! Checks of a run: samples of delivered files, replicas of the catalogue, counters of services, load of the machine.

pub(crate) mod audit;
pub(crate) mod catalogued;
pub(crate) mod counted;
pub(crate) mod load;
