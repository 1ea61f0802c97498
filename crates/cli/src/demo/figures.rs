//! [`Figures`]: the figures from the views of both servers, in one line.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::{shell::connect, status::time};

/// How long a query of a view may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sessions at both servers.
pub(super) struct Views {
    primary: Client,
    replica: Client,
}

/// The last answers of the views; `None` where a view did not answer or has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) commits: Option<u64>,
    p50_us: Option<String>,
    p99_us: Option<String>,
    delay_us: Option<String>,
    bound_us: Option<String>,
    state: Option<String>,
    grant_us: Option<u64>,
    windows: Option<String>,
    out_windows: Option<String>,
    samples: Option<String>,
    models: Option<String>,
    decisions: Option<String>,
    weighed: Option<String>,
    reads: Option<String>,
}

const COMMITS: &str = "SELECT commits, p50_us, p99_us FROM collie_commits";
const POLICY: &str =
    "SELECT delay_us::int8, bound_us::int8, state, grant_us_per_s, windows, out_windows FROM collie_training.policy";
const SAMPLES: &str = "SELECT sum(samples)::int8 FROM collie_training.units";
const MODELS: &str = "SELECT count(*) FROM collie_training.models WHERE refused IS NULL";
const DECISIONS: &str = "SELECT count(*) FROM collie_training.decisions";
const WEIGHED: &str = "SELECT count(*) FROM collie_training.candidates WHERE new_value IS NOT NULL";
const READS: &str = "SELECT sum(run)::int8 FROM collie_training.reads";

/// Returns the cells of the first row; all `None` if the query fails.
async fn row<const N: usize>(client: &Client, sql: &str) -> [Option<String>; N] {
    let answer = timeout(PATIENCE, client.simple_query(sql)).await;
    let messages = answer.ok().and_then(Result::ok).unwrap_or_default();
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    std::array::from_fn(|column| row?.try_get(column).ok().flatten().map(str::to_owned))
}

impl Views {
    /// Opens sessions.
    ///
    /// # Errors
    /// One of the servers accepts no session.
    pub(super) async fn connect(primary: &str, replica: &str) -> anyhow::Result<Self> {
        Ok(Self { primary: connect(primary).await?, replica: connect(replica).await? })
    }

    /// Queries both servers.
    pub(super) async fn look(&self) -> Figures {
        let (primary, replica) = (&self.primary, &self.replica);
        let number = |cell: Option<String>| cell.and_then(|cell| cell.parse::<u64>().ok());
        let [commits, p50_us, p99_us] = row(primary, COMMITS).await;
        let [delay_us, bound_us, state, grant_us, windows, out_windows] = row(replica, POLICY).await;
        let [samples] = row(replica, SAMPLES).await;
        let [models] = row(replica, MODELS).await;
        // Each server makes its own decisions.
        let on_both = async |sql| {
            let ([here], [there]) = (row(primary, sql).await, row(replica, sql).await);
            number(here).zip(number(there)).map(|(here, there)| (here + there).to_string())
        };
        let (decisions, weighed) = (on_both(DECISIONS).await, on_both(WEIGHED).await);
        let [reads] = row(replica, READS).await;
        Figures {
            commits: number(commits),
            p50_us,
            p99_us,
            delay_us,
            bound_us,
            state,
            grant_us: number(grant_us),
            windows,
            out_windows,
            samples,
            models,
            decisions,
            weighed,
            reads,
        }
    }
}

/// Returns a cell, or a dash if there is none.
fn or_dash(cell: Option<&String>) -> &str {
    cell.map_or("-", String::as_str)
}

/// Returns a time in microseconds in readable form, or a dash.
fn spent(us: Option<&String>) -> String {
    time(or_dash(us))
}

impl Figures {
    /// Returns commits per second since `before`, which was taken `since` ago.
    #[expect(clippy::cast_precision_loss, reason = "counts of a demo")]
    pub(super) fn rate(&self, before: &Self, since: Duration) -> Option<f64> {
        let more = self.commits?.checked_sub(before.commits?)?;
        (!since.is_zero()).then(|| more as f64 / since.as_secs_f64())
    }

    /// Returns all figures in one line.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a second")]
    pub(super) fn line(&self, rate: Option<f64>) -> String {
        let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        let cores = self.grant_us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1e6));
        format!(
            "{rate} commits/s, p50 {}, p99 {} | delay {} of {} | grant {cores} cores, {} | {}",
            spent(self.p50_us.as_ref()),
            spent(self.p99_us.as_ref()),
            spent(self.delay_us.as_ref()),
            spent(self.bound_us.as_ref()),
            or_dash(self.state.as_ref()),
            self.learnt()
        )
    }

    /// Returns the results of the training.
    pub(super) fn learnt(&self) -> String {
        let Self { samples, models, decisions, weighed, reads, .. } = self;
        let [samples, models, decisions, weighed, reads] =
            [samples, models, decisions, weighed, reads].map(|cell| or_dash(cell.as_ref()));
        format!(
            "samples {samples}, models {models}, changes weighed {weighed}, decisions {decisions}, reads replayed {reads}"
        )
    }

    /// Returns how often the delay was out of its bound.
    pub(super) fn judged(&self) -> String {
        let [out, all] = [&self.out_windows, &self.windows].map(|cell| or_dash(cell.as_ref()));
        format!("{out} of {all} seconds out of the bound")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a line has every figure with its unit, and dashes for unknown ones. Method: known figures, and none.
    #[test]
    fn a_line_has_every_figure_or_a_dash() {
        let some = |text: &str| Some(text.to_owned());
        let figures = Figures {
            commits: Some(350),
            p50_us: some("900"),
            p99_us: some("12000"),
            delay_us: some("700"),
            bound_us: some("1700"),
            state: some("collecting"),
            grant_us: Some(250_000),
            windows: some("60"),
            out_windows: some("1"),
            samples: some("1234"),
            models: some("2"),
            decisions: some("0"),
            weighed: some("13"),
            reads: some("7"),
        };
        let before = Figures { commits: Some(100), ..Figures::default() };
        let rate = figures.rate(&before, Duration::from_secs(5));
        assert_eq!(
            figures.line(rate),
            "50.0 commits/s, p50 900 us, p99 12 ms | delay 700 us of 1700 us | grant 0.25 cores, collecting | \
             samples 1234, models 2, changes weighed 13, decisions 0, reads replayed 7"
        );
        assert_eq!(figures.judged(), "1 of 60 seconds out of the bound");
        assert_eq!(before.rate(&figures, Duration::from_secs(5)), None, "another life of the server");
        assert_eq!(
            Figures::default().line(None),
            "- commits/s, p50 -, p99 - | delay - of - | grant - cores, - | \
             samples -, models -, changes weighed -, decisions -, reads replayed -"
        );
    }
}
