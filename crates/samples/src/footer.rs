//! `Footer`: the key-value pairs of a file, which state the origin of its rows.

use collie_obs::UnitSchema;
use collie_train::SchemaHash;

use crate::{Constants, Hardware, complexity, schema_hash};

/// The process that takes the samples: the same for all of its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The name of the cluster; empty if it has none.
    pub cluster: String,
    /// The name of the node. File names keep its letters, digits, `_`, `.` and `-`; other characters become `_`.
    pub node: String,
    /// The program and its version.
    pub build: String,
    /// The machine.
    pub hardware: Hardware,
}

impl Origin {
    /// Returns the origin of a node of which only the name is known.
    pub fn unknown(node: &str) -> Self {
        let build = concat!("collie ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { cluster: String::new(), node: node.to_owned(), build, hardware: Hardware::default() }
    }
}

/// The content of a file's footer.
#[derive(Clone, Debug, PartialEq)]
pub struct Footer {
    /// `cluster`.
    pub cluster: String,
    /// `node`.
    pub node: String,
    /// `build`.
    pub build: String,
    /// `hardware_tag`: a hash of the machine's facts; 0 if they are unknown.
    pub hardware_tag: u64,
    /// `hardware_constants`: 0 for a constant that was not measured or is missing.
    pub constants: Constants,
    /// `config_epoch`.
    pub config_epoch: u64,
    /// `schema_hash`; `None` in files of context rows.
    pub schema: Option<SchemaHash>,
}

/// Returns the pairs for a file of `unit`, or for one of context rows if there is no unit.
pub(crate) fn pairs(origin: &Origin, config_epoch: u64, unit: Option<&UnitSchema>) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("cluster", origin.cluster.clone()),
        ("node", origin.node.clone()),
        ("build", origin.build.clone()),
        ("hardware_tag", format!("{:016x}", origin.hardware.tag())),
        ("hardware_facts", origin.hardware.facts.to_string()),
        ("hardware_constants", origin.hardware.constants.to_string()),
        ("config_epoch", config_epoch.to_string()),
    ];
    if let Some(unit) = unit {
        let names =
            |fields: &[collie_obs::FieldSchema]| fields.iter().map(|field| field.name).collect::<Vec<_>>().join(",");
        pairs.push(("unit", unit.name.to_owned()));
        pairs.push(("schema_hash", schema_hash(unit).to_string()));
        pairs.push(("features", names(unit.features)));
        let kinds: Vec<&str> = unit.features.iter().map(|field| field.unit).collect();
        pairs.push(("feature_units", kinds.join(",")));
        pairs.push(("labels", names(unit.labels)));
        pairs.push(("complexity", complexity::told(unit)));
    }
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

impl Footer {
    /// Reads the pairs; a value that is missing or not a number becomes empty or 0.
    pub(crate) fn of_pairs(pairs: &[(String, String)]) -> Self {
        let text = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        let hexadecimal = |key: &str| u64::from_str_radix(text(key)?, 16).ok();
        let owned = |key: &str| text(key).unwrap_or_default().to_owned();
        Self {
            cluster: owned("cluster"),
            node: owned("node"),
            build: owned("build"),
            hardware_tag: hexadecimal("hardware_tag").unwrap_or(0),
            constants: Constants::parse(text("hardware_constants").unwrap_or_default()),
            config_epoch: text("config_epoch").and_then(|text| text.parse().ok()).unwrap_or(0),
            schema: hexadecimal("schema_hash").map(SchemaHash::new),
        }
    }
}
