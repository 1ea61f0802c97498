//! `collie sql`: a small shell. For everything that a full client does, use psql on a running server.

use std::{io::IsTerminal, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, bail};
use collie::{progress::Recovery, serve};
use collie_engine::EngineError;
use collie_env::Env;
use collie_sql::{
    analyze::bound::ResultColumn,
    error::{Report, Result as SqlResult, SqlError},
    session::{
        Client, CopyInput, Database, Formats, NoticeLevel, OpenError, Session,
        settings::{RESERVED_CONNECTION, Settings},
    },
    types::{Value, io as text_io, io::TextContext, oid},
};

use crate::render::Table;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Open this data directory in this process; no server may have it open.
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    data: Option<PathBuf>,
    /// A running server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Run this SQL and exit; without it, read statements from the terminal or standard input.
    #[arg(short, long, value_name = "SQL")]
    command: Option<String>,
    /// With --data: make a new database if there is none in the directory.
    #[arg(long, requires = "data", conflicts_with = "read_only")]
    create: bool,
    /// With --data: open the directory without writing a byte to it, even where nothing can be written.
    #[arg(long, requires = "data")]
    read_only: bool,
    /// With --data: one setting, such as wal.recovery_mode=point_in_time.
    #[arg(long, value_name = "KEY=VALUE", requires = "data")]
    set: Vec<String>,
}

pub(crate) const DEFAULT_URL: &str = "postgresql://collie@127.0.0.1:5433/collie";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(8 << 20)
        .enable_all()
        .build()
        .context("cannot start a thread")?;
    let mut target = match &args.data {
        Some(data) => Target::Embedded(Box::new(Embedded::open(data, &args)?)),
        None => {
            let url = args.url.as_deref().unwrap_or(DEFAULT_URL);
            Target::Remote(runtime.block_on(connect(url))?)
        }
    };
    let failed = match args.command {
        Some(sql) => !runtime.block_on(target.run(&sql)),
        None => read_statements(&mut target, &runtime)?,
    };
    target.close()?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reads statements until the end of input; returns whether one failed (which matters to scripts only).
fn read_statements(target: &mut Target, runtime: &tokio::runtime::Runtime) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let text = std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?;
        return Ok(!runtime.block_on(target.run(&text)));
    }
    println!("collie {}. End a statement with ; and leave with \\q.", env!("CARGO_PKG_VERSION"));
    let mut editor = rustyline::DefaultEditor::new().context("cannot use the terminal")?;
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "collie=> " } else { "collie-> " };
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(rustyline::error::ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(rustyline::error::ReadlineError::Eof) => return Ok(false),
            Err(error) => bail!("cannot read the terminal: {error}"),
        };
        if text.is_empty() && matches!(line.trim(), "\\q" | "quit" | "exit") {
            return Ok(false);
        }
        if text.is_empty() && line.trim().starts_with('\\') {
            eprintln!("error: backslash commands are psql's: use psql on a running server");
            continue;
        }
        text.push_str(&line);
        text.push('\n');
        if line.trim_end().ends_with(';') {
            let _ = editor.add_history_entry(text.trim());
            runtime.block_on(target.run(&text));
            text.clear();
        }
    }
}

enum Target {
    Embedded(Box<Embedded>),
    Remote(tokio_postgres::Client),
}

impl Target {
    /// Runs a string of statements and prints the results; returns false if one failed.
    async fn run(&mut self, sql: &str) -> bool {
        match self {
            Self::Embedded(embedded) => {
                let mut printer = Printer::default();
                embedded.session.simple_query(sql, &mut printer).await;
                !printer.failed
            }
            Self::Remote(client) => run_remote(client, sql).await,
        }
    }

    fn close(self) -> anyhow::Result<()> {
        if let Self::Embedded(embedded) = self {
            let Embedded { session, database } = *embedded;
            drop(session);
            database.close()?;
        }
        Ok(())
    }
}

struct Embedded {
    session: Session,
    database: Arc<Database>,
}

impl Embedded {
    fn open(data: &std::path::Path, args: &Args) -> anyhow::Result<Self> {
        let mut config = serve::settings(None, &args.set)?;
        config.engine.read_only = args.read_only;
        config.engine.create_if_missing = args.create;
        let env = Env::real();
        let clock = env.clock.clone();
        let mut recovery = Recovery::new(&*clock, |line| eprintln!("{line}"));
        let defaults: Settings = config.session.clone();
        let opened = Database::open(data, config.engine, env, defaults, &mut |progress| recovery.report(progress));
        recovery.finish();
        let (database, report) = match opened {
            Err(OpenError::Engine(EngineError::NotFound { path })) => {
                bail!("no database in {}: name the right directory, or make a new one with --create", path.display())
            }
            opened => opened?,
        };
        for notice in &report.notices {
            eprintln!("{notice}");
        }
        let session = database.connect("collie", "collie sql", None)?;
        Ok(Self { session, database })
    }
}

/// Prints the answers of a session.
#[derive(Default)]
struct Printer {
    table: Option<Table>,
    failed: bool,
}

impl Client for Printer {
    fn columns(&mut self, columns: &[ResultColumn], _formats: &Formats) {
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let right = columns.iter().map(|column| is_number(column.ty.oid)).collect();
        self.table = Some(Table { names, right, rows: Vec::new() });
    }

    fn row(
        &mut self,
        values: &[Value],
        columns: &[ResultColumn],
        _formats: &Formats,
        text: &TextContext,
    ) -> SqlResult<()> {
        let cell = |(value, column): (&Value, &ResultColumn)| {
            if value.is_null() {
                return None;
            }
            let mut out = Vec::new();
            text_io::text_out(value, column.ty.oid, text, &mut out);
            Some(String::from_utf8_lossy(&out).into_owned())
        };
        let row = values.iter().zip(columns).map(cell).collect();
        self.table.get_or_insert_with(Table::default).rows.push(row);
        Ok(())
    }

    fn complete(&mut self, tag: &str) {
        match self.table.take() {
            Some(table) => table.print(),
            None => println!("{tag}"),
        }
    }

    fn empty(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, level: NoticeLevel, report: &Report) {
        let level = if level == NoticeLevel::Warning { "WARNING" } else { "NOTICE" };
        eprintln!("{level}:  {}", report.message);
    }

    fn error(&mut self, error: &SqlError, text: &str) {
        self.failed = true;
        self.table = None;
        print_error(error.state().as_str(), error.report(), text);
    }

    fn copy_in(&mut self, _columns: usize) {}

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, data: &[u8]) {
        print!("{}", String::from_utf8_lossy(data));
    }

    fn copy_done(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }

    async fn drain(&mut self) -> SqlResult<()> {
        Ok(())
    }

    async fn next_copy(&mut self) -> SqlResult<CopyInput> {
        Ok(CopyInput::Fail("this shell has no COPY input: use psql on a running server".to_owned()))
    }
}

fn print_error(state: &str, report: &Report, text: &str) {
    eprintln!("ERROR:  {state}: {}", report.message);
    if let Some(at) = report.position.and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= text.len()) {
        let start = text[..at].rfind('\n').map_or(0, |line| line + 1);
        let end = text[at..].find('\n').map_or(text.len(), |line| at + line);
        eprintln!("{}\n{}^", &text[start..end], " ".repeat(text[start..at].chars().count()));
    }
    for (label, line) in [("DETAIL", &report.detail), ("HINT", &report.hint), ("CONTEXT", &report.context)] {
        if let Some(line) = line {
            eprintln!("{label}:  {line}");
        }
    }
}

fn is_number(ty: u32) -> bool {
    matches!(ty, oid::INT2 | oid::INT4 | oid::INT8 | oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC | oid::OID)
}

pub(crate) async fn connect(url: &str) -> anyhow::Result<tokio_postgres::Client> {
    let connected = match url.parse::<tokio_postgres::Config>() {
        Ok(config) => connect_as_operator(&config).await,
        Err(error) => Err(error),
    };
    let (client, connection) = connected.map_err(|error| {
        match error.as_db_error() {
            // The server answers and refuses the session: a start, too many connections, an unknown name.
            Some(refusal) => {
                let detail = refusal.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
                anyhow::anyhow!("{url} refuses the connection: {}{detail}", refusal.message())
            }
            None => anyhow::anyhow!(
                "cannot connect to {url}: {}: is the server running? Start it with `collie serve`",
                cause(&error)
            ),
        }
    })?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

type Connected =
    (tokio_postgres::Client, tokio_postgres::Connection<tokio_postgres::Socket, tokio_postgres::tls::NoTlsStream>);

/// Connects; if other clients use all connections, to one that is reserved for operators.
async fn connect_as_operator(config: &tokio_postgres::Config) -> Result<Connected, tokio_postgres::Error> {
    let connected = config.connect(tokio_postgres::NoTls).await;
    let is_full =
        |error: &tokio_postgres::Error| error.code() == Some(&tokio_postgres::error::SqlState::TOO_MANY_CONNECTIONS);
    if !connected.as_ref().is_err_and(is_full) {
        return connected;
    }
    let options = format!("{} -c {RESERVED_CONNECTION}=on", config.get_options().unwrap_or_default());
    config.clone().options(options.trim_start()).connect(tokio_postgres::NoTls).await
}

/// Returns the innermost cause of an error, which says what happened.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

async fn run_remote(client: &tokio_postgres::Client, sql: &str) -> bool {
    use tokio_postgres::SimpleQueryMessage;
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => {
            match error.as_db_error() {
                Some(db) => {
                    eprintln!("ERROR:  {}: {}", db.code().code(), db.message());
                    for (label, line) in [("DETAIL", db.detail()), ("HINT", db.hint())] {
                        if let Some(line) = line {
                            eprintln!("{label}:  {line}");
                        }
                    }
                }
                None => eprintln!("error: {}", cause(&error)),
            }
            return false;
        }
    };
    let mut table: Option<Table> = None;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let names = columns.iter().map(|column| column.name().to_owned()).collect();
                table = Some(Table { names, ..Table::default() });
            }
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect();
                table.get_or_insert_with(Table::default).rows.push(cells);
            }
            SimpleQueryMessage::CommandComplete(rows) => match table.take() {
                Some(table) => table.print(),
                None => println!("OK {rows}"),
            },
            _ => {}
        }
    }
    true
}
