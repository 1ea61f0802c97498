//! `LockStrength`: how strongly a transaction holds a row, and which strengths two transactions may hold at once.
//!
//! | held by one \ requested by another | KEY SHARE | SHARE | NO KEY UPDATE | UPDATE |
//! |---|---|---|---|---|
//! | KEY SHARE | yes | yes | yes | no |
//! | SHARE | yes | yes | no | no |
//! | NO KEY UPDATE | yes | no | no | no |
//! | UPDATE | no | no | no | no |
//!
//! # Invariants
//! - K1. The matrix is symmetric, and a strength that conflicts with another conflicts with every stronger one
//!   too. So one transaction's locks on a row amount to the strongest of them. Two strengths conflict exactly if
//!   the sum of their places in the order above, counted from 0, is at least 3.

/// The strength in which a row is locked (PostgreSQL's four), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockStrength {
    /// FOR KEY SHARE: the row stays, and so do the columns to which other rows refer.
    KeyShare,
    /// FOR SHARE: the row does not change.
    Share,
    /// FOR NO KEY UPDATE, and every change that keeps the columns to which other rows refer.
    NoKeyUpdate,
    /// FOR UPDATE, a deletion, and a change of columns to which other rows refer.
    Update,
}

impl LockStrength {
    /// All strengths, weakest first.
    pub const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// Returns whether two transactions cannot hold these strengths on a row at the same time.
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        self.place() + other.place() >= 3 // K1
    }

    /// Returns whether several transactions can hold this strength on a row at the same time.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !self.conflicts_with(self)
    }

    const fn place(self) -> u8 {
        match self {
            Self::KeyShare => 0,
            Self::Share => 1,
            Self::NoKeyUpdate => 2,
            Self::Update => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the sum agrees with the matrix. Method: the matrix written out; every pair in both orders; K1.
    #[test]
    fn conflicts_are_those_of_the_matrix() {
        let conflicts = [
            [false, false, false, true],
            [false, false, true, true],
            [false, true, true, true],
            [true, true, true, true],
        ];
        for (held, row) in LockStrength::ALL.into_iter().zip(conflicts) {
            for (asked, conflict) in LockStrength::ALL.into_iter().zip(row) {
                assert_eq!(held.conflicts_with(asked), conflict, "{held:?} and {asked:?}");
                assert_eq!(asked.conflicts_with(held), conflict, "{asked:?} and {held:?}");
                let stronger = LockStrength::ALL.into_iter().filter(|stronger| *stronger > held);
                assert!(!conflict || stronger.into_iter().all(|stronger| stronger.conflicts_with(asked)));
            }
            assert_eq!(held.is_shared(), held <= LockStrength::Share);
        }
    }
}
