//! Words of the catalogue: data identifiers, accounts, and the states of replicas, rules, locks and requests.
//!
//! Names and letters are those of Rucio 41, whose clients and database dumps have them.

mod account;
mod did;
mod states;
mod word;

pub use account::{AccountName, AccountNameError, AccountStatus, AccountType, IdentityType};
pub use did::{Did, DidError, DidName, DidType, Scope};
pub use states::{
    Grouping, LoadState, LockState, Notification, ReplicaState, RequestState, RequestType, RequestWait, RseType,
    RuleState,
};
pub use word::UnknownWord;
