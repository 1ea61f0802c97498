//! The description of a unit, and the macro that declares all of them in one place.
//!
//! One declaration gives the type of the features, the row of [`crate::UNITS`], the table in `docs/format.md` and
//! the golden file; the tests of `units` check that the last two agree with it.

/// Most features of a unit.
pub const FEATURES_MAX: usize = 8;

/// Most labels of a unit, elapsed time included.
pub const LABELS_MAX: usize = 4;

/// Number of table entries for units: every id is below it.
pub const UNIT_SLOTS: usize = 32;

/// One number of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// Its name, which is the column of a sample file.
    pub name: &'static str,
    /// Its unit: `bytes`, `rows`, `us`, `ns`, `percent`, `count`, `flag` (0 or 1) or `code` (listed in the
    /// declaration).
    pub unit: &'static str,
}

/// The meaning of the numbers of one operating unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSchema {
    /// The id, which is never reused.
    pub id: u8,
    /// Version of the meaning: a changed meaning has a new version.
    pub version: u8,
    /// Name in capitals, such as `LOG_FLUSH`.
    pub name: &'static str,
    /// Features in the order of [`crate::Sample::features`].
    pub features: &'static [FieldSchema],
    /// Labels in the order of [`crate::Sample::labels`]; the first is `elapsed_ns`.
    pub labels: &'static [FieldSchema],
}

/// The first label of every unit.
pub(crate) const ELAPSED: FieldSchema = FieldSchema { name: "elapsed_ns", unit: "ns" };

/// The features of one unit. Each unit has its own type, so that a measured call cannot report the features of
/// another unit.
pub trait Features: Copy {
    /// Id of the unit.
    const ID: u8;
    /// Version of its schema.
    const VERSION: u8;
    /// Which features a run of calls adds up: all but codes, flags and percentages.
    const SUMMED: [bool; FEATURES_MAX];
    /// Labels beyond elapsed time, in the schema's order.
    type Labels: AsRef<[u64]>;

    /// Returns the features in the schema's order, then zeros.
    fn words(self) -> [u32; FEATURES_MAX];
}

/// Returns for each feature of a unit whether a run of calls adds it up.
pub(crate) const fn summed(units: &[&str]) -> [bool; FEATURES_MAX] {
    let mut summed = [false; FEATURES_MAX];
    let mut at = 0;
    while at < units.len() {
        summed[at] = !matches!(units[at].as_bytes(), b"code" | b"flag" | b"percent");
        at += 1;
    }
    summed
}

/// Returns `number` as a feature: at most `u32::MAX`, and 0 for a negative number.
#[inline]
pub fn word(number: impl TryInto<u32> + PartialOrd + Default) -> u32 {
    let is_negative = number < Default::default();
    number.try_into().unwrap_or(if is_negative { 0 } else { u32::MAX })
}

/// Declares the units: `/// doc`, `id v version Type = "NAME" [where it is measured] { feature: "unit", .. } + {
/// label: "unit", .. }`.
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

        /// The place in the code that measures each unit, in the order of [`UNITS`]; empty for a unit that is not
        /// measured yet.
        pub static MEASURED_IN: &[&str] = &[$($place),*];
    };
}
pub(crate) use units;
