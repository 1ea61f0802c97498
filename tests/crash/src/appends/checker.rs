//! The checker of list-append histories: it decides from the lists alone whether transactions could have seen what they
//! saw. It knows SQL's levels and nothing of how a database implements them: no position, no snapshot.
//!
//! The lists at the end give the order of versions: a list's `n`-th version has `n` elements. So each read shows which
//! append it saw last and which came next, and thus the dependencies between transactions (Adya, "Weak consistency",
//! 1999; the method of recovering the order from lists is Kingsbury and Alvaro's, "Elle", VLDB 2020).
//!
//! # Rules of a correct history
//! - L1 to L3 of `census.rs`: nothing acknowledged is lost, nothing rolled back is there, and no transaction is there
//!   in part.
//! - L4. A read shows a prefix of the list and then the transaction's own appends: no element of a rolled-back
//!   transaction (aborted read, G1a), no part of another's appends (intermediate read, G1b), no other order. Lists do
//!   not shrink within a transaction, and at REPEATABLE READ and above they do not grow. This holds for transactions
//!   that were rolled back, too.
//! - L5. At every level there is no cycle of write dependencies (G0), or of write and read dependencies (G1c).
//! - L6. At REPEATABLE READ and above there is no cycle in which the anti-dependencies of such transactions are not
//!   adjacent, including a cycle with a single one (read skew, G-single; on one list, a lost update). For this rule the
//!   reads of one statement of READ COMMITTED are a transaction of their own.
//! - L7. At SERIALIZABLE there is no cycle at all with anti-dependencies between such transactions (write skew, G2).
//!   Transactions at other levels take no part in its validation.
//! - L8. With [`Order::RealTime`] L5 to L7 hold with one more dependency: each transaction depends on those that had
//!   ended before it began, on any connection. With [`Order::Session`] it depends only on the earlier ones of its
//!   connection.
//! - L9. Transactions on a replica read, at REPEATABLE READ, a state that the primary had: they take part in L4 to L6,
//!   so that the primary and its replicas never show two appends in different orders (long fork, a G-nonadjacent). Such
//!   a state may be old, but never from the future: with [`Order::RealTime`] a transaction that began after such a read
//!   depends on it, while the read depends only on earlier reads in the same process of the same replica, which never
//!   go back.
//!
//! Cost: `n log n` in the number of steps and elements read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use collie_base::Set;
use collie_engine::Isolation;

use super::{
    census::Census,
    graph::{Allowed, Edge, Graph, Kind},
    history::{Element, History, List, Op, Tail, Transaction},
};
use crate::journal::Outcome;

/// A violation of a rule.
#[derive(Debug)]
pub(crate) struct Violation {
    /// The anomaly's name in the literature, if it has one.
    pub(crate) name: String,
    /// The transactions that are involved, and what they saw.
    pub(crate) text: String,
}

impl Violation {
    pub(crate) fn new(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl std::error::Error for Violation {}

/// The order in time that counts as a dependency (L8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// None.
    None,
    /// The order of each connection.
    Session,
    /// The order of the clock.
    RealTime,
}

/// The rules to check by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) order: Order,
    /// Check the cycles of every transaction by this level instead of its own, to see that the history has anomalies.
    pub(crate) as_level: Option<Isolation>,
}

/// What was checked, and how many allowed anomalies there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) committed: u64,
    pub(crate) reads: u64,
    pub(crate) appends: u64,
    pub(crate) edges: u64,
    /// Transactions that appended to a list of which they had read an older version, whatever their level.
    pub(crate) lost_updates: u64,
    /// Pairs in which one transaction read an append of the other, and another list without the other's append to it.
    pub(crate) read_skews: u64,
    /// Pairs in which each transaction read a list without an append of the other.
    pub(crate) write_skews: u64,
}

/// A node of the graph.
#[derive(Clone, Copy, Debug)]
enum Node {
    Transaction(usize),
    /// The reads of one statement of READ COMMITTED.
    Statement {
        transaction: usize,
        number: usize,
    },
    /// A time at which a transaction had ended.
    Moment,
}

/// Checks a history.
///
/// # Errors
/// The first violation.
pub(crate) fn check(history: &History, rules: Rules) -> Result<Facts, Violation> {
    let census = Census::of(history)?;
    let mut checker = Checker {
        history,
        census: &census,
        rules,
        nodes: (0..history.transactions.len()).map(Node::Transaction).collect(),
        edges: Vec::new(),
        anti: Set::default(),
        reads_from: Set::default(),
        facts: Facts::default(),
    };
    checker.versions();
    for (number, transaction) in history.transactions.iter().enumerate() {
        checker.transaction(number, transaction)?;
    }
    checker.count_pairs();
    checker.order();
    checker.cycles()
}

struct Checker<'h> {
    history: &'h History,
    census: &'h Census,
    rules: Rules,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// Pairs, at every level: the first transaction read a list without the append that the second one made next.
    anti: Set<(usize, usize)>,
    /// Pairs: the first transaction read an append of the second.
    reads_from: Set<(usize, usize)>,
    facts: Facts,
}

impl<'h> Checker<'h> {
    fn edge(&mut self, from: usize, to: usize, kind: Kind, list: Option<List>) {
        self.edges.push(Edge { from, to, kind, list });
    }

    fn end(&self, list: List) -> &'h [Element] {
        self.history.end.get(&list).map_or(&[], |elements| &elements[..])
    }

    /// Returns the level by which a transaction's cycles are judged.
    fn level(&self, transaction: usize) -> Isolation {
        self.rules.as_level.unwrap_or(self.history.transactions[transaction].isolation)
    }

    /// Adds the order of appends to each list.
    fn versions(&mut self) {
        for (list, elements) in &self.history.end {
            for pair in elements.windows(2) {
                let (from, to) = (self.census.writer(pair[0]), self.census.writer(pair[1]));
                self.edge(from, to, Kind::WriteWrite, Some(*list));
            }
        }
    }

    /// Checks L4 for a transaction, and adds the dependencies of its reads.
    fn transaction(&mut self, number: usize, transaction: &'h Transaction) -> Result<(), Violation> {
        let is_committed = self.census.is_committed(number);
        self.facts.committed += u64::from(is_committed);
        let mut own: Vec<(List, Element)> = Vec::new();
        // The length of each list for this transaction, without its own appends.
        let mut lengths: BTreeMap<List, usize> = BTreeMap::new();
        let mut statement: Option<(usize, usize)> = None;
        for op in &transaction.ops {
            let (list, elements, of) = match op {
                Op::Append { list, element } => {
                    own.push((*list, *element));
                    self.facts.appends += u64::from(is_committed);
                    continue;
                }
                Op::Undone { .. } => continue,
                Op::Read { list, elements, statement } => (*list, elements, *statement),
            };
            self.facts.reads += 1;
            let mine = own.iter().filter(|(other, _)| *other == list).count();
            let Some(length) = self.others(transaction, number, list, elements, mine)? else { continue };
            // L4: within a transaction lists never shrink, and they grow only at READ COMMITTED.
            let before = *lengths.entry(list).or_insert(length);
            let grew = length > before && transaction.isolation != Isolation::ReadCommitted;
            if length < before || grew {
                let name = if grew { "unrepeatable read" } else { "list that shrinks" };
                return Err(Violation::new(name, format!("{list} from {before} to {length} others' in {transaction}")));
            }
            lengths.insert(list, length);
            if !is_committed {
                continue;
            }
            let writer = length.checked_sub(1).map(|last| self.census.writer(self.end(list)[last]));
            // The read comes after the append that it saw last, and before the next one.
            let next = self.end(list).get(length).map(|element| self.census.writer(*element));
            if let Some(writer) = writer {
                self.edge(writer, number, Kind::WriteRead, Some(list));
                self.reads_from.insert((number, writer));
            }
            if let Some(next) = next.filter(|next| *next != number) {
                self.anti.insert((number, next));
                if self.level(number) != Isolation::ReadCommitted {
                    self.edge(number, next, Kind::ReadWrite, Some(list));
                }
            }
            if transaction.isolation == Isolation::ReadCommitted && mine == 0 {
                // The reads of one statement of READ COMMITTED get their own node (L6).
                let node = match statement {
                    Some((last, node)) if last == of => node,
                    _ => {
                        self.nodes.push(Node::Statement { transaction: number, number: of });
                        self.nodes.len() - 1
                    }
                };
                statement = Some((of, node));
                writer.into_iter().for_each(|writer| self.edge(writer, node, Kind::WriteRead, Some(list)));
                next.into_iter().for_each(|next| self.edge(node, next, Kind::ReadWrite, Some(list)));
            }
        }
        let has_lost = |(list, element): &(List, Element)| {
            let place = self.census.append(*element).and_then(|append| append.place);
            lengths.get(list).zip(place).is_some_and(|(length, place)| {
                self.end(*list)[*length..place].iter().any(|between| self.census.writer(*between) != number)
            })
        };
        // At READ COMMITTED a later read of the list can hide a lost update, so it is only counted.
        self.facts.lost_updates += u64::from(is_committed && own.iter().any(has_lost));
        Ok(())
    }

    /// Returns the number of other transactions' elements that a read shows, or `None` if a crash took back both the
    /// read's transaction and the appends that it saw.
    fn others(
        &self,
        transaction: &Transaction,
        number: usize,
        list: List,
        elements: &[Element],
        mine: usize,
    ) -> Result<Option<usize>, Violation> {
        let read = || format!("{list} read as {} in {transaction}", Tail(elements));
        let own = transaction.ops.iter().filter_map(|op| match op {
            Op::Append { list: other, element } if *other == list => Some(*element),
            _ => None,
        });
        let own: Vec<Element> = own.take(mine).collect();
        let length = elements.len().saturating_sub(mine);
        if elements.len() < mine || elements[length..] != own {
            return Err(Violation::new("own append unseen", read()));
        }
        let end = self.end(list);
        for (place, element) in elements[..length].iter().enumerate() {
            if end.get(place) == Some(element) {
                continue;
            }
            let Some(append) = self.census.append(*element).filter(|append| append.list == list) else {
                return Err(Violation::new("garbage", format!("{element} was never appended: {}", read())));
            };
            let writer = &self.history.transactions[append.transaction];
            let crash_took_both = !self.census.is_committed(number) && !self.census.is_committed(append.transaction);
            if crash_took_both && writer.outcome == Outcome::Unknown && transaction.outcome != Outcome::Acknowledged {
                return Ok(None);
            }
            let name = match append.place {
                Some(_) => "incompatible order",
                None if append.is_undone || writer.outcome == Outcome::Aborted => "aborted read (G1a)",
                None if writer.outcome == Outcome::Unknown => "aborted read (G1a) of what a crash took back",
                None => "lost append",
            };
            let text = format!("{element}, at the end {}: {}; appended in {writer}", Tail(end), read());
            return Err(Violation::new(name, text));
        }
        let runs_on = length > 0
            && end.get(length).is_some_and(|next| {
                let writer = self.census.writer(end[length - 1]);
                writer != number && writer == self.census.writer(*next)
            });
        if runs_on {
            let writer = &self.history.transactions[self.census.writer(end[length - 1])];
            return Err(Violation::new("intermediate read (G1b)", format!("{}; of {writer}", read())));
        }
        Ok(Some(length))
    }

    fn count_pairs(&mut self) {
        for (reader, writer) in &self.anti {
            self.facts.read_skews += u64::from(self.reads_from.contains(&(*reader, *writer)));
            self.facts.write_skews += u64::from(reader < writer && self.anti.contains(&(*writer, *reader)));
        }
    }

    /// Returns the transaction of a node and its begin, unless the node is a moment or not committed.
    fn span(&self, node: usize) -> Option<(&'h Transaction, u64)> {
        match self.nodes[node] {
            Node::Transaction(number) if self.census.is_committed(number) => {
                let transaction = &self.history.transactions[number];
                Some((transaction, transaction.began_ns))
            }
            Node::Statement { transaction, number } => {
                let transaction = &self.history.transactions[transaction];
                Some((transaction, transaction.statements_ns[number]))
            }
            Node::Transaction(_) | Node::Moment => None,
        }
    }

    /// Adds the dependencies of L8.
    fn order(&mut self) {
        let spans: Vec<_> =
            (0..self.nodes.len()).filter_map(|node| self.span(node).map(|span| (node, span.0, span.1))).collect();
        match self.rules.order {
            Order::None => {}
            Order::Session => {
                // A transaction and its statements both come after the last whole transaction of their connection.
                let mut last: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
                for (node, transaction, _) in &spans {
                    if matches!(self.nodes[*node], Node::Transaction(_)) {
                        last.entry(transaction.session).or_default().push((transaction.ended_ns, *node));
                    }
                }
                for (node, transaction, _) in &spans {
                    let ended = &last[&transaction.session];
                    let earlier = ended.partition_point(|(ended_ns, _)| *ended_ns <= transaction.began_ns);
                    if let Some(before) = earlier.checked_sub(1) {
                        self.edge(ended[before].1, *node, Kind::Order, None);
                    }
                }
            }
            Order::RealTime => {
                let lives: BTreeSet<u64> = spans.iter().filter_map(|(_, transaction, _)| transaction.replica).collect();
                self.after_all(&spans, |_| true, |replica| replica.is_none());
                // L9.
                for life in lives {
                    self.after_all(&spans, |replica| replica == Some(life), |replica| replica == Some(life));
                }
            }
        }
    }

    /// Makes each node of `late` depend on the nodes of `early` that had ended when it began. Both functions get the
    /// replica of a transaction.
    fn after_all(
        &mut self,
        spans: &[(usize, &Transaction, u64)],
        early: impl Fn(Option<u64>) -> bool,
        late: impl Fn(Option<u64>) -> bool,
    ) {
        // One node for each moment at which a transaction ended, in a line, replaces an edge for each pair.
        let early = spans.iter().filter(|(_, transaction, _)| early(transaction.replica));
        let mut ends: Vec<_> = early.map(|(node, transaction, _)| (transaction.ended_ns, *node)).collect();
        ends.sort_unstable();
        let moments = self.nodes.len();
        for (at, (_, node)) in ends.iter().enumerate() {
            self.nodes.push(Node::Moment);
            self.edge(*node, moments + at, Kind::Order, None);
            if at > 0 {
                self.edge(moments + at - 1, moments + at, Kind::Order, None);
            }
        }
        for (node, _, began_ns) in spans.iter().filter(|(_, transaction, _)| late(transaction.replica)) {
            let earlier = ends.partition_point(|(ended_ns, _)| ended_ns < began_ns);
            if let Some(before) = earlier.checked_sub(1) {
                self.edge(moments + before, *node, Kind::Order, None);
            }
        }
    }

    /// Checks L5 to L8.
    fn cycles(mut self) -> Result<Facts, Violation> {
        let graph = Graph::new(self.nodes.len(), std::mem::take(&mut self.edges));
        self.facts.edges = graph.edge_count() as u64;
        let is_serializable = |node: usize| match self.nodes[node] {
            Node::Transaction(number) => self.level(number) == Isolation::Serializable,
            Node::Statement { .. } | Node::Moment => false,
        };
        let writes = |edge: &Edge| edge.kind == Kind::WriteWrite;
        let reads = |edge: &Edge| writes(edge) || edge.kind == Kind::WriteRead;
        let snapshots = |edge: &Edge| reads(edge) || edge.kind == Kind::ReadWrite;
        let serial = |edge: &Edge| {
            reads(edge) || edge.kind == Kind::ReadWrite && is_serializable(edge.from) && is_serializable(edge.to)
        };
        let rules: [(bool, Allowed<'_>); 4] = [(false, &writes), (false, &reads), (true, &snapshots), (false, &serial)];
        for ordered in [false, true] {
            for (spaced, allowed) in rules {
                let allowed = |edge: &Edge| allowed(edge) || ordered && edge.kind == Kind::Order;
                if let Some(cycle) = graph.cycle(spaced, &allowed) {
                    return Err(self.describe(&cycle));
                }
            }
        }
        Ok(self.facts)
    }

    fn name_of(&self, cycle: &[Edge]) -> String {
        let is = |kind| move |edge: &&Edge| edge.kind == kind;
        let anti: Vec<&Edge> = cycle.iter().filter(is(Kind::ReadWrite)).collect();
        let is_spaced = (0..cycle.len()).all(|at| {
            let next = cycle[(at + 1) % cycle.len()];
            !(cycle[at].kind == Kind::ReadWrite && next.kind == Kind::ReadWrite)
        });
        let name = match &anti[..] {
            [] if cycle.iter().all(|edge| edge.kind == Kind::WriteWrite) => "write cycle (G0)",
            [] => "circular information flow (G1c)",
            [one] if cycle.len() == 2 && cycle.iter().all(|edge| edge.list == one.list) => "lost update (G-single)",
            [_] => "read skew (G-single)",
            [_, _] if cycle.len() == 2 => "write skew (G2)",
            _ if is_spaced => "anti-dependencies apart from each other (G-nonadjacent)",
            _ => "anti-dependency cycle (G2)",
        };
        let on_rows = anti.len() > 1 && anti.iter().all(|edge| edge.list.is_some_and(List::is_text));
        let name = if on_rows { name.replace("(G2)", "(G2-item)") } else { name.to_owned() };
        match (cycle.iter().any(|edge| edge.kind == Kind::Order), self.rules.order) {
            (false, _) | (_, Order::None) => name,
            (true, Order::Session) => format!("{name} in the order of a connection"),
            (true, Order::RealTime) => format!("{name} in real time"),
        }
    }

    /// Describes a cycle: each dependency, then each transaction.
    fn describe(&self, cycle: &[Edge]) -> Violation {
        let label = |node: usize| match self.nodes[node] {
            Node::Transaction(number) => format!("T{number}"),
            Node::Statement { transaction, number } => format!("statement {number} of T{transaction}"),
            Node::Moment => "a moment".to_owned(),
        };
        // A path through moments is shown as one step.
        let start = cycle.iter().position(|edge| !matches!(self.nodes[edge.from], Node::Moment)).unwrap_or(0);
        let mut steps: Vec<Edge> = Vec::new();
        for at in 0..cycle.len() {
            let edge = cycle[(start + at) % cycle.len()];
            match steps.last_mut().filter(|_| matches!(self.nodes[edge.from], Node::Moment)) {
                Some(last) => last.to = edge.to,
                None => steps.push(edge),
            }
        }
        let mut lines = Vec::new();
        for edge in &steps {
            let (from, to) = (label(edge.from), label(edge.to));
            let list = edge.list.map(|list| list.to_string()).unwrap_or_default();
            lines.push(match edge.kind {
                Kind::WriteWrite => format!("{to} appended to {list} right after {from}"),
                Kind::WriteRead => format!("{to} read {list} with what {from} appended last"),
                Kind::ReadWrite => format!("{from} read {list} without what {to} appended next"),
                Kind::Order => format!("{from} had ended when {to} began"),
            });
        }
        let mut named: Vec<usize> = steps
            .iter()
            .filter_map(|edge| match self.nodes[edge.from] {
                Node::Transaction(number) | Node::Statement { transaction: number, .. } => Some(number),
                Node::Moment => None,
            })
            .collect();
        named.sort_unstable();
        named.dedup();
        lines.extend(named.into_iter().map(|number| format!("T{number} is {}", self.history.transactions[number])));
        Violation { name: self.name_of(&steps), text: lines.join("\n  ") }
    }
}

#[cfg(test)]
mod tests;
