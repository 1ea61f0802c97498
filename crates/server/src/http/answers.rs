//! The requests of the HTTP port, and their answers.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 as long as the process runs |
//! | `/readyz` | 200 when clients are served, else 503; a line per reason and warning; with `?strict` both give 503 |
//! | `/metrics` | the figures, in Prometheus' text format |
//! | `/`, `/console/..` | a page that shows them, and its files |
//! | `/console.json` | the data that the page shows |
//!
//! # Invariants
//! - Q2. Nothing is answered under a host name that may not belong to this machine (`console::is_for_here`): otherwise
//!   a foreign page whose name was made to resolve to this machine could read it.
//! - Q1. Figures are gathered by one thread at a time, in addition to those that run sessions; a request waits
//!   [`GATHER_TIME`] at most: a log that hangs in a flush holds up one thread, not one for each request.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use collie_env::Clock;
use collie_sql::catalog::system::{Severity, Trouble};
use hyper::{
    Method, Response, StatusCode, Uri,
    header::{
        ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
        HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

use super::{
    Readiness,
    console::{self, Page},
    metrics,
};

/// How long a request waits for figures.
const GATHER_TIME: Duration = Duration::from_secs(3);

const TEXT: &str = "text/plain; charset=utf-8";

/// The content type that Prometheus expects for its text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

const JSON: &str = "application/json; charset=utf-8";

/// Limits of the server, for comparison with its figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `server.max_connections`.
    pub(crate) connections_max: usize,
}

/// Answers requests.
pub(super) struct Answers {
    stage: Arc<Readiness>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    /// Held while figures are gathered (Q1).
    gathering: Arc<Semaphore>,
    /// [`GATHER_TIME`].
    patience: Duration,
}

/// The figures were not ready in time.
struct Late;

impl Late {
    fn words() -> String {
        format!("the log or the store has not answered for {} s", GATHER_TIME.as_secs())
    }
}

impl Answers {
    pub(super) fn new(stage: Arc<Readiness>, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self { stage, limits, clock, gathering: Arc::new(Semaphore::new(1)), patience: GATHER_TIME }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<String> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut answer = said(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n".to_owned());
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if !console::is_for_here(headers) {
            return misdirected();
        }
        match uri.path() {
            "/healthz" => said(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => self.readyz(uri.query() == Some("strict")).await,
            "/metrics" => self.metrics().await,
            "/console.json" => self.console(headers).await,
            path => match console::page(path) {
                Some(page) => shown(page),
                None => {
                    let there = "there are /, /console.json, /healthz, /readyz and /metrics\n";
                    said(StatusCode::NOT_FOUND, TEXT, there.to_owned())
                }
            },
        }
    }

    async fn readyz(&self, is_strict: bool) -> Response<String> {
        let database = match self.stage.now() {
            Ok(database) => database,
            Err(closed) => return readiness(&[failure(closed.why)], is_strict),
        };
        match self.gather(move || database.health()).await {
            Ok(troubles) => readiness(&troubles, is_strict),
            Err(Late) => readiness(&[failure(Late::words())], is_strict),
        }
    }

    async fn metrics(&self) -> Response<String> {
        let limits = self.limits;
        let gathered = match self.stage.now() {
            Ok(database) => self.gather(move || metrics::of(&database, limits)).await,
            Err(closed) => Ok(metrics::without_database(&closed)),
        };
        match gathered {
            Ok(text) => said(StatusCode::OK, EXPOSITION, text),
            Err(Late) => said(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", Late::words())),
        }
    }

    /// Returns the data of the page; pages of this machine may read it across origins.
    async fn console(&self, headers: &HeaderMap) -> Response<String> {
        let clock = self.clock.clone();
        let at_us = move || clock.now_ns() / 1000;
        let gathered = match self.stage.now() {
            Ok(database) => self.gather(move || console::figures(&database, at_us()).to_string()).await,
            Err(closed) => Ok(console::without_database(&closed, at_us()).to_string()),
        };
        let mut answer = match gathered {
            Ok(text) => said(StatusCode::OK, JSON, text),
            Err(Late) => said(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{}\n", Late::words())),
        };
        let given = answer.headers_mut();
        given.insert(VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = console::allowed_origin(headers) {
            given.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        }
        answer
    }

    /// Runs `look` on its own thread (Q1).
    async fn gather<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> Result<T, Late> {
        let gathered = async {
            let one = self.gathering.clone().acquire_owned().await.ok()?;
            // The request may time out; the thread continues, and keeps the permit until it is done.
            let done = spawn_blocking(move || {
                let _one = one;
                look()
            });
            done.await.ok()
        };
        timeout(self.patience, gathered).await.ok().flatten().ok_or(Late)
    }
}

fn failure(reason: String) -> Trouble {
    Trouble { severity: Severity::Failure, subject: "server", reason }
}

/// Returns whether clients are served, and a line for each trouble.
fn readiness(troubles: &[Trouble], is_strict: bool) -> Response<String> {
    let is_ready = if is_strict { troubles.is_empty() } else { is_ready(troubles) };
    let mut text = if is_ready { "ready\n".to_owned() } else { "not ready\n".to_owned() };
    for Trouble { severity, subject, reason } in troubles {
        // Reasons contain texts of devices and peers: each is reduced to one line.
        let reason = reason.replace(['\n', '\r'], " ");
        let _infallible = writeln!(text, "{}: {subject}: {reason}", severity.word());
    }
    said(if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, TEXT, text)
}

/// Returns the answer to a request under a host name that may not belong to this machine.
fn misdirected() -> Response<String> {
    let why = "this is answered under names of this machine only: 127.0.0.1, [::1], localhost\n";
    said(StatusCode::MISDIRECTED_REQUEST, TEXT, why.to_owned())
}

/// Returns a file of the page.
fn shown(page: Page) -> Response<String> {
    let mut answer = said(StatusCode::OK, page.kind, page.text.to_owned());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(console::POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}

fn said(status: StatusCode, kind: &'static str, text: String) -> Response<String> {
    let mut answer = Response::new(text);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Returns whether a database with these troubles serves its clients.
pub(super) fn is_ready(troubles: &[Trouble]) -> bool {
    troubles.iter().all(|trouble| trouble.severity != Severity::Failure)
}

#[cfg(test)]
mod tests {
    use collie_env::Env;

    use super::*;

    fn warning() -> Trouble {
        Trouble { severity: Severity::Warning, subject: "slot", reason: "a is\naway".to_owned() }
    }

    /// Goal: a failure makes a server unready, a warning only for strict requests; every reason is one line. Method:
    /// the answers to each.
    #[test]
    fn readiness_is_said_in_lines() {
        let status = |troubles: &[Trouble], is_strict| readiness(troubles, is_strict).status().as_u16();
        assert_eq!([status(&[], false), status(&[], true)], [200, 200]);
        assert_eq!([status(&[warning()], false), status(&[warning()], true)], [200, 503]);
        let failed = failure("it is starting".to_owned());
        assert_eq!([status(&[failed.clone(), warning()], false), status(&[failed], true)], [503, 503]);
        assert!(is_ready(&[warning()]) && !is_ready(&[failure(String::new())]));
    }

    /// Goal: Q2: every path is answered under names of this machine only. Method: each path under a name of each kind.
    #[test]
    fn every_path_is_answered_under_names_of_this_machine_only() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let answers = Answers::new(Arc::default(), Limits { connections_max: 1 }, Env::real().clock);
        let status = |path: &'static str, host: &'static str| {
            let headers = HeaderMap::from_iter([(hyper::header::HOST, HeaderValue::from_static(host))]);
            runtime.block_on(answers.answer(&Method::GET, &Uri::from_static(path), &headers)).status().as_u16()
        };
        for path in ["/healthz", "/readyz", "/readyz?strict", "/metrics", "/", "/console.json", "/nothing"] {
            for host in ["attacker.example", "attacker.example:8433", "127.0.0.1.attacker.example"] {
                assert_eq!(status(path, host), 421, "{path} under {host}");
            }
            assert_ne!(status(path, "127.0.0.1:8433"), 421, "{path}");
        }
    }

    /// Goal: figures are gathered one at a time, and a request in the meantime gets its answer in time; the gathering
    /// thread holds the permit, not the request. Method: a look that waits for a message of the test.
    #[test]
    fn a_look_that_hangs_holds_up_one_thread() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut answers = Answers::new(Arc::default(), Limits { connections_max: 1 }, Env::real().clock);
            answers.patience = Duration::from_millis(20);
            let (go, wait) = std::sync::mpsc::channel::<()>();
            assert!(answers.gather(move || wait.recv()).await.is_err(), "it hangs");
            assert_eq!(answers.gathering.available_permits(), 0, "it still gathers");
            assert!(answers.gather(|| 1).await.is_err(), "another one does not begin");
            go.send(()).unwrap();
            answers.patience = GATHER_TIME * 10;
            assert!(matches!(answers.gather(|| 2).await, Ok(2)));
        });
    }
}
