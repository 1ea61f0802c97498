//! `Params`: the types of `$1..`, declared or inferred from the first use.
//!
//! # Invariants
//! - P1. A known type never changes; a second, different demand is 42P08.
//! - P2. After `finish` every parameter has a type, and no node of unknown type is left.

use super::error;
use crate::{
    error::{Result, SqlState},
    parse::ast::Pos,
    types::{SqlType, oid},
};

/// Most parameters of a statement: the limit of the protocol.
const PARAMS_MAX: u32 = 65_535;

struct Slot {
    /// 0 while the type is unknown.
    oid: u32,
    /// Number of nodes that were made without a type and still have none.
    open: u32,
    /// Position of the last use without a type.
    pos: Pos,
}

pub(super) struct Params {
    slots: Vec<Slot>,
}

impl Params {
    pub(super) fn new(declared: &[u32]) -> Self {
        let decided = |&oid: &u32| if oid == oid::UNKNOWN { 0 } else { oid };
        Self { slots: declared.iter().map(|oid| Slot { oid: decided(oid), open: 0, pos: Pos::NONE }).collect() }
    }

    /// Uses parameter `number` (from 1); returns its index and its type, which may be unknown yet.
    pub(super) fn use_at(&mut self, number: u32, pos: Pos) -> Result<(usize, SqlType)> {
        if number == 0 || number > PARAMS_MAX {
            return Err(error(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"), pos));
        }
        let place = number as usize - 1;
        while self.slots.len() <= place {
            self.slots.push(Slot { oid: 0, open: 0, pos: Pos::NONE });
        }
        let slot = &mut self.slots[place];
        if slot.oid != 0 {
            return Ok((place, SqlType::new(slot.oid)));
        }
        slot.open += 1;
        slot.pos = pos;
        Ok((place, SqlType::UNKNOWN))
    }

    /// Gives a node of unknown type the type that its use demands (P1).
    pub(super) fn decide(&mut self, place: usize, demanded: u32, pos: Pos) -> Result<()> {
        let slot = &mut self.slots[place];
        slot.open = slot.open.saturating_sub(1);
        if slot.oid == 0 {
            slot.oid = demanded;
        } else if slot.oid != demanded {
            let (had, wants) = (SqlType::new(slot.oid).name(), SqlType::new(demanded).name());
            return Err(error(
                SqlState::AMBIGUOUS_PARAMETER,
                format!("inconsistent types deduced for parameter ${}", place + 1),
                pos,
            )
            .detail(format!("{had} versus {wants}")));
        }
        Ok(())
    }

    /// Forgets a node of unknown type that is not kept.
    pub(super) fn forget(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        slot.open = slot.open.saturating_sub(1);
    }

    /// Returns the types of all parameters (P2).
    pub(super) fn finish(&self) -> Result<Vec<u32>> {
        for (place, slot) in self.slots.iter().enumerate() {
            let what = || format!("could not determine data type of parameter ${}", place + 1);
            if slot.oid != 0 && slot.open > 0 {
                return Err(error(SqlState::AMBIGUOUS_PARAMETER, what(), slot.pos));
            }
            if slot.oid == 0 {
                return Err(error(SqlState::INDETERMINATE_DATATYPE, what(), Pos::NONE));
            }
        }
        Ok(self.slots.iter().map(|slot| slot.oid).collect())
    }
}
