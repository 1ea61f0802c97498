//! The simple query protocol: one string of statements, run in order, in one implicit transaction unless it says BEGIN.

use std::sync::Arc;

use crate::{
    error::Result,
    parse::{Statement, Stmt, ast},
    session::{
        Client, Session,
        prepared::Verb,
        run::Rows,
        transaction::{Block, failed_block},
    },
};

impl Session {
    /// Runs a string of statements. Answers go to `client`, an error included; the caller then says it is ready.
    ///
    /// # Cancel safety
    /// Dropping the future rolls the open transaction back when the session is dropped; a commit that was appended
    /// stays committed.
    pub async fn simple_query<C: Client>(&mut self, text: &str, client: &mut C) {
        let _running = self.running();
        self.begin_message();
        if let Err(error) = self.run_text(text, client).await {
            self.fail();
            client.error(&error, text);
        }
    }

    async fn run_text<C: Client>(&mut self, text: &str, client: &mut C) -> Result<()> {
        let statements = crate::parse::statements(text)?;
        if statements.is_empty() {
            client.empty();
            return Ok(());
        }
        let count = statements.len();
        for (place, Statement { stmt, .. }) in statements.into_iter().enumerate() {
            let last = place + 1 == count;
            let tag = match &stmt {
                Stmt::Transaction(command) => self.transaction_command(command, client).await?.to_owned(),
                _ if self.transaction.block == Block::Failed => return Err(failed_block()),
                _ => self.run_statement(&Arc::new(stmt), client).await?,
            };
            if last && self.transaction.block == Block::Implicit {
                self.commit().await?;
            }
            client.complete(&tag);
        }
        Ok(())
    }

    /// Runs one statement that is no transaction command; returns its command tag.
    async fn run_statement<C: Client>(&mut self, stmt: &Arc<Stmt>, client: &mut C) -> Result<String> {
        let Some(verb) = Verb::of(stmt) else {
            return self.utility(stmt, client).await;
        };
        let planned = self.plan_text(stmt)?;
        if !planned.analyzed.columns.is_empty() || matches!(**stmt, ast::Stmt::Select(_)) {
            client.columns(&planned.analyzed.columns, &[]);
        }
        let rows = self.run(stmt, &[], planned, Vec::new(), Rows::All(&[]), client).await?;
        Ok(verb.tag(rows))
    }
}
