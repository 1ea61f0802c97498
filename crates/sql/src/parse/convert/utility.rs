//! Transactions, settings, prepared statements, cursors, COPY and maintenance: conversion from the grammar's nodes to
//! `ast`.

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::{Convert, inner, missing, optional, pos, required};
use crate::error::Result;
use crate::parse::ast::*;

impl Convert<'_> {
    /// Converts BEGIN, COMMIT, SAVEPOINT and similar commands.
    pub(super) fn transaction(&mut self, node: pb::TransactionStmt) -> Result<Stmt> {
        use pb::TransactionStmtKind as K;
        let pb::TransactionStmt { kind, options, savepoint_name, gid, chain, location: _ } = node;
        let modes = self.transaction_modes(options)?;
        Ok(Stmt::Transaction(match K::try_from(kind).map_err(|_| missing())? {
            K::TransStmtBegin => Transaction::Begin { modes, start: false },
            K::TransStmtStart => Transaction::Begin { modes, start: true },
            K::TransStmtCommit => Transaction::Commit { chain },
            K::TransStmtRollback => Transaction::Rollback { chain },
            K::TransStmtSavepoint => Transaction::Savepoint(savepoint_name),
            K::TransStmtRelease => Transaction::Release(savepoint_name),
            K::TransStmtRollbackTo => Transaction::RollbackTo(savepoint_name),
            K::TransStmtPrepare => Transaction::Prepare(gid),
            K::TransStmtCommitPrepared => Transaction::CommitPrepared(gid),
            K::TransStmtRollbackPrepared => Transaction::RollbackPrepared(gid),
            K::Undefined => return Err(missing()),
        }))
    }

    fn transaction_modes(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<TransactionMode>> {
        nodes.into_iter().map(|node| self.transaction_mode(node)).collect()
    }

    fn transaction_mode(&mut self, node: pb::Node) -> Result<TransactionMode> {
        let NodeEnum::DefElem(element) = inner(node)? else { return Err(missing()) };
        let pb::DefElem { defnamespace: _, defname, arg, defaction: _, location, arg_location: _ } = *element;
        let at = pos(location);
        let NodeEnum::AConst(value) = inner(required(arg)?)? else { return Err(missing()) };
        let value = self.constant(value)?;
        let ExprKind::Literal(value) = value.kind else { return Err(missing()) };
        Ok(match (defname.as_str(), value) {
            ("transaction_isolation", Literal::String(level)) => TransactionMode::Isolation(match level.as_str() {
                "read uncommitted" => IsolationLevel::ReadUncommitted,
                "read committed" => IsolationLevel::ReadCommitted,
                "repeatable read" => IsolationLevel::RepeatableRead,
                "serializable" => IsolationLevel::Serializable,
                _ => return Err(self.unsupported(format_args!("isolation level {level}"), at)),
            }),
            ("transaction_read_only", Literal::Integer(value)) => TransactionMode::ReadOnly(value != 0),
            ("transaction_deferrable", Literal::Integer(value)) => TransactionMode::Deferrable(value != 0),
            (name, _) => return Err(self.unsupported(format_args!("transaction mode {name}"), at)),
        })
    }

    /// Converts SET, RESET and SET TRANSACTION.
    pub(super) fn set(&mut self, node: pb::VariableSetStmt) -> Result<Stmt> {
        use pb::VariableSetKind as K;
        let pb::VariableSetStmt { kind, name, args, jumble_args: _, is_local, location } = node;
        let kind = K::try_from(kind).map_err(|_| missing())?;
        match kind {
            K::VarSetValue => {
                let values = args.into_iter().map(|node| self.set_value(node)).collect::<Result<_>>()?;
                Ok(Stmt::Set(Set { name, values, local: is_local }))
            }
            K::VarSetDefault => Ok(Stmt::Set(Set { name, values: Vec::new(), local: is_local })),
            K::VarSetMulti => match name.as_str() {
                "TRANSACTION" | "SESSION CHARACTERISTICS" => {
                    let session = name != "TRANSACTION";
                    Ok(Stmt::SetTransaction(SetTransaction { modes: self.transaction_modes(args)?, session }))
                }
                _ => Err(self.unsupported(format_args!("SET {name}"), pos(location))),
            },
            K::VarReset => Ok(Stmt::Reset(Some(name))),
            K::VarResetAll => Ok(Stmt::Reset(None)),
            K::VarSetCurrent | K::Undefined => Err(self.unsupported("SET ... FROM CURRENT", pos(location))),
        }
    }

    fn set_value(&mut self, node: pb::Node) -> Result<SetValue> {
        let value = self.expr(node)?;
        let ExprKind::Literal(literal) = value.kind else {
            return Err(self.unsupported("an interval as the value of a setting", value.pos));
        };
        Ok(match literal {
            Literal::String(text) => SetValue::Text(text),
            Literal::Integer(value) => SetValue::Integer(value),
            Literal::Number(text) => SetValue::Number(text),
            Literal::Null | Literal::Bool(_) => return Err(missing()),
        })
    }

    /// Converts SET CONSTRAINTS.
    pub(super) fn set_constraints(&mut self, node: pb::ConstraintsSetStmt) -> Result<Stmt> {
        let pb::ConstraintsSetStmt { constraints, deferred } = node;
        let names = constraints.into_iter().map(|node| match inner(node)? {
            NodeEnum::RangeVar(name) => self.relation(Some(name)),
            _ => Err(missing()),
        });
        Ok(Stmt::SetConstraints(SetConstraints { names: names.collect::<Result<_>>()?, deferred }))
    }

    /// Converts VACUUM and ANALYZE.
    pub(super) fn vacuum(&mut self, node: pb::VacuumStmt) -> Result<Stmt> {
        let pb::VacuumStmt { options, rels, is_vacuumcmd } = node;
        let options = self.options(options)?;
        let mut targets = Vec::with_capacity(rels.len());
        for target in rels {
            let NodeEnum::VacuumRelation(target) = inner(target)? else { return Err(missing()) };
            let pb::VacuumRelation { relation, oid: _, va_cols } = target;
            targets.push((self.plain_table(relation)?, self.names(va_cols)?));
        }
        Ok(Stmt::Vacuum(Vacuum { vacuum: is_vacuumcmd, options, targets }))
    }

    /// Converts EXPLAIN.
    pub(super) fn explain(&mut self, node: pb::ExplainStmt) -> Result<Stmt> {
        let pb::ExplainStmt { query, options } = node;
        let options = self.options(options)?;
        let query = required(query)?;
        self.absent(
            matches!(query.node, Some(NodeEnum::CreateTableAsStmt(_))),
            "EXPLAIN of CREATE TABLE AS",
            Pos::NONE,
        )?;
        Ok(Stmt::Explain(Explain { options, stmt: Box::new(self.stmt(query)?) }))
    }

    /// Converts PREPARE.
    pub(super) fn prepare(&mut self, node: pb::PrepareStmt) -> Result<Stmt> {
        let pb::PrepareStmt { name, argtypes, query } = node;
        let mut types = Vec::with_capacity(argtypes.len());
        for ty in argtypes {
            let NodeEnum::TypeName(ty) = inner(ty)? else { return Err(missing()) };
            types.push(self.type_name(Some(ty))?);
        }
        let stmt = Box::new(self.stmt(required(query)?)?);
        Ok(Stmt::Prepare(Prepare { name, types, stmt, text: self.text.to_owned() }))
    }

    /// Converts EXECUTE.
    pub(super) fn execute(&mut self, node: pb::ExecuteStmt) -> Result<Stmt> {
        let pb::ExecuteStmt { name, params } = node;
        Ok(Stmt::Execute(Execute { name, args: self.exprs(params)? }))
    }

    /// Converts DEALLOCATE.
    pub(super) fn deallocate(&mut self, node: pb::DeallocateStmt) -> Result<Stmt> {
        let pb::DeallocateStmt { name, isall, location: _ } = node;
        Ok(Stmt::Deallocate(if isall { None } else { optional(name) }))
    }

    /// Converts DECLARE CURSOR.
    pub(super) fn declare(&mut self, node: pb::DeclareCursorStmt) -> Result<Stmt> {
        let pb::DeclareCursorStmt { portalname, options, query } = node;
        let has = |bit: i32| options & bit != 0;
        // The bits of `parsenodes.h`: BINARY, SCROLL, NO SCROLL, INSENSITIVE, ASENSITIVE, HOLD, and one that is always
        // set.
        self.absent(options & !0x13f != 0, "an option of DECLARE CURSOR", self.start)?;
        let NodeEnum::SelectStmt(query) = inner(required(query)?)? else {
            return Err(self.unsupported("DECLARE CURSOR for another statement than SELECT", self.start));
        };
        let either = |yes: i32, no: i32| if has(yes) { Some(true) } else { has(no).then_some(false) };
        Ok(Stmt::DeclareCursor(Box::new(DeclareCursor {
            name: portalname,
            query: self.select(*query)?,
            binary: has(0x01),
            scroll: either(0x02, 0x04),
            insensitive: either(0x08, 0x10),
            hold: has(0x20),
        })))
    }

    /// Converts FETCH and MOVE.
    pub(super) fn fetch(&mut self, node: pb::FetchStmt) -> Result<Stmt> {
        let pb::FetchStmt { direction, how_many, portalname, ismove } = node;
        let direction = match pb::FetchDirection::try_from(direction).map_err(|_| missing())? {
            pb::FetchDirection::FetchForward => FetchDirection::Forward,
            pb::FetchDirection::FetchBackward => FetchDirection::Backward,
            pb::FetchDirection::FetchAbsolute => FetchDirection::Absolute,
            pb::FetchDirection::FetchRelative => FetchDirection::Relative,
            pb::FetchDirection::Undefined => return Err(missing()),
        };
        Ok(Stmt::Fetch(Fetch { cursor: portalname, direction, count: how_many, is_move: ismove }))
    }

    /// Converts DISCARD.
    pub(super) fn discard(&mut self, node: pb::DiscardStmt) -> Result<Stmt> {
        let pb::DiscardStmt { target } = node;
        Ok(Stmt::Discard(match pb::DiscardMode::try_from(target).map_err(|_| missing())? {
            pb::DiscardMode::DiscardAll => Discard::All,
            pb::DiscardMode::DiscardPlans => Discard::Plans,
            pb::DiscardMode::DiscardSequences => Discard::Sequences,
            pb::DiscardMode::DiscardTemp => Discard::Temp,
            pb::DiscardMode::Undefined => return Err(missing()),
        }))
    }

    /// Converts CALL of the existing procedures, `collie_checkpoint` and `collie_set_option`, with constant arguments.
    pub(super) fn procedure(&mut self, node: pb::CallStmt) -> Result<Stmt> {
        let pb::CallStmt { funccall, funcexpr: _, outargs: _ } = node;
        let ExprKind::Call(call) = self.call(Box::new(required(funccall)?))?.kind else { return Err(missing()) };
        let sets = call.name.parts == ["collie_set_option"];
        if !sets && call.name.parts != ["collie_checkpoint"] {
            return Err(self.unsupported(self.statement_name(), self.start));
        }
        let mut args = call.args.into_iter().map(|arg| match arg.kind {
            ExprKind::Literal(literal) => Some(literal),
            _ => None,
        });
        match (args.next(), args.next(), args.next()) {
            (Some(Some(Literal::String(name))), Some(Some(Literal::String(value))), None) if sets => {
                Ok(Stmt::SetOption(SetOption { name, value }))
            }
            _ if sets => Err(self.unsupported("collie_set_option with anything but ('name', 'value')", call.name.pos)),
            (Some(Some(Literal::String(dir))), None, None) => Ok(Stmt::CopyDatabase(CopyDatabase { dir, copy: false })),
            (Some(Some(Literal::String(dir))), Some(Some(Literal::Bool(copy))), None) => {
                Ok(Stmt::CopyDatabase(CopyDatabase { dir, copy }))
            }
            _ => Err(self.unsupported(
                "collie_checkpoint with anything but ('directory') or ('directory', boolean)",
                call.name.pos,
            )),
        }
    }

    /// Converts LOCK TABLE.
    pub(super) fn lock(&mut self, node: pb::LockStmt) -> Result<Stmt> {
        let pb::LockStmt { relations, mode, nowait } = node;
        let mode = match mode {
            1 => LockMode::AccessShare,
            2 => LockMode::RowShare,
            3 => LockMode::RowExclusive,
            4 => LockMode::ShareUpdateExclusive,
            5 => LockMode::Share,
            6 => LockMode::ShareRowExclusive,
            7 => LockMode::Exclusive,
            8 => LockMode::AccessExclusive,
            _ => return Err(missing()),
        };
        Ok(Stmt::Lock(Lock { tables: self.plain_tables(relations)?, mode, nowait }))
    }

    /// Converts COPY.
    pub(super) fn copy(&mut self, node: pb::CopyStmt) -> Result<Stmt> {
        let pb::CopyStmt { relation, query, attlist, is_from, is_program, filename, options, where_clause } = node;
        let source = match query {
            None => CopySource::Table { table: self.relation(relation)?, columns: self.names(attlist)? },
            Some(query) => {
                self.absent(relation.is_some() || !attlist.is_empty(), "a table beside a query", Pos::NONE)?;
                CopySource::Query(Box::new(self.stmt(*query)?))
            }
        };
        let target = match (is_program, optional(filename)) {
            (false, None) => CopyTarget::Client,
            (true, command) => CopyTarget::Program(command.unwrap_or_default()),
            (false, Some(path)) => CopyTarget::File(path),
        };
        let (options, filter) = (self.options(options)?, self.optional_expr(where_clause)?);
        Ok(Stmt::Copy(Box::new(Copy { source, from: is_from, target, options, filter })))
    }
}
