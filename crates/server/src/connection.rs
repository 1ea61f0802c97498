//! One connection: start-up, then messages until the client leaves.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use collie_sql::{
    error::{SqlError, SqlState},
    session::{
        COMMIT_PARAMETER, Client, DATABASE, Database, Session, Status, no_database,
        settings::{RESERVED_CONNECTION, parse_bool},
    },
};
use collie_wire::{Describe, Frontend, Severity, Startup, TransactionStatus};
use tokio::{
    net::TcpStream,
    sync::{Notify, watch},
    time,
};

use crate::{
    client::{Remote, protocol_error},
    half_open::HalfOpen,
};

/// The time from accept to the first ReadyForQuery; no message resets it.
const STARTUP_TIME: time::Duration = time::Duration::from_secs(10);

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) database: Arc<Database>,
    /// The number of sessions.
    pub(crate) connections: AtomicUsize,
    pub(crate) half_open: HalfOpen,
    pub(crate) max_connections: usize,
    /// Further sessions, for clients that ask for a reserved one.
    pub(crate) reserved_connections: usize,
    pub(crate) max_message_bytes: usize,
    /// Becomes true when the server shuts down.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// Counts a session until it is dropped.
struct Counted<'a>(&'a Shared);

impl<'a> Counted<'a> {
    /// Counts one more session; one that `asks_for_reserved` may take a reserved place.
    ///
    /// # Errors
    /// 53300 if the maximum is reached.
    fn new(shared: &'a Shared, asks_for_reserved: bool) -> Result<Self, SqlError> {
        let before = shared.connections.fetch_add(1, Ordering::AcqRel);
        let counted = Self(shared);
        let reserved = if asks_for_reserved { shared.reserved_connections } else { 0 };
        if before < shared.max_connections.saturating_add(reserved) {
            return Ok(counted);
        }
        let refused = SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        Err(if asks_for_reserved {
            refused.hint("The reserved connections are in use too: close some, or raise server.reserved_connections.")
        } else {
            refused.hint(format!(
                "Close connections, or raise server.max_connections. An operator gets in with PGOPTIONS='-c {RESERVED_CONNECTION}=on'."
            ))
        })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The reason why a connection's loop ended.
enum End {
    /// The client left or violated the protocol; any error was sent.
    Gone,
    /// The server shuts down, or another session ended this one.
    Stopping,
    /// The client took too long.
    Late(SqlError),
}

/// Serves one connection to its end.
pub(crate) async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let _ = socket.set_nodelay(true);
    let mut remote = Remote::new(socket, shared.max_message_bytes);
    let mut stopping = shared.stopping.clone();
    let place = shared.half_open.enter();
    let started = tokio::select! {
        started = time::timeout(STARTUP_TIME, start(&mut remote, &shared)) => started.ok().flatten(),
        () = place.ended() => None,
    };
    drop(place);
    if let Some((mut session, _counted)) = started {
        let end = run(&mut remote, &mut session, &mut stopping).await;
        // Rolled back before the client is notified: a client that learns of the end finds the locks free.
        session.end().await;
        drop(session);
        let is_told = remote.ended || !matches!(end, End::Gone);
        match end {
            End::Gone => {}
            End::Stopping => {
                remote.fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command");
            }
            End::Late(error) => remote.report(Severity::Fatal, error.report(), ""),
        }
        if is_told {
            remote.linger().await;
        }
    }
    remote.shut().await;
}

/// Performs the start-up: answers TLS and cancel requests, then makes a session. Returns `None` if there is to be none.
async fn start<'a>(remote: &mut Remote, shared: &'a Shared) -> Option<(Session, Counted<'a>)> {
    let address = remote.address();
    loop {
        let session = match remote.input.next() {
            Ok(None) => {
                if !remote.fill().await.ok()? {
                    return None;
                }
                continue;
            }
            Ok(Some(Frontend::SslRequest | Frontend::GssEncRequest)) => {
                remote.output.encryption_refused();
                remote.flush().await.ok()?;
                continue;
            }
            // Another connection's query is cancelled; the request itself gets no answer.
            Ok(Some(Frontend::Cancel { pid, secret })) => {
                shared.database.cancel(pid, secret);
                return None;
            }
            Ok(Some(Frontend::Startup(startup))) => connect(&startup, shared, address).map(|session| {
                let unknown = startup.parameters.iter().map(|(name, _)| *name).filter(|name| name.starts_with("_pq_."));
                let newer = startup.minor > 0;
                (session, unknown.map(str::to_owned).collect::<Vec<_>>(), newer)
            }),
            Ok(Some(_)) => Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "expected a startup message")),
            Err(error) => Err(protocol_error(&error)),
        };
        match session {
            Ok(((mut session, counted), unknown, newer)) => {
                if newer || !unknown.is_empty() {
                    remote.output.negotiate_protocol(&unknown.iter().map(String::as_str).collect::<Vec<_>>());
                }
                greet(remote, &mut session);
                remote.flush().await.ok()?;
                return Some((session, counted));
            }
            Err(error) => {
                remote.report(Severity::Fatal, error.report(), "");
                return None;
            }
        }
    }
}

fn connect<'a>(
    startup: &Startup<'_>,
    shared: &'a Shared,
    address: Option<SocketAddr>,
) -> Result<(Session, Counted<'a>), SqlError> {
    let find = |name: &str| startup.parameters.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    let options = find("options").map(command_line_settings).transpose()?.unwrap_or_default();
    let given = startup.parameters.iter().map(|(name, value)| (*name, *value));
    let mut given = given.chain(options.iter().map(|(name, value)| (&**name, &**value)));
    let asked = given.rfind(|(name, _)| name.eq_ignore_ascii_case(RESERVED_CONNECTION));
    // A value that is no Boolean is refused below.
    let counted = Counted::new(shared, asked.is_some_and(|(_, value)| parse_bool(value) == Some(true)))?;
    let Some(user) = find("user").filter(|user| !user.is_empty()) else {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    };
    let database = find("database").filter(|name| !name.is_empty()).unwrap_or(user);
    if user != "collie" {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            format!("role \"{user}\" does not exist"),
        )
        .hint("Until roles exist there is one user: collie."));
    }
    if database != DATABASE {
        return Err(no_database(database));
    }
    if find("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0")) {
        return Err(SqlError::unsupported("a replication connection"));
    }
    let application = find("application_name").unwrap_or("");
    let mut session = shared.database.connect(user, application, address)?;
    for (name, value) in &startup.parameters {
        match *name {
            "user" | "database" | "replication" | "application_name" => {}
            "options" => {
                for (name, value) in &options {
                    session.set_at_connect(name, value)?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => session.set_at_connect(name, value)?,
        }
    }
    Ok((session, counted))
}

/// Parses `-c name=value`, `--name=value` and `-e` in the `options` of a startup packet; a backslash escapes a blank.
fn command_line_settings(options: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            c if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    let refused = |text: String| SqlError::new(SqlState::SYNTAX_ERROR, text);
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (flag, pair) = if word == "-c" {
            ("-c ", words.next().ok_or_else(|| refused("option -c requires an argument".to_owned()))?)
        } else if let Some(pair) = word.strip_prefix("-c") {
            ("-c ", pair.to_owned())
        } else if let Some(pair) = word.strip_prefix("--") {
            ("--", pair.to_owned())
        } else if word == "-e" {
            ("-c ", "datestyle=euro".to_owned())
        } else {
            return Err(refused(format!("invalid command-line argument for server process: {word}")));
        };
        let (name, value) = pair.split_once('=').ok_or_else(|| refused(format!("{flag}{pair} requires a value")))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn greet(remote: &mut Remote, session: &mut Session) {
    remote.output.authentication_ok();
    for (name, value) in session.all_parameters() {
        remote.output.parameter_status(name, &value);
    }
    remote.output.backend_key(session.pid(), session.secret());
    ready(remote, session);
}

fn ready(remote: &mut Remote, session: &mut Session) {
    if remote.ended || session.is_told_to_end() {
        // The end of the session follows, not another message.
        return;
    }
    for (name, value) in session.parameters_to_report() {
        remote.output.parameter_status(name, &value);
    }
    if let Some(token) = session.commit_to_report() {
        remote.output.parameter_status(COMMIT_PARAMETER, &token);
    }
    remote.is_ready = true;
    remote.warnings_only = matches!(session.settings().get("client_min_messages"), "warning" | "error");
    remote.output.ready_for_query(match session.status() {
        Status::Idle => TransactionStatus::Idle,
        Status::InBlock => TransactionStatus::InBlock,
        Status::Failed => TransactionStatus::Failed,
    });
    remote.answered = remote.output.len();
}

/// Answers messages until the client leaves or the server stops.
async fn run(remote: &mut Remote, session: &mut Session, stopping: &mut watch::Receiver<bool>) -> End {
    // After an error in the extended protocol, messages up to Sync are skipped.
    let mut skipping = false;
    // Another session may end this one while it waits for its client.
    let told_to_end = Arc::new(Notify::new());
    let waker = told_to_end.clone();
    session.on_told_to_end(move || waker.notify_one());
    // The time by which the client's next message must be complete, and the error otherwise; set while the session
    // waits for it.
    let mut due: Option<(time::Instant, SqlError)> = None;
    loop {
        if remote.ended {
            return End::Gone; // the client was sent the reason
        }
        if *stopping.borrow() || session.is_told_to_end() {
            return End::Stopping;
        }
        match remote.input.has_message() {
            true => {
                due = None;
                remote.is_ready = false;
                if let Some(end) = answer(remote, session, &mut skipping).await {
                    return end;
                }
                if remote.is_full() && remote.flush().await.is_err() {
                    return End::Gone;
                }
            }
            false => {
                // Everything received is answered: one write sends all answers.
                if remote.flush().await.is_err() {
                    return End::Gone;
                }
                if due.is_none() {
                    let limit = session.idle_limit(remote.is_ready);
                    due = limit.map(|limit| (time::Instant::now() + limit.after, limit.error));
                }
                tokio::select! {
                    filled = remote.fill() => match filled {
                        Ok(true) => {}
                        Ok(false) | Err(_) => return End::Gone,
                    },
                    _ = stopping.wait_for(|stopping| *stopping) => return End::Stopping,
                    () = told_to_end.notified() => return End::Stopping,
                    error = late(due.as_ref()) => return End::Late(error),
                }
            }
        }
    }
}

/// Returns the error once it is due; never returns without one.
async fn late(due: Option<&(time::Instant, SqlError)>) -> SqlError {
    match due {
        Some((at, error)) => {
            time::sleep_until(*at).await;
            error.clone()
        }
        None => std::future::pending().await,
    }
}

/// Answers the next message.
async fn answer(remote: &mut Remote, session: &mut Session, skipping: &mut bool) -> Option<End> {
    let Remote { input, output, .. } = remote;
    let message = match input.next() {
        Ok(Some(message)) => message,
        Ok(None) => return None,
        Err(error) if error.fatal => {
            remote.report(Severity::Fatal, protocol_error(&error).report(), "");
            return Some(End::Gone);
        }
        Err(error) => {
            if !*skipping {
                fail(remote, session, &protocol_error(&error), "").await;
                // No Sync follows a broken Query; one follows every other message.
                *skipping = !remote.input.last_was_query();
                if !*skipping {
                    ready(remote, session);
                }
            }
            return None;
        }
    };
    // After an error only Sync ends the skipping.
    if *skipping {
        match message {
            Frontend::Sync | Frontend::Terminate => {}
            _ => return None,
        }
    }
    match message {
        Frontend::Query(text) => {
            let text = text.to_owned();
            session.simple_query(&text, remote).await;
            ready(remote, session);
        }
        Frontend::Parse { name, query, types } => match session.parse(name, query, &types.collect::<Vec<_>>()).await {
            Ok(()) => output.parse_complete(),
            Err(error) => {
                let text = query.to_owned();
                fail(remote, session, &error, &text).await;
                *skipping = true;
            }
        },
        Frontend::Bind(bind) => {
            let formats = bind.result_formats.codes().collect();
            let value_formats = bind.value_formats;
            let values = bind.values.clone().collect::<Vec<_>>();
            let format = |place| value_formats.code(place);
            match session.bind(bind.portal, bind.statement, values.into_iter(), format, formats) {
                Ok(()) => output.bind_complete(),
                Err(error) => {
                    fail(remote, session, &error, "").await;
                    *skipping = true;
                }
            }
        }
        Frontend::Describe(what) => {
            let described = match what {
                Describe::Statement(name) => session.describe_statement(name).inspect(|found| {
                    output.parameter_description(&found.parameters);
                }),
                Describe::Portal(name) => session.describe_portal(name),
            };
            match described {
                Ok(found) => match found.columns {
                    Some(columns) => remote.describe(&columns, &found.formats),
                    None => remote.output.no_data(),
                },
                Err(error) => {
                    fail(remote, session, &error, "").await;
                    *skipping = true;
                }
            }
        }
        Frontend::Execute { portal, max_rows } => {
            let portal = portal.to_owned();
            let text = session.portal_text(&portal);
            if let Err(error) = session.execute(&portal, max_rows, remote).await {
                fail(remote, session, &error, text.as_deref().unwrap_or("")).await;
                *skipping = true;
            }
        }
        Frontend::Close(what) => {
            match what {
                Describe::Statement(name) => session.close_statement(name),
                Describe::Portal(name) => session.close_portal(name),
            }
            output.close_complete();
        }
        Frontend::Sync => {
            *skipping = false;
            if let Err(error) = session.sync(remote).await {
                if error.ends_session() {
                    // No answer since the last ReadyForQuery is valid: whether their commit holds is unknown.
                    remote.output.truncate(remote.answered);
                }
                fail(remote, session, &error, "").await;
            }
            ready(remote, session);
        }
        Frontend::Flush => {
            if remote.flush().await.is_err() {
                return Some(End::Gone);
            }
        }
        // The rest of a COPY that failed.
        Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
        Frontend::Terminate => return Some(End::Gone),
        Frontend::FunctionCall => {
            fail(remote, session, &SqlError::unsupported("the function call message"), "").await;
            ready(remote, session);
        }
        Frontend::Password(_)
        | Frontend::Startup(_)
        | Frontend::SslRequest
        | Frontend::GssEncRequest
        | Frontend::Cancel { .. } => {
            remote.fatal(SqlState::PROTOCOL_VIOLATION, "unexpected message in a running session");
            return Some(End::Gone);
        }
    }
    None
}

async fn fail(remote: &mut Remote, session: &mut Session, error: &SqlError, text: &str) {
    session.failed().await;
    if error.ends_session() || !session.is_told_to_end() {
        remote.error(error, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: settings in a startup packet's options are read in libpq's notation, and no part of them is ignored.
    /// Method: table.
    #[test]
    fn startup_options_are_read_or_refused() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let read = r"-c synchronous_commit=off -cstatement_timeout=0 --search-path=a,\ b -e";
        assert_eq!(
            command_line_settings(read).expect("well formed"),
            [
                pair("synchronous_commit", "off"),
                pair("statement_timeout", "0"),
                pair("search_path", "a, b"),
                pair("datestyle", "euro")
            ]
        );
        for refused in ["nonsense", "-c", "-c datestyle", "--datestyle", "-z"] {
            let error = command_line_settings(refused).expect_err(refused);
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{refused}");
        }
    }
}
