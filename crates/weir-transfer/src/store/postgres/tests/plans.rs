//! Plans: tables grow faster than the database's statistics of them.

use weir_executor::orders::Orders as _;
use weir_store::postgres::testing::wanted;

use super::{OnServer, submit};
use weir_executor::job::FileState;

use crate::store::{
    Store as _,
    suite::{Keeper as _, begin, end},
};

#[test]
fn plans_for_a_small_table_are_not_kept_for_a_large_one() {
    // Sessions plan their statements with the first hundred files and then scan the whole table; with millions of files
    // added before the next ANALYZE, every begin and end takes seconds.
    if !wanted() {
        return;
    }
    let store = OnServer::new().open();
    store.apply(&[submit(1, 1, 100)]).unwrap();
    let use_all = |from: u64, to: u64| {
        store
            .apply(&(from..to).map(|file| begin(file, 1)).collect::<Vec<_>>())
            .unwrap();
        assert!((from..to).all(|file| store.order(file).unwrap().is_some() && store.file(file).unwrap().is_some()));
        let files = (from..to).collect::<Vec<_>>();
        assert_eq!(store.destinations(&files).unwrap().len(), files.len());
        let ended = (from..to).map(|file| end(file, FileState::Finished));
        store.apply(&ended.collect::<Vec<_>>()).unwrap();
    };
    // From the sixth execution on PostgreSQL keeps a plan if it seems good enough.
    (0..20).for_each(|n| use_all(n * 5 + 1, n * 5 + 6));
    store.apply(&[submit(2, 101, 50_000)]).unwrap();
    let read = || {
        for pool in [&store.writing, &store.readers, &store.orders, &store.leading] {
            pool.with(|session| session.run("SELECT pg_stat_force_next_flush()"))
                .unwrap();
        }
        let text = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'files'";
        let row = store.readers.with(|session| session.row(text, &[])).unwrap().unwrap();
        row.get::<_, i64>(0)
    };
    let before = read();
    (0..5).for_each(|n| use_all(101 + n * 100, 201 + n * 100));
    assert_eq!(read() - before, 0, "rows that nobody asked for were read");
}
