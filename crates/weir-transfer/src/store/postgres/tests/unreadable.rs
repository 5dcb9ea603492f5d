//! Rows that cannot be read.

use weir_executor::orders::Orders as _;
use weir_store::postgres::testing::{Server, wanted};

use super::{OnServer, submit};
use crate::store::{Restored, Store as _, suite::Keeper as _};

#[test]
fn a_url_that_cannot_be_read_keeps_no_other_row_back() {
    if !wanted() {
        return;
    }
    let keeper = OnServer::new();
    let store = keeper.open();
    store.apply(&[submit(1, 1, 2)]).unwrap();
    let mut session = Server::shared().session(&keeper.database.database);
    session
        .run("UPDATE files SET source = 'srm://a/f' WHERE file_id = 1; INSERT INTO tape (file_id, pinned) VALUES (1, true), (2, true)")
        .unwrap();
    let (mut live, mut passed_over) = (Vec::new(), Vec::new());
    let mut take = |restored| match restored {
        Restored::Job(job) => live.extend(job.files.iter().map(|file| file.file)),
        Restored::Unreadable(row) => passed_over.push(row.what),
    };
    store.restore(100, &mut take).unwrap();
    assert_eq!((live, passed_over), (vec![2], vec!["file 1".to_owned()]));
    let pinned = store.pins().unwrap().iter().map(|pin| pin.file).collect::<Vec<_>>();
    assert_eq!(pinned, [2]);
    let refused = store.file(1).unwrap_err().to_string();
    assert!(
        refused.contains("Unsupported scheme, use https or davs (srm://a/f)"),
        "{refused}"
    );
}
