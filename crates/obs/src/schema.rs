//! What a unit is described by, and the macro that declares all of them in one place.
//!
//! From one declaration come the features as a type, the row of [`crate::UNITS`], the table in `docs/format.md` and the golden
//! file: the tests of `units` hold the last two to the first.

/// Most features of a unit.
pub const FEATURES_MAX: usize = 8;

/// Most labels of a unit, elapsed time among them.
pub const LABELS_MAX: usize = 4;

/// Room for units by id: ids are below.
pub const UNIT_SLOTS: usize = 32;

/// One number of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// Its name: the column of a sample file.
    pub name: &'static str,
    /// What it counts: `bytes`, `rows`, `us`, `ns`, `percent`, `count`, `flag` (0 or 1) or `code` (which the declaration lists).
    pub unit: &'static str,
}

/// What the numbers of one operating unit mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSchema {
    /// Never reused.
    pub id: u8,
    /// Of the meaning: a changed one is a new version.
    pub version: u8,
    /// In capitals, as `LOG_FLUSH`.
    pub name: &'static str,
    /// In the order of [`crate::Sample::features`].
    pub features: &'static [FieldSchema],
    /// In the order of [`crate::Sample::labels`]; the first is `elapsed_ns`.
    pub labels: &'static [FieldSchema],
}

/// The first label of every unit.
pub(crate) const ELAPSED: FieldSchema = FieldSchema { name: "elapsed_ns", unit: "ns" };

/// The features of one unit: a type for each, so that what is measured and what is said of it cannot be of two units.
pub trait Features: Copy {
    /// Of the unit.
    const ID: u8;
    /// Of its schema.
    const VERSION: u8;
    /// Which of them a run of calls adds up: not codes, flags and shares.
    const SUMMED: [bool; FEATURES_MAX];
    /// Labels beyond elapsed time, in the schema's order.
    type Labels: AsRef<[u64]>;

    /// Returns them in the schema's order, zeros behind.
    fn words(self) -> [u32; FEATURES_MAX];
}

/// Returns for each of a unit's features whether a run of calls adds it up.
pub(crate) const fn summed(units: &[&str]) -> [bool; FEATURES_MAX] {
    let mut summed = [false; FEATURES_MAX];
    let mut at = 0;
    while at < units.len() {
        summed[at] = !matches!(units[at].as_bytes(), b"code" | b"flag" | b"percent");
        at += 1;
    }
    summed
}

/// Returns `number` as a feature: at most `u32::MAX`, and 0 for what is negative.
#[inline]
pub fn word(number: impl TryInto<u32> + PartialOrd + Default) -> u32 {
    let is_negative = number < Default::default();
    number.try_into().unwrap_or(if is_negative { 0 } else { u32::MAX })
}

/// Declares the units: `/// doc`, `id v version Type = "NAME" [where it is measured] { feature: "unit", .. } + { label: "unit", .. }`.
macro_rules! units {
    ($(
        $(#[$doc:meta])*
        $id:literal v $version:literal $type:ident = $name:literal [$place:literal]
        { $($feature:ident: $unit:literal),* $(,)? } + { $($label:ident: $label_unit:literal),* $(,)? }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $type {
                $(
                    #[doc = concat!("In the unit `", $unit, "`.")]
                    pub $feature: u32,
                )*
            }

            impl Features for $type {
                const ID: u8 = $id;
                const VERSION: u8 = $version;
                const SUMMED: [bool; FEATURES_MAX] = summed(&[$($unit),*]);
                type Labels = [u64; { let names: &[&str] = &[$(stringify!($label)),*]; names.len() }];

                #[inline]
                fn words(self) -> [u32; FEATURES_MAX] {
                    let mut words = [0; FEATURES_MAX];
                    let given = [$(self.$feature),*];
                    words[..given.len()].copy_from_slice(&given);
                    words
                }
            }

            const _: () = {
                let (features, labels): (&[&str], &[&str]) = (&[$(stringify!($feature)),*], &[$(stringify!($label)),*]);
                assert!(features.len() <= FEATURES_MAX && labels.len() < LABELS_MAX && $id < UNIT_SLOTS);
            };
        )*

        /// Every unit, by ascending id.
        pub static UNITS: &[UnitSchema] = &[$(
            UnitSchema {
                id: $id,
                version: $version,
                name: $name,
                features: &[$(FieldSchema { name: stringify!($feature), unit: $unit }),*],
                labels: &[ELAPSED, $(FieldSchema { name: stringify!($label), unit: $label_unit }),*],
            }
        ),*];

        /// Where each unit is measured, in the order of [`UNITS`]: the crate and what of it; empty for a unit that nothing measures yet.
        pub static MEASURED_IN: &[&str] = &[$($place),*];
    };
}
pub(crate) use units;
