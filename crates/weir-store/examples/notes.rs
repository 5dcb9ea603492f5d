//! Keeps notes: durable, elected and sealed. Of several processes on one PostgreSQL database one leads and takes notes from its standard input;
//! the next one goes on when it dies: `cargo run -p weir-store --example notes -- /run/postgresql notes weir notes.key`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{error::Error, io::BufRead as _, path::Path, sync::Arc, thread::sleep, time::Duration};

use weir_auth::Secret;
use weir_http::TrustRoots;
use weir_store::{
    Change, Durable, Sealer, Standing, Writer,
    postgres::{Address, Connector, Election, Pool, Purpose, Session, migrate},
};
use weir_world::Seq;

const TABLE: &str = "CREATE TABLE notes (number bigint PRIMARY KEY, sealed bytea NOT NULL)";

#[derive(Clone)]
struct Note(u64, Vec<u8>);

impl Change for Note {
    fn name(&self) -> &'static str {
        "note"
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [host, database, user, key] = arguments.as_slice() else {
        return Err("usage: notes HOST DATABASE USER KEY_FILE".into());
    };
    let connector = Connector::new(&Address::new(host, database, user), &TrustRoots::default())?;
    let pool = Pool::new(Arc::new(connector), Purpose::Batches, 2);
    let election = Election::new("leader");
    pool.with(|session| migrate(session, &[&Election::schema("leader"), TABLE]))?;
    let (sealer, fresh) = Sealer::from_file(Path::new(key))?;
    if let Some(fresh) = fresh {
        fresh.keep(pool.with(|session| Ok(session.row("SELECT FROM notes LIMIT 1", &[])?.is_some()))?)?;
    }
    let mut leadership = loop {
        match pool.with(|session| election.stand(session))? {
            Standing::Elected(leadership) => break leadership,
            Standing::HeldBy(_) => sleep(Duration::from_millis(100)),
        }
    };
    let mut number = 0_u64;
    for row in pool.with(|session| session.query("SELECT number, sealed FROM notes ORDER BY number", &[]))? {
        number = row.get::<_, i64>(0) as u64;
        let note = sealer.open(number.to_be_bytes(), row.get(1));
        println!("{number} {}", note.ok_or("sealed with another key")?.expose());
    }
    println!("leading");
    let keep = move |notes: &[Note]| {
        let numbers = notes.iter().map(|note| note.0 as i64).collect::<Vec<_>>();
        let sealed = notes.iter().map(|note| note.1.as_slice()).collect::<Vec<_>>();
        let text = "INSERT INTO notes SELECT * FROM unnest($1::bigint[], $2::bytea[])";
        let write = |session: &mut Session| session.execute(text, &[&numbers, &sealed]).map(drop);
        pool.with(|session| election.write(&mut leadership, session, numbers[0], write))
    };
    let writer = Writer::start(keep, |durable| match durable {
        Durable::UpTo(Seq(number)) => println!("durable {number}"),
        other => println!("lost {}", matches!(other, Durable::LeadershipLost)),
    })?;
    for line in std::io::stdin().lock().lines() {
        number += 1;
        let sealed = sealer.seal(number.to_be_bytes(), &Secret::new(line?));
        writer.push(Seq(number), vec![Note(number, sealed)]);
    }
    writer.close();
    Ok(())
}
