//! Checks how the program reacts to rot, by the oracles of the parent module.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};

use super::{
    Lab,
    damage::Rot,
    files::{self, Files, Kind},
    template::{Database, Template},
};
use crate::{
    bank,
    journal::{Journal, Outcome},
    server::Server,
};

impl Lab<'_> {
    /// R1, R2, R5.
    pub(super) fn stopped_server_rots(&mut self, template: &Template) -> anyhow::Result<()> {
        let database = &template.databases[usize::try_from(self.random.below(2))?];
        let data = self.dir.join("stopped");
        files::copy(&database.data, &data)?;
        let Some(rot) = Rot::plant(&data, &template.older, |_| true, &mut self.random)? else { return Ok(()) };
        self.tally(rot.kind).damaged += 1;
        self.judge_start(&data, &rot, database).with_context(|| rot.to_string())
    }

    /// Starts a server on the damaged directory, twice, and checks its rows.
    fn judge_start(&mut self, data: &Path, rot: &Rot, database: &Database) -> anyhow::Result<()> {
        let mut journals = database.journals.clone();
        let Ok(server) = self.start(data, &[]) else {
            self.tally(rot.kind).refused += 1;
            return self.judge_refusal(data, &journals);
        };
        let mut client = server.connect()?;
        if let Err(error) = bank::verify(&mut client, &journals, true) {
            // The exception in R1: only the last commit may be missing.
            let said = self.said(data)?;
            let silent = || format!("silently wrong; the server said: {said}");
            ensure!(said.contains("wal: dropped an unfinished flush"), error.context(silent()));
            let last = journals.last_mut().and_then(|journal| journal.outcomes.last_mut());
            *last.context("there are transactions")? = Outcome::Unknown;
            bank::verify(&mut client, &journals, true).with_context(silent)?;
            self.counts.trimmed += 1;
        }
        journals.push(self.load(&server, 5)?);
        client.batch_execute("CHECKPOINT")?;
        drop(client);
        server.stop()?;
        let server = self.start(data, &[]).context("the second start")?;
        bank::verify(&mut server.connect()?, &journals, true).context("after the second start")?;
        server.stop()?;
        self.said(data).map(drop)
    }

    /// Checks a refused start: a line names a file, and if that is one of the LSM levels, the undamaged tables can be
    /// read.
    fn judge_refusal(&mut self, data: &Path, journals: &[Journal]) -> anyhow::Result<()> {
        let said = self.said(data)?;
        let line = said.lines().last().unwrap_or_default();
        ensure!(line.contains(&data.display().to_string()), "refused without the name of a file: {said}");
        if !line.contains("/levels/") {
            return Ok(());
        }
        let salvaging = ["wal.recovery_mode=skip_any_corrupted_records".to_owned()];
        let server =
            self.start(data, &salvaging).with_context(|| format!("what is whole does not open; before: {line}"))?;
        let mut client = server.connect()?;
        let named = self.said(data)?;
        // R2: a table that no line names has every row.
        let excused = ["table public.receipts", "index public.receipts", "MANIFEST", "definitions of tables"];
        if !excused.iter().any(|line| named.contains(line)) {
            for journal in journals {
                let found = bank::present(&mut client, "receipts", journal.client)?;
                ensure!(
                    found.len() == journal.outcomes.len(),
                    "receipts of client {} are lost in silence: {} of {}; the servers said: {named}",
                    journal.client,
                    found.len(),
                    journal.outcomes.len()
                );
            }
        }
        self.counts.salvaged += 1;
        Ok(())
    }

    /// R3, R5.
    pub(super) fn running_server_rots(&mut self, template: &Template) -> anyhow::Result<()> {
        let database = &template.databases[usize::try_from(self.random.below(2))?];
        let data = self.dir.join("running");
        files::copy(&database.data, &data)?;
        let server = self.start(&data, &[])?;
        let Some(rot) = Rot::plant(&data, &template.older, Kind::is_of_levels, &mut self.random)? else {
            return Ok(());
        };
        self.tally(rot.kind).damaged += 1;
        let outcome = self.judge_running(&data, server, &rot, &database.journals);
        outcome.with_context(|| format!("{rot}, of a running server"))
    }

    fn judge_running(&mut self, data: &Path, server: Server, rot: &Rot, journals: &[Journal]) -> anyhow::Result<()> {
        let mut all = journals.to_vec();
        all.push(self.load(&server, 5)?);
        if self.random.below(2) == 0 {
            server.connect()?.batch_execute("CHECKPOINT")?;
        }
        match self.backup("running", &server)? {
            Ok(backup) => {
                let verified = self.collie(&["backup", "verify", &backup.display().to_string()])?;
                verified.map_err(|said| anyhow!("a backup that was made is not whole: {said}"))?;
                let restored = self.restore(&backup)?;
                let restored = restored.map_err(|said| anyhow!("a backup that verifies is not restored: {said}"))?;
                let copy = self.start(&restored, &[]).context("what was restored does not open")?;
                bank::verify(&mut copy.connect()?, &all, true).context("of what was restored")?;
            }
            Err(said) => {
                ensure!(said.contains("/levels/"), "a backup is refused, and the file is not named: {said}");
                self.tally(rot.kind).refused += 1;
            }
        }
        bank::verify(&mut server.connect()?, &all, true).context("of the running server")?;
        server.stop()?;
        if self.said(data)?.contains("quarantine") {
            self.tally(rot.kind).mended += 1;
        }
        let again = match self.start(data, &[]) {
            Ok(again) => again,
            // Only the background pass checks a running server's MANIFEST, and the stop may have come before it.
            Err(_) if rot.kind == Kind::Manifest => return self.judge_refusal(data, &all),
            Err(error) => return Err(error.context("it does not start again")),
        };
        bank::verify(&mut again.connect()?, &all, true).context("after the next start")?;
        again.stop()
    }

    /// R4.
    pub(super) fn backup_rots(&mut self, template: &Template) -> anyhow::Result<()> {
        let backup = self.copies().join("rotten");
        files::copy(&template.backup, &backup)?;
        let Some(rot) = Rot::plant(&backup, &Files::new(), |_| true, &mut self.random)? else { return Ok(()) };
        self.tally(rot.kind).damaged += 1;
        let Err(said) = self.collie(&["backup", "verify", &backup.display().to_string()])? else {
            return Err(anyhow!("R4: {rot} is not found by backup verify"));
        };
        ensure!(said.contains(&rot.name), "R4: {rot} is not named by backup verify: {said}");
        self.tally(rot.kind).refused += 1;
        ensure!(self.restore(&backup)?.is_err(), "R4: a backup with {rot} is restored");
        Ok(())
    }
}
