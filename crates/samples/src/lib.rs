//! Samples of operating units as Parquet files, the models that are fitted to them, and the accuracy of those models.
//!
//! The crate decides which samples become a file and when ([`SampleSink`]), what a file holds ([`SampleFile`]), which
//! files there are ([`SampleDir`]), on what hardware they were made ([`Hardware`]), and what `collie train` does with
//! them ([`fit`], [`evaluate`], [`explain`]). It does not know how samples are taken (`obs`), what a model is
//! (`train`), or its caller and how often it is called.
//!
//! ```text
//! DATA/samples/v1/ou=13/ver=1/day=20260131/n1-17.parquet     samples of unit 13, schema version 1
//! DATA/samples/v1/ou=00/ver=1/day=20260131/n1-18.parquet     context rows, to which samples refer
//! DATA/models/ou=13-label=0.package                          the model of unit 13's elapsed time
//! ```
//!
//! # Invariants
//! - S1. A file whose name ends in `.parquet` is whole: its content is synced before it gets that name.
//! - S2. A number is used once per node: `<node>-<seq>` identifies a file forever, wherever it is copied to.
//! - S3. No failure of a sink fails its caller: rows that cannot be written are dropped and counted, and the reason is
//!   kept ([`SinkState`]).
//! - S4. The files of a data directory take at most `SinkOptions::bytes_max`, unless the newest file alone is larger;
//!   the oldest are removed first.
//! - S5. A package replaces another only if it has the same schema and at most 1.1 times its error on the same rows
//!   (RT11).
//!
//! ```
//! use collie_env::Env;
//! use collie_samples::{Origin, SampleDir, SampleSink, SinkOptions};
//! let (env, _disk) = Env::simulated(7);
//! let mut sink = SampleSink::open(&env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
//! sink.add(&[collie_samples::sample_of_unit(13, 5)]);
//! sink.finish();
//! let dir = SampleDir::new(env.files.clone(), "/data".as_ref());
//! let names = dir.list().unwrap();
//! assert_eq!(dir.read(&names[0]).unwrap().rows.len(), 1);
//! ```
#![forbid(unsafe_code)]

mod columns;
mod complexity;
mod context;
mod dir;
mod error;
mod evaluate;
mod example;
mod explain;
mod file;
mod fit;
mod footer;
mod hardware;
mod name;
mod packages;
mod publish;
mod sink;
mod stock;
mod stored;
mod table;
mod training;

pub use columns::{schema_hash, unit_of};
pub use complexity::complexity_of;
pub use context::{CONTEXT_UNIT, CONTEXT_VERSION};
pub use dir::SampleDir;
pub use error::SamplesError;
pub use evaluate::{Evaluation, evaluate, unit_for};
pub use example::{sample_of_unit, wrong_package};
pub use explain::{Explanation, FeatureWeight, explain};
pub use file::{SampleFile, SampleRow};
pub use fit::{FitOutcome, FitRequest, FitVerdict, fit};
pub use footer::{Footer, Origin};
pub use hardware::{Constants, Facts, Hardware};
pub use name::{FileName, safe_node};
pub use packages::PackageDir;
pub use sink::{SampleSink, SinkOptions, SinkState};
pub use stored::StoredFile;
pub use training::{WEIGHT_MAX, features_of, label_of, samples_of, weight_of};
