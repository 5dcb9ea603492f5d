//! Permissions: one table, by operation and type of account.
//!
//! An administrator is the account `root`, or one with the attribute `admin`. An owner is the account that the
//! operation concerns: itself, the owner of the scope, the owner of the rule.

use weir_model::catalog::AccountType;

/// An operation that needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Add, suspend or delete an account, give it attributes, identities or limits.
    ChangeAccounts,
    /// See an account's identities.
    SeeIdentities,
    /// Give an account a scope.
    AddScope,
    /// Add, change or delete an RSE, its attributes, protocols, limits, usage and distances.
    ChangeRses,
    /// Add DIDs to a scope, attach and detach, open and close, change metadata and lifetimes.
    ChangeDids,
    /// Register replicas of files of a scope, and change their states.
    AddReplicas,
    /// Register a replica at a path of the caller's choice, at an RSE whose paths do not follow from DIDs.
    ChoosePaths,
    /// Delete replicas, set tombstones.
    DeleteReplicas,
    /// Add a rule for an account, change or delete it.
    ChangeRules,
    /// Add a locked rule, or move one of another account.
    LockRules,
    /// Cancel or change requests.
    ChangeRequests,
    /// Read data that every account may read.
    Read,
}

impl Operation {
    /// Each of them.
    pub const ALL: [Self; 12] = [
        Self::ChangeAccounts,
        Self::SeeIdentities,
        Self::AddScope,
        Self::ChangeRses,
        Self::ChangeDids,
        Self::AddReplicas,
        Self::ChoosePaths,
        Self::DeleteReplicas,
        Self::ChangeRules,
        Self::LockRules,
        Self::ChangeRequests,
        Self::Read,
    ];
}

impl Operation {
    /// The attribute that permits the operation to an account that is no administrator, with the value `true`.
    pub fn attribute(self) -> Option<&'static str> {
        (self == Self::ChoosePaths).then_some("register_pfn")
    }

    /// The requirement that an account lacks which may not do it, for people.
    pub fn needs(self) -> &'static str {
        match row(self)[0] {
            _ if self == Self::ChoosePaths => {
                "only administrators and accounts with the attribute register_pfn may register a file at a PFN of their choice"
            }
            Allowed::Administrators => "only administrators may",
            Allowed::Owners => "only its owner and administrators may",
            Allowed::Everybody => "the account may not be used",
        }
    }
}

/// The accounts that may do an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Administrators,
    /// And from owners.
    Owners,
    Everybody,
}

/// The table: persons, groups, programs.
fn row(operation: Operation) -> [Allowed; 3] {
    use Allowed::{Administrators, Everybody, Owners};
    match operation {
        Operation::ChangeAccounts
        | Operation::ChangeRses
        | Operation::ChoosePaths
        | Operation::DeleteReplicas
        | Operation::LockRules => [Administrators, Administrators, Administrators],
        Operation::SeeIdentities | Operation::AddScope | Operation::ChangeDids | Operation::ChangeRules => {
            [Owners, Owners, Owners]
        }
        // Programs upload for others: a production system registers its files in any scope that it was given.
        Operation::AddReplicas => [Owners, Owners, Everybody],
        Operation::ChangeRequests => [Administrators, Administrators, Owners],
        Operation::Read => [Everybody, Everybody, Everybody],
    }
}

/// The account that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The type of its account.
    pub kind: AccountType,
    /// Whether it is an administrator.
    pub is_admin: bool,
    /// Whether it owns the object of the operation.
    pub is_owner: bool,
}

/// Whether an operation is allowed.
pub fn allows(asker: Asker, operation: Operation) -> bool {
    let [user, group, service] = row(operation);
    let from = match asker.kind {
        AccountType::User => user,
        AccountType::Group => group,
        AccountType::Service => service,
    };
    match from {
        Allowed::Administrators => asker.is_admin,
        Allowed::Owners => asker.is_admin || asker.is_owner,
        Allowed::Everybody => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as people read it: administrators, owners and others of each type, `x` for allowed.
    const TABLE: &str = "
                        user  group service
        ChangeAccounts  x..   x..   x..
        SeeIdentities   xx.   xx.   xx.
        AddScope        xx.   xx.   xx.
        ChangeRses      x..   x..   x..
        ChangeDids      xx.   xx.   xx.
        AddReplicas     xx.   xx.   xxx
        ChoosePaths     x..   x..   x..
        DeleteReplicas  x..   x..   x..
        ChangeRules     xx.   xx.   xx.
        LockRules       x..   x..   x..
        ChangeRequests  x..   x..   xx.
        Read            xxx   xxx   xxx";

    #[test]
    fn the_table_is_what_it_is() {
        let mut lines = vec![String::new(), format!("{:24}user  group service", "")];
        for operation in Operation::ALL {
            let cells = AccountType::ALL.iter().map(|kind| {
                let asked = [(true, false), (false, true), (false, false)].map(|(is_admin, is_owner)| {
                    let asker = Asker {
                        kind: *kind,
                        is_admin,
                        is_owner,
                    };
                    if allows(asker, operation) { 'x' } else { '.' }
                });
                format!("{:6}", asked.iter().collect::<String>())
            });
            let (name, cells) = (format!("{operation:?}"), cells.collect::<String>());
            lines.push(format!("        {name:16}{}", cells.trim_end()));
        }
        assert_eq!(lines.join("\n"), TABLE);
    }
}
