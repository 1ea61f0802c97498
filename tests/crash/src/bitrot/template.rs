//! `Template`: the databases whose copies are damaged, made once, with a bank's load, LSM levels of several trees, log
//! after them, a slot, a consumer of the log, and a backup.

use std::path::PathBuf;

use anyhow::anyhow;
use collie_netlab::Port;

use super::{
    Lab,
    files::{self, Files},
};
use crate::{
    bank,
    journal::{Journal, Outcome},
    server::Server,
    visitor::visit,
};

/// The transactions of a round of load; earlier states of files are those after the first round.
const TRANSACTIONS: u64 = 60;

/// A stopped database, and the journals of its clients.
pub(super) struct Database {
    pub(super) data: PathBuf,
    pub(super) journals: Vec<Journal>,
}

/// The originals of all damaged copies.
pub(super) struct Template {
    /// Earlier states of the files.
    pub(super) older: Files,
    /// One that was stopped in order and has no log to replay, and one that was killed and has some.
    pub(super) databases: [Database; 2],
    pub(super) backup: PathBuf,
}

impl Lab<'_> {
    /// Makes the template, and restores its backup undamaged.
    pub(super) fn template(&mut self) -> anyhow::Result<Template> {
        let (data, killed) = (self.dir.join("stopped-in-order"), self.dir.join("killed"));
        let port = Port::keep()?;
        let listen = [format!("server.replica_listen={}", port.address()), "training.read_share=0".to_owned()];
        let server = self.start(&data, &listen)?;
        let mut client = server.connect()?;
        bank::create(&mut client)?;
        let mut journals = vec![self.load(&server, TRANSACTIONS)?];
        client.batch_execute("CHECKPOINT")?;
        // A replica that was connected leaves a slot and a consumer of the log.
        visit(&self.plan.server, &data, &super::SETTINGS.map(str::to_owned), &port, &mut client)?;
        drop(client);
        server.stop()?;
        let older = files::read(&data)?;
        let server = self.start(&data, &listen)?;
        for _ in 0..3 {
            journals.push(self.load(&server, TRANSACTIONS)?);
            server.connect()?.batch_execute("CHECKPOINT")?;
        }
        journals.push(self.load(&server, TRANSACTIONS)?);
        let backup = self.backup("template", &server)?.map_err(|said| anyhow!("no backup: {said}"))?;
        let of_backup = journals.clone();
        journals.push(self.load(&server, 20)?);
        server.stop()?;
        files::copy(&data, &killed)?;
        let mut journals_of_killed = journals.clone();
        let server = self.start(&killed, &[])?;
        journals_of_killed.push(self.load(&server, TRANSACTIONS)?);
        server.kill()?;
        // The backup must be whole before it is damaged.
        let restored = self.restore(&backup)?.map_err(|said| anyhow!("no restore: {said}"))?;
        let server = self.start(&restored, &[])?;
        bank::verify(&mut server.connect()?, &of_backup, true)?;
        drop(server);
        let stopped = Database { data, journals };
        Ok(Template { older, databases: [stopped, Database { data: killed, journals: journals_of_killed }], backup })
    }

    /// Runs transactions of one client, which are all acknowledged.
    pub(super) fn load(&mut self, server: &Server, transactions: u64) -> anyhow::Result<Journal> {
        self.clients += 1;
        let mut journal = Journal::new(self.clients, true);
        let mut client = server.connect()?;
        for _ in 0..transactions {
            let seq = journal.intend();
            bank::transaction(&mut client, journal.client, seq, false, &mut self.random)?;
            journal.settle(Outcome::Acknowledged);
        }
        Ok(journal)
    }
}
