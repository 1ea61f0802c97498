//! `LockStrength`: how strongly a transaction holds a row, and which strengths two transactions may hold at once.
//!
//! | held by one \ asked by another | KEY SHARE | SHARE | NO KEY UPDATE | UPDATE |
//! |---|---|---|---|---|
//! | KEY SHARE | yes | yes | yes | no |
//! | SHARE | yes | yes | no | no |
//! | NO KEY UPDATE | yes | no | no | no |
//! | UPDATE | no | no | no | no |
//!
//! # Invariants
//! - K1. The matrix is symmetric, and what conflicts with a strength conflicts with every stronger one. So what is held
//!   of one row by one transaction is its strongest lock, and a conflict is a sum: of the two places in the order above,
//!   counted from 0, at least 3.

/// How strongly a row is held (PostgreSQL's four), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockStrength {
    /// FOR KEY SHARE: the row stays, and so do the columns that other rows refer to.
    KeyShare,
    /// FOR SHARE: the row stays as it is.
    Share,
    /// FOR NO KEY UPDATE, and every change that keeps the columns other rows refer to.
    NoKeyUpdate,
    /// FOR UPDATE, a deletion, and a change of columns that other rows refer to.
    Update,
}

impl LockStrength {
    /// All strengths, weakest first.
    pub const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// Returns whether two transactions may not hold these at once.
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        self.place() + other.place() >= 3 // K1
    }

    /// Returns whether several transactions may hold this at once.
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

    /// Goal: the sum says what the table says. Method: the table written out, every pair, both ways round; K1.
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
