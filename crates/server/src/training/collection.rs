//! [`Collection`]: what a server has collected and learned, from its start to its stop; the collector writes it, and
//! views read it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use collie_env::Env;
use collie_obs::{SOURCES, UNIT_SLOTS, UNITS};
use collie_samples::{Hardware, SampleDir};
use collie_sql::catalog::system::{HardwareRow, ModelRow, PolicyRow, SampleFileRow, UnitRow};
use collie_train::{LabelId, UnitId};
use parking_lot::Mutex;

use super::{
    fitting::Fitting, granted::whole, judge::Judge, keeper::Kept, models::Models, rates::UnitRate, recent::Recent,
    units::name_of,
};

/// The number of sample files that are shown: each takes three small reads.
const FILES_MAX: usize = 10_000;

/// Whether samples are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Samples {
    /// No collector works yet, or any more.
    #[default]
    Starting,
    /// Samples are kept.
    Collecting,
    /// `training.samples` is off.
    Off,
    /// Samples cannot be kept, for this reason.
    Stopped(String),
}

impl Samples {
    /// Returns the word that views show.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Collecting => "collecting",
            Self::Off => "off",
            Self::Stopped(_) => "stopped",
        }
    }

    /// Returns why samples are not kept.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Off => Some("training.samples is off".to_owned()),
            Self::Stopped(reason) => Some(reason.clone()),
            Self::Starting | Self::Collecting => None,
        }
    }
}

/// The sums over all drained periods, and the state for views.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Samples taken, by unit and source.
    pub(super) taken: [[u64; SOURCES]; UNIT_SLOTS],
    /// Lost samples, by unit.
    pub(super) dropped: [u64; UNIT_SLOTS],
    /// How each unit is sampled.
    pub(super) rates: [UnitRate; UNIT_SLOTS],
    /// The kept samples in all, and those before the present collector began.
    pub(super) kept: Kept,
    kept_before: Kept,
    /// Whether samples are kept.
    pub(super) samples: Samples,
    /// Packages that are evaluated before they are used.
    pub(super) shadows: Vec<ModelRow>,
    /// The cost of taking and keeping samples, in us.
    pub(super) spent_us: f64,
}

impl Figures {
    /// Records what the present collector has kept so far.
    pub(super) fn keep(&mut self, kept: &Kept) {
        self.kept = self.kept_before.and(kept);
    }
}

/// What a server has collected and learned. Lock order: none of its locks is held while another is taken.
#[derive(Debug)]
pub(super) struct Collection {
    data: PathBuf,
    env: Env,
    /// The models.
    pub(super) models: Models,
    /// The evaluation of the models on incoming samples.
    pub(super) judge: Judge,
    /// The newest samples.
    pub(super) recent: Recent,
    /// The process that fits.
    pub(super) fitting: Fitting,
    figures: Mutex<Figures>,
    hardware: Mutex<Option<Arc<Hardware>>>,
    /// The cost of samples on apply threads, in ns.
    apply_spent_ns: AtomicU64,
    /// The present cost of samples per second, and the cost if every call were sampled, in us.
    spent_us_per_s: AtomicU64,
    wanted_us_per_s: AtomicU64,
}

impl Collection {
    /// Makes the collection of the data directory `data`.
    pub(super) fn new(data: &Path, env: &Env) -> Self {
        Self {
            data: data.to_owned(),
            models: Models::new(env.files.clone(), data.join("models")),
            judge: Judge::default(),
            recent: Recent::default(),
            fitting: Fitting::default(),
            figures: Mutex::default(),
            hardware: Mutex::default(),
            apply_spent_ns: AtomicU64::new(0),
            spent_us_per_s: AtomicU64::new(0),
            wanted_us_per_s: AtomicU64::new(0),
            env: env.clone(),
        }
    }

    /// Returns the cost of samples on apply threads so far, in us.
    pub(super) fn apply_spent_us(&self) -> f64 {
        self.apply_spent_ns.load(Relaxed) as f64 / 1e3
    }

    /// Returns the present cost of samples, in us per second.
    pub(super) fn spent_us_per_s(&self) -> f64 {
        self.spent_us_per_s.load(Relaxed) as f64
    }

    /// Returns the cost if every call were sampled, in us per second.
    pub(super) fn wanted_us_per_s(&self) -> f64 {
        self.wanted_us_per_s.load(Relaxed) as f64
    }

    /// Records the cost of samples: that of apply threads in all, that of all threads per second, and that if every
    /// call were sampled.
    pub(super) fn costs(&self, apply_ns: f64, spent_us_per_s: f64, wanted_us_per_s: f64) {
        self.apply_spent_ns.fetch_add(whole(apply_ns), Relaxed);
        self.spent_us_per_s.store(whole(spent_us_per_s), Relaxed);
        self.wanted_us_per_s.store(whole(wanted_us_per_s), Relaxed);
    }

    /// Changes the figures for views.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Figures) -> R) -> R {
        change(&mut self.figures.lock())
    }

    /// Records that no collector works any more: counts stay, rates become zero.
    pub(super) fn rest(&self) {
        self.costs(0.0, 0.0, 0.0);
        self.change(|figures| {
            figures.samples = Samples::Starting;
            figures.kept_before = figures.kept.clone();
            figures.rates = Default::default();
            figures.shadows.clear();
        });
    }

    /// Begins another role: models stay, observations of the work in the role before are discarded.
    pub(super) fn begin_role(&self) {
        self.judge.clear();
        self.recent.clear();
    }

    /// Returns the constants of the machine, which the first call measures, in about 200 ms.
    pub(super) fn measured(&self) -> Arc<Hardware> {
        if let Some(hardware) = self.hardware.lock().clone() {
            return hardware;
        }
        // Measured without the lock: a view that is read in the meantime shows nothing yet, and does not wait.
        let hardware = Arc::new(Hardware::measure(&self.env, &self.data));
        self.hardware.lock().get_or_insert(hardware).clone()
    }

    /// Fills in the fields of a policy's row that are about samples.
    pub(super) fn fill(&self, row: PolicyRow) -> PolicyRow {
        let fits = self.fitting.counts();
        let figures = self.figures.lock();
        PolicyRow {
            samples: figures.samples.word(),
            samples_reason: figures.samples.reason(),
            samples_spent_us: whole(figures.spent_us),
            samples_written: figures.kept.written_rows,
            samples_lost: figures.kept.lost_rows,
            samples_bytes: figures.kept.bytes,
            fits,
            ..row
        }
    }

    /// Returns how each unit is sampled.
    pub(super) fn units(&self) -> Vec<UnitRow> {
        let figures = self.figures.lock().clone();
        let row = |unit: &collie_obs::UnitSchema| {
            let at = usize::from(unit.id);
            let (id, label) = (UnitId::new(unit.id), LabelId::new(0));
            let (_, error, is_stale) = self.judge.of(id, label);
            let rate = figures.rates[at];
            UnitRow {
                unit_id: unit.id,
                unit: unit.name,
                p: rate.p,
                by_source: figures.taken[at],
                kept: figures.kept.by_unit[at],
                dropped: figures.dropped[at],
                calls_per_s: rate.calls_per_s,
                cost_us_per_s: rate.cost_us_per_s,
                error,
                is_stale: error.map(|_judged| is_stale),
                is_shed: rate.is_shed,
            }
        };
        UNITS.iter().map(row).collect()
    }

    /// Returns the newest sample files.
    pub(super) fn files(&self) -> Vec<SampleFileRow> {
        let dir = SampleDir::new(self.env.files.clone(), &self.data);
        let row = |file: collie_samples::StoredFile| SampleFileRow {
            unit_id: file.name.unit,
            unit: name_of(UnitId::new(file.name.unit)),
            version: file.name.version,
            day: file.name.day,
            node: file.name.node,
            seq: file.name.seq,
            rows: file.rows,
            bytes: file.bytes,
        };
        dir.stored(FILES_MAX).unwrap_or_default().into_iter().map(row).collect()
    }

    /// Returns the packages in the folder of models, and those that are evaluated before they are used.
    pub(super) fn model_rows(&self) -> Vec<ModelRow> {
        let mut rows = self.models.rows(&self.judge);
        rows.extend(self.figures.lock().shadows.iter().cloned());
        rows
    }

    /// Returns the description of the machine, and its measured constants.
    pub(super) fn hardware(&self) -> Option<HardwareRow> {
        let hardware = self.hardware.lock().clone()?;
        let facts = &hardware.facts;
        let mut properties = vec![
            ("cpu", facts.cpu.clone()),
            ("cores", facts.cores.to_string()),
            ("threads", facts.threads.to_string()),
            ("caches", facts.caches.clone()),
            ("memory_gib", facts.memory_gib.to_string()),
            ("numa_nodes", facts.numa_nodes.to_string()),
            ("disk", facts.disk.clone()),
            ("kernel", facts.kernel.clone()),
            ("is_virtual", facts.is_virtual.to_string()),
        ];
        properties.extend(hardware.constants.named().map(|(name, value)| (name, format!("{value:.3}"))));
        Some(HardwareRow { tag: hardware.tag(), properties })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::fixture::{package, row_reads},
        *,
    };

    fn collection() -> (Env, Collection) {
        let (env, _disk) = Env::simulated(1);
        let collection = Collection::new("/data".as_ref(), &env);
        (env, collection)
    }

    /// Goal: views show what was recorded: counts by source, kept and lost samples, costs, and why samples are not
    /// kept; and zero rates once no collector works. Method: figures by hand.
    #[test]
    fn what_was_noted_is_shown() {
        let (_env, collection) = collection();
        assert_eq!(collection.fill(PolicyRow::default()).samples, "starting");
        collection.change(|figures| {
            figures.taken[13] = [1, 2, 3, 4];
            (figures.dropped[13], figures.kept.by_unit[13], figures.kept.written_rows) = (5, 6, 7);
            figures.rates[13] = UnitRate { p: 0.5, calls_per_s: Some(8.0), cost_us_per_s: 4.0, is_shed: false };
            figures.samples = Samples::Stopped("no room".to_owned());
            figures.spent_us = 9.9;
        });
        collection.costs(2000.0, 30.0, 400.0);
        let units = collection.units();
        let scan = units.iter().find(|row| row.unit == "SCAN").expect("every unit is there");
        assert_eq!((units.len(), scan.by_source, scan.dropped, scan.kept), (30, [1, 2, 3, 4], 5, 6));
        assert_eq!((scan.p, scan.calls_per_s, scan.error, scan.is_stale), (0.5, Some(8.0), None, None));
        let row = collection.fill(PolicyRow::default());
        assert_eq!((row.samples, row.samples_reason.as_deref()), ("stopped", Some("no room")));
        assert_eq!((row.samples_spent_us, row.samples_written), (9, 7));
        let costs = [collection.apply_spent_us(), collection.spent_us_per_s(), collection.wanted_us_per_s()];
        assert_eq!(costs, [2.0, 30.0, 400.0]);
        collection.rest();
        assert_eq!((collection.units()[12].p, collection.units()[12].kept), (0.0, 6));
        let mut later = Kept { written_rows: 2, bytes: 5, ..Kept::default() };
        later.by_unit[13] = 1;
        collection.change(|figures| figures.keep(&later));
        collection.change(|figures| figures.keep(&later));
        let row = collection.fill(PolicyRow::default());
        assert_eq!(
            (collection.units()[12].kept, row.samples_written, row.samples_bytes),
            (7, 9, 5),
            "of both collectors"
        );
        assert_eq!((collection.spent_us_per_s(), collection.fill(PolicyRow::default()).samples), (0.0, "starting"));
    }

    /// Goal: the machine is shown once it was measured, once. Method: a simulated disk, which describes nothing of the
    /// machine, but where every constant is measured.
    #[test]
    fn the_machine_is_shown_once_it_was_measured() {
        let (_env, collection) = collection();
        assert_eq!(collection.hardware(), None);
        let first = collection.measured();
        assert!(Arc::ptr_eq(&first, &collection.measured()));
        let row = collection.hardware().expect("it was measured");
        assert_eq!((row.tag, row.properties.len()), (0, 17));
        assert!(row.properties.iter().any(|(name, value)| *name == "call_ns" && value.contains('.')));
    }

    /// Goal: packages in use and those under evaluation are listed together; another role forgets their evaluation.
    /// Method: one of each.
    #[test]
    fn models_in_use_and_in_the_shadow_are_shown() {
        let (_env, collection) = collection();
        collection.models.store(&package(&row_reads(200, 1, 1))).unwrap();
        collection.models.load();
        collection.judge.take(&collection.models.loaded(), &row_reads(10, 1, 2));
        let shadow = ModelRow { file: "incoming/a.package".to_owned(), state: "shadow", ..ModelRow::default() };
        collection.change(|figures| figures.shadows = vec![shadow]);
        let rows = collection.model_rows();
        assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), ["active", "shadow"]);
        assert!(rows[0].coverage.is_some());
        collection.begin_role();
        assert_eq!(collection.model_rows()[0].coverage, None);
    }
}
