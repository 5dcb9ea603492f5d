#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_auth::Secret;
use weir_database::{Database, on_both};
use weir_model::catalog::IdentityType;

use super::{
    identities::{Identity, PasswordHash},
    *,
};
use crate::{
    schema::MIGRATIONS,
    testing::{NOW, attempt},
};

on_both!(MIGRATIONS;
    accounts_come_and_go
    attributes_are_unique
    identities_share_accounts
    sessions_end
    scopes_have_one_owner
);

fn name(text: &str) -> AccountName {
    text.parse().unwrap()
}

async fn with_accounts(database: &Database, names: &'static [&'static str]) {
    let work = |session: &mut dyn Session| {
        names
            .iter()
            .try_for_each(|one| add(session, &name(one), AccountType::User, Some("a@b"), NOW))
    };
    assert_eq!(attempt(database, work).await, None);
}

async fn accounts_come_and_go(database: Database) {
    with_accounts(&database, &["bob", "alice"]).await;
    let again = |session: &mut dyn Session| add(session, &name("bob"), AccountType::Group, None, NOW);
    assert_eq!(attempt(&database, again).await, Some(Class::Duplicate));
    let delete = |session: &mut dyn Session| {
        change(
            session,
            &name("bob"),
            &AccountChange::Status(AccountStatus::Deleted),
            NOW + 1,
        )
    };
    assert_eq!(attempt(&database, delete).await, None);
    assert_eq!(attempt(&database, delete).await, Some(Class::AccountNotFound));
    assert_eq!(
        attempt(&database, again).await,
        Some(Class::Duplicate),
        "a name is given once"
    );
    let suspend = |session: &mut dyn Session| {
        change(
            session,
            &name("alice"),
            &AccountChange::Status(AccountStatus::Suspended),
            NOW + 2,
        )?;
        change(session, &name("alice"), &AccountChange::Email("c@d".into()), NOW + 3)?;
        change(
            session,
            &name("alice"),
            &AccountChange::Kind(AccountType::Service),
            NOW + 4,
        )
    };
    assert_eq!(attempt(&database, suspend).await, None);
    let read = |session: &mut dyn Session| Ok((list(session, &AccountFilter::default())?, get(session, &name("bob"))?));
    let (listed, bob) = database.read(read).await.unwrap();
    let alice = Account {
        name: name("alice"),
        kind: AccountType::Service,
        status: AccountStatus::Suspended,
        email: Some("c@d".into()),
        created: NOW,
        updated: NOW + 4,
        suspended: Some(NOW + 2),
        deleted: None,
        is_admin: false,
    };
    assert_eq!(listed, [alice]);
    assert_eq!((bob.status, bob.deleted), (AccountStatus::Deleted, Some(NOW + 1)));
    let users = AccountFilter {
        kind: Some(AccountType::User),
        identity: None,
    };
    let users = database
        .read(move |session: &mut dyn Session| list(session, &users))
        .await
        .unwrap();
    assert_eq!(users, []);
}

async fn attributes_are_unique(database: Database) {
    with_accounts(&database, &["alice"]).await;
    let set = |session: &mut dyn Session| add_attribute(session, &name("alice"), "admin", "true");
    assert_eq!(attempt(&database, set).await, None);
    assert_eq!(attempt(&database, set).await, Some(Class::Duplicate));
    let read = |session: &mut dyn Session| attributes(session, &name("alice"));
    assert_eq!(database.read(read).await.unwrap(), [("admin".into(), "true".into())]);
    let unset = |session: &mut dyn Session| remove_attribute(session, &name("alice"), "admin");
    assert_eq!(attempt(&database, unset).await, None);
    assert_eq!(attempt(&database, unset).await, Some(Class::AccountNotFound));
    let nobody = |session: &mut dyn Session| add_attribute(session, &name("nobody"), "a", "b");
    assert_eq!(attempt(&database, nobody).await, Some(Class::AccountNotFound));
}

fn identity(text: &str, kind: IdentityType) -> Identity {
    Identity {
        identity: text.into(),
        kind,
        email: None,
    }
}

async fn identities_share_accounts(database: Database) {
    with_accounts(&database, &["alice", "prod", "gone"]).await;
    let bare = |session: &mut dyn Session| {
        let user = identity("ali", IdentityType::UserPass);
        identities::add(session, &user, &name("alice"), false, None, NOW)
    };
    assert_eq!(
        attempt(&database, bare).await,
        Some(Class::IdentityError),
        "a user without a password"
    );
    let password = PasswordHash::new(&Secret::new("it's a secret")).unwrap();
    let add = move |session: &mut dyn Session| {
        let user = identity("ali", IdentityType::UserPass);
        identities::add(session, &user, &name("alice"), false, Some(&password), NOW)?;
        identities::add(session, &user, &name("prod"), true, None, NOW)?;
        identities::add(session, &user, &name("gone"), false, None, NOW)?;
        let certificate = identity("CN=Ali", IdentityType::X509);
        identities::add(session, &certificate, &name("alice"), false, None, NOW)?;
        change(
            session,
            &name("gone"),
            &AccountChange::Status(AccountStatus::Suspended),
            NOW,
        )
    };
    assert_eq!(attempt(&database, add).await, None);
    let again = |session: &mut dyn Session| {
        identities::add(
            session,
            &identity("CN=Ali", IdentityType::X509),
            &name("alice"),
            false,
            None,
            NOW,
        )
    };
    assert_eq!(attempt(&database, again).await, Some(Class::Duplicate));
    let read = |session: &mut dyn Session| {
        let accounts = identities::accounts_of(session, "ali", IdentityType::UserPass)?;
        let by_certificate = identities::accounts_of(session, "ali", IdentityType::X509)?;
        let stored = identities::password(session, "ali")?.unwrap();
        Ok((
            accounts,
            by_certificate,
            identities::of(session, &name("alice"))?,
            stored,
        ))
    };
    let (accounts, by_certificate, of_alice, stored) = database.read(read).await.unwrap();
    assert_eq!(
        accounts,
        [name("prod"), name("alice")],
        "the default first, none that is suspended"
    );
    assert_eq!(by_certificate, []);
    let expected = [
        identity("CN=Ali", IdentityType::X509),
        identity("ali", IdentityType::UserPass),
    ];
    assert_eq!(of_alice, expected);
    assert!(stored.fits(&Secret::new("it's a secret")) && !stored.fits(&Secret::new("another")));
    assert_eq!(format!("{stored:?}"), "PasswordHash");

    let remove = |account: &'static str| {
        move |session: &mut dyn Session| identities::remove(session, "ali", IdentityType::UserPass, &name(account))
    };
    assert_eq!(attempt(&database, remove("alice")).await, None);
    assert_eq!(attempt(&database, remove("alice")).await, Some(Class::IdentityError));
    assert_eq!(attempt(&database, remove("prod")).await, None);
    assert_eq!(attempt(&database, remove("gone")).await, None);
    let forgotten = |session: &mut dyn Session| identities::password(session, "ali");
    assert_eq!(database.read(forgotten).await.unwrap(), None);
}

async fn sessions_end(database: Database) {
    with_accounts(&database, &["alice", "bob"]).await;
    let begin = |account: &'static str, at: Millis| {
        let work = move |session: &mut dyn Session| sessions::begin(session, &name(account), "ali", at);
        database.write(work)
    };
    let (alice, bob) = (begin("alice", NOW).await.unwrap(), begin("bob", NOW + 1).await.unwrap());
    assert_ne!(alice.expose(), bob.expose());
    let bearer = |token: &Secret, at: Millis| {
        let token = token.clone();
        let work = move |session: &mut dyn Session| sessions::bearer(session, token.expose(), at);
        let database = database.clone();
        async move { database.read(work).await.unwrap().map(|bearer| bearer.account) }
    };
    assert_eq!(bearer(&alice, NOW + sessions::LIFETIME - 1).await, Some(name("alice")));
    assert_eq!(bearer(&alice, NOW + sessions::LIFETIME).await, None);
    assert_eq!(bearer(&Secret::new("guessed"), NOW).await, None);
    let suspend = |session: &mut dyn Session| {
        change(
            session,
            &name("bob"),
            &AccountChange::Status(AccountStatus::Suspended),
            NOW,
        )
    };
    assert_eq!(attempt(&database, suspend).await, None);
    assert_eq!(bearer(&bob, NOW).await, None);
    // The token itself is nowhere.
    let rows = |session: &mut dyn Session| session.query("SELECT token FROM sessions", &[]);
    let rows = database.read(rows).await.unwrap();
    assert!(rows.len() == 1 && rows[0].bytes(0).unwrap().len() == 32);
    let forget = |session: &mut dyn Session| sessions::forget(session, NOW + sessions::LIFETIME);
    assert!(!database.write(forget).await.unwrap());
    let rows = |session: &mut dyn Session| session.query("SELECT token FROM sessions", &[]);
    assert_eq!(database.read(rows).await.unwrap().len(), 0);
}

async fn scopes_have_one_owner(database: Database) {
    with_accounts(&database, &["alice", "bob"]).await;
    let give = |scope: &'static str, owner: &'static str| {
        move |session: &mut dyn Session| scopes::add(session, &scope.parse().unwrap(), &name(owner), NOW)
    };
    assert_eq!(attempt(&database, give("user.alice", "alice")).await, None);
    assert_eq!(attempt(&database, give("mc", "alice")).await, None);
    assert_eq!(attempt(&database, give("mc", "bob")).await, Some(Class::Duplicate));
    assert_eq!(
        attempt(&database, give("x", "nobody")).await,
        Some(Class::AccountNotFound)
    );
    let read = |session: &mut dyn Session| {
        let of_alice = scopes::of(session, &name("alice"))?;
        Ok((
            of_alice,
            scopes::list(session)?,
            scopes::owner(session, &"mc".parse().unwrap())?,
        ))
    };
    let (of_alice, all, owner) = database.read(read).await.unwrap();
    assert_eq!(of_alice, ["mc".parse().unwrap(), "user.alice".parse().unwrap()]);
    assert_eq!((all.len(), owner), (2, name("alice")));
    let missing = |session: &mut dyn Session| scopes::owner(session, &"none".parse().unwrap()).map(drop);
    assert_eq!(attempt(&database, missing).await, Some(Class::ScopeNotFound));
}
