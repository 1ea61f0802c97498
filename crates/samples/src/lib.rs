//! Samples of operating units as Parquet files, the models that are fitted to them, and how good those are.
//!
//! What is here: what becomes a file and when ([`SampleSink`]), what a file holds ([`SampleFile`]), which files there are
//! ([`SampleDir`]), on what hardware they were made ([`Hardware`]), and what `collie train` does with them ([`fit`], [`evaluate`],
//! [`explain`]). What is not: how samples are taken (`obs`), what a model is (`train`), who calls this and how often.
//!
//! ```text
//! DATA/samples/v1/ou=13/ver=1/day=20260131/n1-17.parquet     samples of unit 13, schema version 1
//! DATA/samples/v1/ou=00/ver=1/day=20260131/n1-18.parquet     context rows, to which samples point
//! DATA/models/ou=13-label=0.package                          the model of unit 13's elapsed time
//! ```
//!
//! # Invariants
//! - S1. A name that ends in `.parquet` is a whole file: content is synced before the name is given.
//! - S2. A number is used once per node: `<node>-<seq>` names a file for good, wherever it is copied to.
//! - S3. Nothing here fails its caller's work: what cannot be written is dropped and counted, and the reason is kept ([`SinkState`]).
//! - S4. No more than `SinkOptions::bytes_max` of files, but for the one that was written last; the oldest go first.
//! - S5. A package takes the place of another only if it is for the same schema and does no worse on the same rows (RT11).
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
