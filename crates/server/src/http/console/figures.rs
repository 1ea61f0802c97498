//! [`figures`]: the data of the page: rows of views, read by a session that exists for one answer.
//!
//! It is not a source of its own: any client that runs the same statements gets the same figures. A view that a server
//! lacks, or that does not answer in time, is replaced by its error.

use std::sync::Arc;

use collie_sql::{
    catalog::snapshot::COLLIE_TRAINING,
    session::{Database, Session},
};
use serde_json::{Map, Value as Json, json};
use tokio::runtime::Handle;

use super::rows::Rows;
use crate::http::readiness::Closed;

/// The time limit of one view, in milliseconds.
const STATEMENT_MS: &str = "1000";

/// Views of the server.
const OF_SERVER: [(&str, &str); 5] = [
    ("node", "SELECT * FROM pg_catalog.collie_node"),
    ("health", "SELECT * FROM pg_catalog.collie_health"),
    ("commits", "SELECT * FROM pg_catalog.collie_commits"),
    ("following", "SELECT * FROM pg_catalog.collie_following"),
    ("replication", "SELECT * FROM pg_catalog.collie_replication ORDER BY slot LIMIT 50"),
];

/// Views of its training. Long ones are cut: the page is no archive.
const OF_TRAINING: [(&str, &str); 9] = [
    ("policy", "SELECT * FROM collie_training.policy"),
    ("policy_log", "SELECT * FROM collie_training.policy_log ORDER BY at DESC LIMIT 50"),
    ("units", "SELECT * FROM collie_training.units ORDER BY unit_id LIMIT 100"),
    ("samples", "SELECT * FROM collie_training.samples ORDER BY unit_id, seq DESC LIMIT 100"),
    ("models", "SELECT * FROM collie_training.models ORDER BY file LIMIT 200"),
    ("hardware", "SELECT * FROM collie_training.hardware LIMIT 50"),
    ("decisions", "SELECT * FROM collie_training.decisions ORDER BY at DESC LIMIT 50"),
    ("candidates", "SELECT * FROM collie_training.candidates ORDER BY setting, new_value LIMIT 50"),
    ("reads", "SELECT * FROM collie_training.reads ORDER BY side"),
];

/// Returns the figures of a server with an open database, at `at_us` of a clock of which only differences are
/// meaningful. Blocks: on short locks, and while views read a few files.
pub(in crate::http) fn figures(database: &Arc<Database>, at_us: u64) -> Json {
    // A user's schema of that name, older than the system's, does not belong to the system (O1).
    let is_ours = database.catalog().schema_named("collie_training").is_some_and(|is| is.oid == COLLIE_TRAINING);
    let views = match connect(database) {
        Ok(mut session) => Handle::current().block_on(async {
            let mut views = Map::new();
            for (name, text) in OF_SERVER {
                views.insert(name.to_owned(), rows(&mut session, text).await);
            }
            for (name, text) in OF_TRAINING {
                let shown = if is_ours { rows(&mut session, text).await } else { not_ours() };
                views.insert(name.to_owned(), shown);
            }
            views
        }),
        Err(error) => {
            let failed = |(name, _): (&str, &str)| (name.to_owned(), json!({ "error": error }));
            OF_SERVER.into_iter().chain(OF_TRAINING).map(failed).collect()
        }
    };
    json!({ "version": env!("CARGO_PKG_VERSION"), "at_us": at_us, "views": views })
}

/// Returns the known facts about a server that has no database now.
pub(in crate::http) fn without_database(closed: &Closed, at_us: u64) -> Json {
    json!({
        "version": env!("CARGO_PKG_VERSION"), "at_us": at_us, "closed": closed.why, "percent": closed.percent, "views": {},
    })
}

fn not_ours() -> Json {
    json!({ "error": "a user's schema collie_training hides this server's: rename it" })
}

/// Opens a session for one answer; it is listed like any other session.
fn connect(database: &Arc<Database>) -> Result<Session, String> {
    let opened = database.connect("collie", "collie console", None).and_then(|mut session| {
        session.set_at_connect("statement_timeout", STATEMENT_MS)?;
        session.set_at_connect("timezone", "UTC")?;
        Ok(session)
    });
    opened.map_err(|error| error.to_string())
}

async fn rows(session: &mut Session, text: &str) -> Json {
    let mut rows = Rows::default();
    session.simple_query(text, &mut rows).await;
    rows.json()
}

#[cfg(test)]
mod tests {
    use collie_engine::Options;
    use collie_env::Env;
    use collie_sql::session::settings::Settings;

    use super::*;

    fn database() -> (tempfile::TempDir, Arc<Database>) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("data");
        let (options, settings) = (Options::small(), Settings::default());
        let opened = Database::open(&path, options, Env::real(), settings, &mut |_| ());
        (dir, opened.expect("an empty directory opens").0)
    }

    /// Runs `figures` as the port does: on a thread that may block.
    fn figures_of(database: &Arc<Database>) -> Json {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let database = database.clone();
        runtime.block_on(async move { tokio::task::spawn_blocking(move || figures(&database, 7)).await.unwrap() })
    }

    /// Goal: values have JSON's types where JSON has them, NULL is null, and columns keep their order. Method: a new
    /// database, one row.
    #[test]
    fn rows_are_typed_and_in_order() {
        let (_dir, database) = database();
        let said = figures_of(&database);
        let views = &said["views"];
        assert_eq!((&said["at_us"], &said["version"]), (&json!(7), &json!(env!("CARGO_PKG_VERSION"))));
        let node = &views["node"]["rows"][0];
        assert_eq!((&node["role"], &node["commits"]), (&json!("primary"), &json!(database.node().commits)));
        assert!(node["visible_lsn"].is_string(), "{node}");
        assert_eq!(views["node"]["columns"][0], json!("role"));
        assert_eq!(views["commits"]["rows"][0]["p99_us"], Json::Null);
        assert_eq!(views["models"]["rows"], json!([]));
        database.close().unwrap();
    }

    /// Goal: O1: a user's tables are never read, even if they are named like the system's views. Method: every name is
    /// looked up where only the system's are; a missing view reports that.
    #[test]
    fn every_view_is_the_systems_or_says_that_it_is_not_there() {
        let (_dir, database) = database();
        let said = figures_of(&database);
        for (name, text) in OF_SERVER.into_iter().chain(OF_TRAINING) {
            assert!(text.contains(" FROM pg_catalog.collie_") || text.contains(" FROM collie_training."), "{name}");
            let view = &said["views"][name];
            assert!(view["rows"].is_array() || view["code"] == json!("42P01"), "{name}: {view}");
        }
        database.close().unwrap();
    }
}
