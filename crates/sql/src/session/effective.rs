//! `Effective`: the settings that statements use often, as values instead of words.

use collie_engine::CommitLevel;

use crate::{
    session::{
        limits::TimeLimits,
        position::Position,
        settings::{self, Settings, date_style},
    },
    types::{
        IntervalStyle,
        datetime::{DateOrder, DateStyle, Zone},
        io::{ByteaOutput, FloatDigits, TextContext},
    },
};

/// When simple text runs by a plan that it shares with texts that differ only in their literals (`plan_cache_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum TextPlans {
    /// From the second time that the form is seen.
    Auto,
    Always,
    Never,
}

/// Values read from the words of [`Settings`].
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Effective {
    date_order: DateOrder,
    date_style: DateStyle,
    zone: Zone,
    bytea_output: ByteaOutput,
    float_digits: FloatDigits,
    interval_style: IntervalStyle,
    /// The acknowledgement that a commit waits for.
    pub(in crate::session) synchronous_commit: CommitLevel,
    /// When simple text runs by a shared plan.
    pub(in crate::session) text_plans: TextPlans,
    /// Whether new transactions refuse writes.
    pub(in crate::session) read_only: bool,
    /// The time limits.
    pub(in crate::session) limits: TimeLimits,
    /// The position that new snapshots have to show.
    pub(in crate::session) wait_for: Option<Position>,
    /// How long a statement waits for that position, in milliseconds; 0 is without limit.
    pub(in crate::session) position_wait_ms: u64,
    /// Whether commits are reported to the client.
    pub(in crate::session) report_commit: bool,
    /// Whether names and literals are read as with the default settings.
    pub(in crate::session) reads_as_anywhere: bool,
}

impl Default for Effective {
    fn default() -> Self {
        Self {
            date_order: DateOrder::Mdy,
            date_style: DateStyle::Iso,
            zone: Zone::default(),
            bytea_output: ByteaOutput::Hex,
            float_digits: FloatDigits::default(),
            interval_style: IntervalStyle::Postgres,
            synchronous_commit: CommitLevel::RemoteFlush,
            text_plans: TextPlans::Auto,
            read_only: false,
            limits: TimeLimits::default(),
            wait_for: None,
            position_wait_ms: 5_000,
            report_commit: false,
            reads_as_anywhere: true,
        }
    }
}

impl Effective {
    /// Reads the words of the settings.
    pub(in crate::session) fn of(settings: &Settings) -> Self {
        let usual = Self::default();
        let (date_style, date_order) = date_style::read(settings.get("datestyle"));
        let read = Self {
            date_style,
            date_order,
            zone: Zone::of_shown(settings.get("timezone")).unwrap_or_default(),
            bytea_output: match settings.get("bytea_output") {
                "escape" => ByteaOutput::Escape,
                _ => ByteaOutput::Hex,
            },
            float_digits: FloatDigits(settings.get("extra_float_digits").parse().unwrap_or(1)),
            interval_style: match settings.get("intervalstyle") {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            synchronous_commit: match settings.get("synchronous_commit") {
                "off" => CommitLevel::Async,
                "local" => CommitLevel::Local,
                "remote_write" => CommitLevel::RemoteWrite,
                "remote_apply" => CommitLevel::RemoteApply,
                _ => CommitLevel::RemoteFlush,
            },
            text_plans: match settings.get("plan_cache_mode") {
                "force_generic_plan" => TextPlans::Always,
                "force_custom_plan" => TextPlans::Never,
                _ => TextPlans::Auto,
            },
            read_only: settings.is_on("default_transaction_read_only"),
            limits: TimeLimits {
                statement_ms: settings.time_ms("statement_timeout"),
                lock_ms: settings.time_ms("lock_timeout"),
                transaction_ms: settings.time_ms("transaction_timeout"),
                idle_in_transaction_ms: settings.time_ms("idle_in_transaction_session_timeout"),
                idle_session_ms: settings.time_ms("idle_session_timeout"),
            },
            wait_for: Position::read(settings.get("collie.wait_for_lsn")),
            position_wait_ms: settings.time_ms("collie.wait_timeout"),
            report_commit: settings.is_on("collie.report_commit"),
            ..usual
        };
        let reading = |of: &Self| (of.date_order, of.zone, of.interval_style);
        let reads_as_anywhere =
            reading(&read) == reading(&usual) && settings.get("search_path") == settings::USUAL_SEARCH_PATH;
        Self { reads_as_anywhere, ..read }
    }

    /// Returns the context by which a transaction that began at `now` reads values from text and writes them as text.
    pub(in crate::session) fn text_context(&self, now: i64) -> TextContext {
        TextContext {
            date_order: self.date_order,
            date_style: self.date_style,
            zone: self.zone,
            now,
            bytea_output: self.bytea_output,
            float_digits: self.float_digits,
            interval_style: self.interval_style,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the values follow every way that a setting changes (S3), and start as the defaults of the settings table.
    /// Method: each way once, compared with reading the words.
    #[test]
    fn values_follow_the_words() {
        let same = |settings: &Settings| {
            let (held, read) = (settings.effective(), Effective::of(settings));
            assert_eq!(format!("{held:?}"), format!("{read:?}"));
        };
        let mut settings = Settings::default();
        same(&settings);
        settings.set("synchronous_commit", Some("off")).expect("known");
        assert_eq!(settings.effective().synchronous_commit, CommitLevel::Async);
        same(&settings);
        settings.set_default("datestyle", "ISO, DMY").expect("known");
        settings.set_default("timezone", "+02").expect("known");
        same(&settings);
        settings.set("synchronous_commit", None).expect("known");
        assert_eq!(settings.effective().synchronous_commit, CommitLevel::RemoteFlush);
        for (word, level) in [("local", CommitLevel::Local), ("Remote_Write", CommitLevel::RemoteWrite)] {
            settings.set("synchronous_commit", Some(word)).expect("known");
            assert_eq!(settings.effective().synchronous_commit, level);
        }
        for (word, level) in [("remote_apply", CommitLevel::RemoteApply), ("remote_flush", CommitLevel::RemoteFlush)] {
            settings.set("synchronous_commit", Some(word)).expect("known");
            assert_eq!(settings.effective().synchronous_commit, level);
        }
        settings.set("synchronous_commit", None).expect("known");
        settings.set("default_transaction_read_only", Some("on")).expect("known");
        settings.set("bytea_output", Some("escape")).expect("known");
        settings.set("intervalstyle", Some("ISO_8601")).expect("known");
        assert_eq!(settings.effective().text_context(0).interval_style, IntervalStyle::Iso8601);
        settings.set("statement_timeout", Some("2s")).expect("known");
        settings.set("lock_timeout", Some("7")).expect("known");
        assert_eq!((settings.effective().limits.statement_ms, settings.effective().limits.lock_ms), (2_000, 7));
        same(&settings);
        settings.reset_all();
        assert!(!settings.effective().read_only);
        same(&settings);
    }
}
