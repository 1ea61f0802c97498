//! `run`: sessions that send one request after the other, each in its own transaction that does not wait for the disk.

use postgres::{Client, Statement};

use super::table::{FIELDS, key_of};
use super::workload::{Request, Requests, Workload};
use super::zipfian::ScrambledZipfian;
use crate::closed_loop::{Answered, ClosedLoop};

/// The statements of a session.
struct Prepared {
    read: Statement,
    /// By field.
    updates: Vec<Statement>,
}

impl Prepared {
    fn by(session: &mut Client) -> anyhow::Result<Self> {
        let read = session.prepare("SELECT * FROM usertable WHERE ycsb_key = $1")?;
        let update =
            |field: u8| session.prepare(&format!("UPDATE usertable SET field{field} = $2 WHERE ycsb_key = $1"));
        Ok(Self { read, updates: (0..FIELDS).map(update).collect::<Result<_, _>>()? })
    }

    fn ask(&self, session: &mut Client, request: &Request) -> anyhow::Result<()> {
        let (item, rows) = match request {
            Request::Read { item } => (*item, session.query(&self.read, &[&key_of(*item)])?.len() as u64),
            Request::Update { item, field, value } => {
                (*item, session.execute(&self.updates[*field], &[&key_of(*item), value])?)
            }
        };
        anyhow::ensure!(rows == 1, "{}: {rows} rows, not one (Y2)", key_of(item));
        Ok(())
    }
}

/// Runs a workload on a filled table. Runs with the same `seed` send the same requests (Y1).
///
/// # Errors
/// Those of the driver; a row that does not exist (Y2). Returns the first error of all clients; the others then stop.
pub(crate) fn run(
    workload: Workload,
    items: &ScrambledZipfian,
    seed: u64,
    clients: ClosedLoop<'_>,
    connect: impl Fn() -> anyhow::Result<Client> + Sync,
) -> anyhow::Result<Answered> {
    clients.run(|client| {
        let mut session = connect()?;
        session.batch_execute("SET synchronous_commit = off")?;
        let prepared = Prepared::by(&mut session)?;
        let mut requests = Requests::new(workload, items, seed, client);
        Ok(move || prepared.ask(&mut session, &requests.draw()))
    })
}
