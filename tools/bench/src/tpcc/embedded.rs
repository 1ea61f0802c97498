//! `Embedded`: the engine in this process, with rows laid out by `layout`.
//!
//! Writing transactions are READ COMMITTED (or as set by [`Embedded::at`]), each in one statement. A row that another
//! transaction changed first is read again before it is changed, so no update is lost; the other rows that they read
//! never change. Read-only transactions are REPEATABLE READ.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use collie_engine::{
    Basis, Db, EngineError, ErrorKind, Family, Insert, Isolation, KeyRange, Options, Outcome, StatementKind, Write,
};
use collie_env::Env;
use collie_workload::{
    DISTRICTS, Population, Scale,
    request::{CustomerBy, Delivery, NewOrder, OrderStatus, Payment, Request, StockLevel},
    target::{Answer, Failure, Session, Target, middle, share_out, total},
};

use super::audit::{Audited, Reader};
use super::books::{Books, CustomerBook, DistrictBook, LinesBook, OrderBook, Payments};
use super::layout::{self, Bytes, INFO_BYTES, LINE_BYTES};
use crate::Scratch;

/// Rows per transaction while loading.
const LOAD_ROWS: usize = 1_000;
/// No limit, for a scan of a whole range.
const ALL: usize = usize::MAX;
/// The largest length of a customer's text in bytes.
const DATA_BYTES: usize = 500;

/// The families of the tables.
#[derive(Debug)]
struct Tables {
    item: Arc<Family>,
    warehouse: Arc<Family>,
    warehouse_ytd: Arc<Family>,
    district: Arc<Family>,
    district_ytd: Arc<Family>,
    district_next: Arc<Family>,
    customer: Arc<Family>,
    customer_money: Arc<Family>,
    customer_data: Arc<Family>,
    customer_name: Arc<Family>,
    history: Arc<Family>,
    orders: Arc<Family>,
    orders_customer: Arc<Family>,
    new_order: Arc<Family>,
    order_lines: Arc<Family>,
    stock: Arc<Family>,
    stock_text: Arc<Family>,
}

impl Tables {
    fn new(db: &Db) -> Self {
        let family = || db.family(db.create_family());
        Self {
            item: family(),
            warehouse: family(),
            warehouse_ytd: family(),
            district: family(),
            district_ytd: family(),
            district_next: family(),
            customer: family(),
            customer_money: family(),
            customer_data: family(),
            customer_name: family(),
            history: family(),
            orders: family(),
            orders_customer: family(),
            new_order: family(),
            order_lines: family(),
            stock: family(),
            stock_text: family(),
        }
    }
}

/// An open database.
pub(crate) struct Embedded {
    db: Db,
    tables: Arc<Tables>,
    /// The next number of a row of the history.
    histories: Arc<AtomicU64>,
    env: Env,
    sync: bool,
    /// Makes Payment omit `d_ytd`, so that a test sees the checks fail.
    #[cfg(test)]
    pub(crate) forgets_district_ytd: bool,
    /// Declared after `db`, so that the database is closed before its files are removed.
    _scratch: Scratch,
}

impl Embedded {
    /// Creates a database in its own directory inside `dir`; with `sync`, commits wait for the disk.
    ///
    /// # Errors
    /// Those of the operating system and the engine.
    pub(crate) fn open(env: &Env, dir: &Path, options: Options, sync: bool) -> anyhow::Result<Self> {
        let scratch = Scratch::new(env, dir)?;
        let (db, _report) = Db::open(&scratch.path().join("db"), options, env.clone(), &mut |_| ())?;
        let tables = Arc::new(Tables::new(&db));
        Ok(Self {
            db,
            tables,
            histories: Arc::default(),
            env: env.clone(),
            sync,
            #[cfg(test)]
            forgets_district_ytd: false,
            _scratch: scratch,
        })
    }

    /// Returns the database.
    pub(crate) const fn db(&self) -> &Db {
        &self.db
    }

    fn terminal(&self) -> anyhow::Result<Terminal> {
        Ok(Terminal {
            session: self.db.session()?,
            tables: Arc::clone(&self.tables),
            histories: Arc::clone(&self.histories),
            env: self.env.clone(),
            sync: self.sync,
            #[cfg(test)]
            forgets_district_ytd: self.forgets_district_ytd,
            value: Vec::new(),
        })
    }

    fn next_history(&self) -> u64 {
        self.histories.fetch_add(1, Relaxed)
    }
}

/// Inserts rows, a thousand per transaction.
struct Loader {
    session: collie_engine::Session,
    rows: usize,
}

impl Loader {
    fn new(db: &Db) -> anyhow::Result<Self> {
        Ok(Self { session: db.session()?, rows: 0 })
    }

    fn insert(&mut self, family: &Family, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        if !self.session.in_transaction() {
            if let Some(wait) = self.session.wait_for_room()? {
                wait.block()?;
            }
            self.session.begin(Isolation::ReadCommitted, false)?;
            self.session.begin_statement(StatementKind::Write)?;
        }
        let inserted = self.session.insert(family, key, value)?;
        anyhow::ensure!(inserted == Insert::Done, "a row is loaded twice: {key:?}");
        self.rows += 1;
        if self.rows.is_multiple_of(LOAD_ROWS) { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        if self.session.in_transaction() {
            self.session.commit(false)?.block()?;
        }
        Ok(())
    }
}

impl Target for Embedded {
    fn name(&self) -> &str {
        "collie engine"
    }

    fn level(&self) -> &'static str {
        if self.sync { "disk" } else { "memory" }
    }

    fn ring(&self) -> &'static str {
        "private 16 MiB"
    }

    fn load(&self, population: &Population, threads: usize, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        share_out(population.scale.warehouses + 1, threads, |job| {
            let mut loader = Loader::new(&self.db)?;
            if job == 0 {
                for item in population.items() {
                    loader.insert(&self.tables.item, &layout::key1(item.id), &layout::item(&item))?;
                }
            } else {
                say(&format!("warehouse {job} of {}", population.scale.warehouses));
                self.load_warehouse(population, job, &mut loader)?;
            }
            loader.commit()
        })
    }

    fn connect(&self) -> anyhow::Result<Box<dyn Session>> {
        Ok(Box::new(self.terminal()?))
    }

    fn log_position(&self) -> anyhow::Result<u64> {
        Ok(self.db.boundary().get())
    }
}

impl Audited for Embedded {
    fn holds(&self) -> anyhow::Result<Option<Scale>> {
        Ok(None) // it was just made
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        let mut session = self.db.session()?;
        session.begin(Isolation::RepeatableRead, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        Ok(Box::new(Snapshot { session, tables: &self.tables }))
    }
}

impl Embedded {
    fn load_warehouse(&self, population: &Population, warehouse: u32, loader: &mut Loader) -> anyhow::Result<()> {
        let t = &*self.tables;
        let (place, districts) = population.warehouse(warehouse);
        loader.insert(&t.warehouse, &layout::key1(warehouse), &layout::warehouse(&place))?;
        loader.insert(&t.warehouse_ytd, &layout::key1(warehouse), &place.ytd.to_be_bytes())?;
        for district in districts {
            let key = layout::key2(warehouse, district.id);
            loader.insert(&t.district, &key, &layout::district(&district))?;
            loader.insert(&t.district_ytd, &key, &district.ytd.to_be_bytes())?;
            loader.insert(&t.district_next, &key, &district.next_order.to_be_bytes())?;
        }
        for customer in population.customers(warehouse) {
            let key = layout::key3(warehouse, customer.district, customer.id);
            loader.insert(&t.customer, &key, &layout::customer(&customer))?;
            loader.insert(&t.customer_money, &key, &layout::customer_money(&customer))?;
            loader.insert(&t.customer_data, &key, customer.data.as_bytes())?;
            loader.insert(&t.customer_name, &layout::name_key(&customer), &[])?;
        }
        for history in population.histories(warehouse) {
            let key = layout::history_key(warehouse, history.district, self.next_history());
            loader.insert(&t.history, &key, &layout::history(&history))?;
        }
        for order in population.orders(warehouse) {
            let key = layout::key3(warehouse, order.district, order.id);
            loader.insert(&t.orders, &key, &layout::order(&order))?;
            let by_customer = layout::key4(warehouse, order.district, order.customer, order.id);
            loader.insert(&t.orders_customer, &by_customer, &[])?;
            loader.insert(&t.order_lines, &key, &layout::lines(&order.lines))?;
            if order.carrier.is_none() {
                loader.insert(&t.new_order, &key, &[])?;
            }
        }
        for stock in population.stock(warehouse) {
            let key = layout::stock_key(warehouse, stock.item);
            loader.insert(&t.stock, &key, &layout::stock(&stock))?;
            loader.insert(&t.stock_text, &key, &layout::stock_text(&stock))?;
        }
        Ok(())
    }
}

/// Why a transaction on the engine ended.
struct Ended(Failure);

impl From<EngineError> for Ended {
    fn from(error: EngineError) -> Self {
        Self(match error.kind() {
            ErrorKind::Conflict => Failure::Conflict,
            ErrorKind::Deadlock => Failure::Deadlock,
            _ => Failure::Other(error.into()),
        })
    }
}

fn broken(what: String) -> Ended {
    Ended(Failure::Other(anyhow::anyhow!(what)))
}

fn missing(what: &str, key: &[u8]) -> Ended {
    broken(format!("{what} {key:?} is not there"))
}

/// A terminal's session on the engine.
struct Terminal {
    session: collie_engine::Session,
    tables: Arc<Tables>,
    histories: Arc<AtomicU64>,
    env: Env,
    sync: bool,
    #[cfg(test)]
    forgets_district_ytd: bool,
    /// The row that is being changed.
    value: Vec<u8>,
}

impl Session for Terminal {
    fn run(&mut self, request: &Request) -> Result<Answer, Failure> {
        let answer = self.attempt(request);
        if answer.is_err() {
            self.session.rollback();
        }
        answer.map_err(|Ended(failure)| failure)
    }
}

impl Terminal {
    fn attempt(&mut self, request: &Request) -> Result<Answer, Ended> {
        let tables = Arc::clone(&self.tables);
        match request {
            Request::NewOrder(order) => {
                self.begin()?;
                match self.new_order(&tables, order)? {
                    Some(answer) => self.commit(answer),
                    None => {
                        self.session.rollback();
                        Ok(Answer { rolled_back: true, ..Answer::default() })
                    }
                }
            }
            Request::Payment(payment) => {
                self.begin()?;
                let answer = self.payment(&tables, payment)?;
                self.commit(answer)
            }
            Request::Delivery(delivery) => {
                self.begin()?;
                let answer = self.delivery(&tables, delivery)?;
                self.commit(answer)
            }
            Request::OrderStatus(status) => {
                self.begin_reading()?;
                let answer = self.order_status(&tables, status)?;
                self.commit(answer)
            }
            Request::StockLevel(level) => {
                self.begin_reading()?;
                let answer = self.stock_level(&tables, level)?;
                self.commit(answer)
            }
        }
    }

    fn begin(&mut self) -> Result<(), Ended> {
        if let Some(wait) = self.session.wait_for_room()? {
            wait.block()?;
        }
        self.session.begin(Isolation::ReadCommitted, false)?;
        Ok(self.session.begin_statement(StatementKind::Write)?)
    }

    fn begin_reading(&mut self) -> Result<(), Ended> {
        self.session.begin(Isolation::RepeatableRead, true)?;
        Ok(self.session.begin_statement(StatementKind::ReadOnly)?)
    }

    /// Continues in a new statement, which sees the commits made meanwhile and the transaction's own writes.
    fn look_again(&mut self) -> Result<(), Ended> {
        self.session.end_statement();
        Ok(self.session.begin_statement(StatementKind::Write)?)
    }

    fn commit(&mut self, answer: Answer) -> Result<Answer, Ended> {
        self.session.end_statement();
        self.session.commit(self.sync)?.block()?;
        Ok(answer)
    }

    fn read<R>(&self, family: &Family, what: &str, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<R, Ended> {
        self.session.get_with(family, key, read)?.ok_or_else(|| missing(what, key))
    }

    fn insert(&mut self, family: &Family, key: &[u8], value: &[u8]) -> Result<(), Ended> {
        loop {
            match self.session.insert(family, key, value)? {
                Insert::Done => return Ok(()),
                Insert::Wait(blocker) => self.session.wait(blocker).block(None)?,
                Insert::Duplicate(_) => return Err(broken(format!("row {key:?} is there already"))),
            }
        }
    }

    /// Changes the row at `key` from its newest value. `change` may be called more than once, each time with a new copy
    /// of the value.
    fn update(
        &mut self,
        family: &Family,
        what: &str,
        key: &[u8],
        mut change: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), Ended> {
        let mut value = std::mem::take(&mut self.value);
        let mut basis = Basis::Snapshot;
        value.clear();
        self.read(family, what, key, |old| value.extend_from_slice(old))?;
        change(&mut value);
        loop {
            match self.session.write(family, key, basis, Write::Put(&value))? {
                Outcome::Done => break,
                Outcome::Wait(blocker) => self.session.wait(blocker).block(None)?,
                Outcome::Changed { csn, row } => {
                    basis = Basis::After(csn);
                    value.clear();
                    value.extend_from_slice(&row);
                    change(&mut value);
                }
                Outcome::SelfModified => {
                    self.look_again()?;
                    basis = Basis::Snapshot;
                    value.clear();
                    self.read(family, what, key, |old| value.extend_from_slice(old))?;
                    change(&mut value);
                }
                Outcome::Gone | Outcome::Moved(_) => return Err(missing(what, key)),
            }
        }
        self.value = value;
        Ok(())
    }

    /// Returns `None` if an item does not exist, as after a user's mistake.
    fn new_order(&mut self, t: &Tables, order: &NewOrder) -> Result<Option<Answer>, Ended> {
        let NewOrder { warehouse, district, customer, ref items } = *order;
        let warehouse_tax =
            self.read(&t.warehouse, "warehouse", &layout::key1(warehouse), |row| layout::u16_at(row, 0))?;
        let place = layout::key2(warehouse, district);
        let district_tax = self.read(&t.district, "district", &place, |row| layout::u16_at(row, 0))?;
        let who = layout::key3(warehouse, district, customer);
        let discount = self.read(&t.customer, "customer", &who, |row| layout::u16_at(row, 0))?;
        let mut id = 0;
        self.update(&t.district_next, "district", &place, |next| {
            id = layout::u32_at(next, 0);
            layout::put_u32(next, 0, id + 1);
        })?;
        let mut lines = vec![0; items.len() * LINE_BYTES];
        let (mut sum, mut branded, mut mistaken) = (0, 0, false);
        for at in order.by_stock() {
            let item = items[at];
            let found = self
                .session
                .get_with(&t.item, &layout::key1(item.item), |row| (layout::i64_at(row, 0), is_original(row)))?;
            let Some((price, original)) = found else {
                // The order is processed with the other items and then rolled back (clause 2.4.2.3).
                mistaken = true;
                continue;
            };
            let amount = price * i64::from(item.quantity);
            let key = layout::stock_key(item.supplier, item.item);
            let remote = u32::from(item.supplier != warehouse);
            let ordered = i32::try_from(item.quantity).expect("at most 10");
            self.update(&t.stock, "stock", &key, |stock| {
                let quantity = restocked(layout::i32_at(stock, 0), ordered);
                stock[..4].copy_from_slice(&quantity.to_be_bytes());
                layout::add_u32(stock, 4, item.quantity);
                layout::add_u32(stock, 8, 1);
                layout::add_u32(stock, 12, remote);
            })?;
            let info_at = (district as usize - 1) * INFO_BYTES;
            let line = Bytes::default().u32(item.item).u32(item.supplier).i64(0).i64(amount).u8(item.quantity).done();
            let place = &mut lines[at * LINE_BYTES..(at + 1) * LINE_BYTES];
            place[..line.len()].copy_from_slice(&line);
            let both = self.read(&t.stock_text, "stock", &key, |row| {
                place[line.len()..].copy_from_slice(&row[info_at..info_at + INFO_BYTES]);
                original && is_original(&row[DISTRICTS as usize * INFO_BYTES..])
            })?;
            branded += u32::from(both);
            sum += amount;
        }
        let there = items.len() - usize::from(mistaken);
        lines.truncate(there * LINE_BYTES);
        let count = u32::try_from(there).expect("at most 15");
        let header = Bytes::default().u32(customer).i64(self.env.clock.wall_us()).u8(0).u8(count);
        let header = header.u8(u32::from(order.all_local())).done();
        let key = layout::key3(warehouse, district, id);
        self.insert(&t.orders, &key, &header)?;
        self.insert(&t.orders_customer, &layout::key4(warehouse, district, customer, id), &[])?;
        self.insert(&t.new_order, &key, &[])?;
        self.insert(&t.order_lines, &key, &lines)?;
        let amount = total(sum, discount, warehouse_tax, district_tax);
        Ok((!mistaken).then_some(Answer { rolled_back: false, amount, count: branded }))
    }

    /// Returns the id of the customer that `who` names.
    fn customer(&self, t: &Tables, warehouse: u32, district: u32, who: &CustomerBy) -> Result<u32, Ended> {
        let last = match who {
            CustomerBy::Id(id) => return Ok(*id),
            CustomerBy::Last(last) => last,
        };
        let (prefix, mut ids) = (layout::name_prefix(warehouse, district, last), Vec::new());
        self.session.scan(&t.customer_name, &KeyRange::prefix(&prefix), None, false, ALL, &mut |key, _| {
            ids.push(layout::u32_at(key, key.len() - 4));
            ControlFlow::Continue(())
        })?;
        if ids.is_empty() {
            return Err(broken(format!("no customer {last} in district {district} of {warehouse}")));
        }
        Ok(ids[middle(ids.len())])
    }

    fn payment(&mut self, t: &Tables, payment: &Payment) -> Result<Answer, Ended> {
        let Payment { warehouse, district, customer_warehouse, customer_district, amount, .. } = *payment;
        let customer = self.customer(t, customer_warehouse, customer_district, &payment.customer)?;
        let who = layout::key3(customer_warehouse, customer_district, customer);
        let bad = self.read(&t.customer, "customer", &who, |row| row[layout::BAD_CREDIT_AT] != 0)?;
        let mut balance = 0;
        self.update(&t.customer_money, "customer", &who, |money| {
            balance = layout::add_i64(money, 0, -amount);
            layout::add_i64(money, 8, amount);
            layout::add_u32(money, 16, 1);
        })?;
        if bad {
            let note = format!(
                "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {}.{:02} ",
                amount / 100,
                amount % 100
            );
            self.update(&t.customer_data, "customer", &who, |data| {
                data.splice(..0, note.bytes());
                data.truncate(DATA_BYTES);
            })?;
        }
        let place = layout::key2(warehouse, district);
        #[cfg(test)]
        let forgets = self.forgets_district_ytd;
        #[cfg(not(test))]
        let forgets = false;
        if !forgets {
            self.update(&t.district_ytd, "district", &place, |ytd| {
                layout::add_i64(ytd, 0, amount);
            })?;
        }
        let name = |row: &[u8]| row[3..3 + usize::from(row[2])].to_vec();
        let mut data = self.read(&t.warehouse, "warehouse", &layout::key1(warehouse), name)?;
        data.extend(b"    ");
        data.extend(self.read(&t.district, "district", &place, name)?);
        let row = Bytes::default().u32(customer_warehouse).u8(customer_district).u32(customer);
        let mut row = row.i64(self.env.clock.wall_us()).i64(amount).done();
        row.extend(data);
        let number = self.histories.fetch_add(1, Relaxed);
        self.insert(&t.history, &layout::history_key(warehouse, district, number), &row)?;
        // Last, since all payments in this warehouse wait for this row.
        self.update(&t.warehouse_ytd, "warehouse", &layout::key1(warehouse), |ytd| {
            layout::add_i64(ytd, 0, amount);
        })?;
        Ok(Answer { rolled_back: false, amount: balance, count: 0 })
    }

    fn order_status(&self, t: &Tables, status: &OrderStatus) -> Result<Answer, Ended> {
        let OrderStatus { warehouse, district, .. } = *status;
        let customer = self.customer(t, warehouse, district, &status.customer)?;
        let who = layout::key3(warehouse, district, customer);
        let amount = self.read(&t.customer_money, "customer", &who, |money| layout::i64_at(money, 0))?;
        let mut newest = None;
        self.session.scan(&t.orders_customer, &KeyRange::prefix(&who), None, true, 1, &mut |key, _| {
            newest = Some(layout::u32_at(key, 9));
            ControlFlow::Continue(())
        })?;
        let Some(order) = newest else { return Ok(Answer { amount, ..Answer::default() }) };
        let key = layout::key3(warehouse, district, order);
        let count = self.read(&t.orders, "order", &key, |row| u32::from(row[layout::LINES_AT]))?;
        let shown = self.read(&t.order_lines, "lines of order", &key, |lines| {
            u32::try_from(lines.chunks_exact(LINE_BYTES).map(layout::line).count()).expect("at most 15")
        })?;
        if shown != count {
            return Err(broken(format!("order {key:?} has {shown} lines in place of {count}")));
        }
        Ok(Answer { rolled_back: false, amount, count })
    }

    /// Deletes the oldest new order of a district and returns its key, if there is one.
    fn take_oldest(&mut self, t: &Tables, warehouse: u32, district: u32) -> Result<Option<[u8; 9]>, Ended> {
        let range = KeyRange::prefix(&layout::key2(warehouse, district));
        loop {
            let mut oldest: Option<[u8; 9]> = None;
            self.session.scan(&t.new_order, &range, None, false, 1, &mut |key, _| {
                oldest = key.try_into().ok();
                ControlFlow::Continue(())
            })?;
            let Some(key) = oldest else { return Ok(None) };
            loop {
                match self.session.write(&t.new_order, &key, Basis::Snapshot, Write::Delete)? {
                    Outcome::Done => return Ok(Some(key)),
                    Outcome::Wait(blocker) => self.session.wait(blocker).block(None)?,
                    // Another transaction delivered it.
                    _ => break,
                }
            }
            self.look_again()?;
        }
    }

    fn delivery(&mut self, t: &Tables, delivery: &Delivery) -> Result<Answer, Ended> {
        let Delivery { warehouse, carrier } = *delivery;
        let carrier = u8::try_from(carrier).expect("at most 10");
        let now = self.env.clock.wall_us();
        let mut answer = Answer::default();
        for district in 1..=DISTRICTS {
            let Some(key) = self.take_oldest(t, warehouse, district)? else { continue };
            let mut customer = 0;
            self.update(&t.orders, "order", &key, |order| {
                order[layout::CARRIER_AT] = carrier;
                customer = layout::u32_at(order, 0);
            })?;
            let mut sum = 0;
            self.update(&t.order_lines, "lines of order", &key, |lines| sum = layout::deliver(lines, now))?;
            let who = layout::key3(warehouse, district, customer);
            self.update(&t.customer_money, "customer", &who, |money| {
                layout::add_i64(money, 0, sum);
                layout::add_u32(money, 20, 1);
            })?;
            answer.count += 1;
            answer.amount += sum;
        }
        Ok(answer)
    }

    fn stock_level(&self, t: &Tables, level: &StockLevel) -> Result<Answer, Ended> {
        let StockLevel { warehouse, district, threshold } = *level;
        let place = layout::key2(warehouse, district);
        let next = self.read(&t.district_next, "district", &place, |next| layout::u32_at(next, 0))?;
        let recent =
            layout::key3(warehouse, district, next.saturating_sub(20))..layout::key3(warehouse, district, next);
        let mut items = Vec::with_capacity(300);
        self.session.scan(&t.order_lines, &recent.into(), None, false, ALL, &mut |_, lines| {
            items.extend(lines.chunks_exact(LINE_BYTES).map(|line| layout::line(line).0));
            ControlFlow::Continue(())
        })?;
        items.sort_unstable();
        items.dedup();
        let mut count = 0;
        for item in items {
            let key = layout::stock_key(warehouse, item);
            let quantity = self.read(&t.stock, "stock", &key, |stock| layout::i32_at(stock, 0))?;
            count += u32::from(quantity < threshold);
        }
        Ok(Answer { rolled_back: false, amount: 0, count })
    }
}

/// Returns the quantity of stock after `ordered` pieces were ordered (clause 2.4.2.2).
pub(super) const fn restocked(quantity: i32, ordered: i32) -> i32 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

/// Returns whether the text contains ORIGINAL.
fn is_original(text: &[u8]) -> bool {
    text.windows(8).any(|part| part == b"ORIGINAL")
}

/// A consistent snapshot of the engine.
struct Snapshot<'t> {
    session: collie_engine::Session,
    tables: &'t Tables,
}

impl Snapshot<'_> {
    /// Visits the rows of a warehouse.
    fn rows(&self, family: &Family, warehouse: u32, mut visit: impl FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
        let range = KeyRange::prefix(&layout::key1(warehouse));
        self.session.scan(family, &range, None, false, ALL, &mut |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}

/// Returns district and number from a key of three parts.
fn place_of(key: &[u8]) -> (u32, u32) {
    (u32::from(key[4]), layout::u32_at(key, 5))
}

impl Reader for Snapshot<'_> {
    fn items(&mut self) -> anyhow::Result<u64> {
        let mut count = 0;
        self.session.scan(&self.tables.item, &KeyRange::ALL, None, false, ALL, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    fn payments(&mut self) -> anyhow::Result<Payments> {
        let mut payments = Payments::default();
        self.session.scan(&self.tables.history, &KeyRange::ALL, None, false, ALL, &mut |key, row| {
            let amount = layout::i64_at(row, 17);
            *payments.taken.entry((layout::u32_at(key, 0), u32::from(key[4]))).or_default() += amount;
            let (district, customer) = place_of(row);
            *payments.made.entry((layout::u32_at(row, 0), district, customer)).or_default() += amount;
            ControlFlow::Continue(())
        })?;
        Ok(payments)
    }

    fn books(&mut self, warehouse: u32) -> anyhow::Result<Books> {
        let t = self.tables;
        let ytd = self.session.get_with(&t.warehouse_ytd, &layout::key1(warehouse), |ytd| layout::i64_at(ytd, 0))?;
        let mut books = Books {
            ytd: ytd.with_context(|| format!("there is no warehouse {warehouse}"))?,
            stock: 0,
            districts: Vec::new(),
            customers: Vec::new(),
            orders: Vec::new(),
            new_orders: Vec::new(),
            lines: Vec::new(),
        };
        let mut districts = Vec::new();
        self.rows(&t.district_ytd, warehouse, |key, ytd| districts.push((u32::from(key[4]), layout::i64_at(ytd, 0))))?;
        for (id, ytd) in districts {
            let next = self
                .session
                .get_with(&t.district_next, &layout::key2(warehouse, id), |next| layout::u32_at(next, 0))?;
            books.districts.push(DistrictBook { id, ytd, next_order: next.context("a district has no next order")? });
        }
        self.rows(&t.stock, warehouse, |_, _| books.stock += 1)?;
        self.rows(&t.customer_money, warehouse, |key, money| {
            let (district, id) = place_of(key);
            let [balance, ytd_payment] = [0, 8].map(|at| layout::i64_at(money, at));
            let deliveries = layout::u32_at(money, 20);
            books.customers.push(CustomerBook { district, id, balance, ytd_payment, deliveries });
        })?;
        self.rows(&t.orders, warehouse, |key, row| {
            let ((district, id), customer) = (place_of(key), layout::u32_at(row, 0));
            let (carried, lines) = (row[layout::CARRIER_AT] != 0, u32::from(row[layout::LINES_AT]));
            books.orders.push(OrderBook { district, id, customer, carried, lines });
        })?;
        self.rows(&t.new_order, warehouse, |key, _| books.new_orders.push(place_of(key)))?;
        self.rows(&t.order_lines, warehouse, |key, row| {
            let (district, order) = place_of(key);
            let mut lines = LinesBook { district, order, count: 0, delivered: 0, amount: 0 };
            for (_, delivered, amount) in row.chunks_exact(LINE_BYTES).map(layout::line) {
                lines.count += 1;
                if delivered.is_some() {
                    lines.delivered += 1;
                    lines.amount += amount;
                }
            }
            books.lines.push(lines);
        })?;
        Ok(books)
    }
}
