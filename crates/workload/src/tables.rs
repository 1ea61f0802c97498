//! `Tables`: TPC-C's tables in an SQL database. All targets use the same statements, each prepared once per session.
//!
//! Transactions that write run at the requested isolation level. At READ COMMITTED, the default, they are still
//! serializable: a row that changes is changed from its newest value in one statement, or is locked first; all other
//! rows that they read never change. Transactions that only read are REPEATABLE READ. Rows are locked in one global
//! order: district, then stock by warehouse and item; customer, district, warehouse.

use anyhow::Context;
use postgres::Config;
use postgres::types::ToSql;

use crate::line::{Cells, Line, Lines as Opens, Server};
use crate::numeric::{Money, Rate};
use crate::population::Population;
use crate::request::{CustomerBy, Delivery, NewOrder, OrderStatus, Payment, Request, StockLevel};
use crate::scale::{DISTRICTS, LINES};
use crate::schema::{DEFINITIONS, Lines, TABLES};
use crate::target::{Answer, Failure, Session, Target, middle, share_out, total};

/// Bytes collected before they are passed to COPY.
const COPY_BYTES: usize = 256 << 10;
/// The smallest number of lines inserted: those of an order of which one item does not exist.
const LINES_MIN: u32 = *LINES.start() - 1;
/// Begins a transaction that only reads.
pub const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// An SQL database, and how it is used.
#[derive(Clone, Debug)]
pub struct Tables<O> {
    name: String,
    ring: &'static str,
    lines: O,
    /// Begins a transaction that writes.
    begin: String,
    sync: bool,
}

/// The tables of a server.
pub type Wire = Tables<Server>;

impl Wire {
    /// Makes the target. `isolation` is named as in SQL; with `sync`, commits wait for the disk.
    pub fn new(name: &str, ring: &'static str, config: Config, isolation: &str, sync: bool) -> Self {
        Self::of(name, ring, Server(config), isolation, sync)
    }
}

impl<O: Opens> Tables<O> {
    /// Makes the target as [`Wire::new`] does, with the given way to open sessions.
    pub fn of(name: &str, ring: &'static str, lines: O, isolation: &str, sync: bool) -> Self {
        let begin = format!("BEGIN ISOLATION LEVEL {isolation}");
        Self { name: name.to_owned(), ring, lines, begin, sync }
    }

    /// Opens a session whose commits wait as the target promises.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses.
    pub fn open(&self) -> anyhow::Result<O::Line> {
        let mut line = self.lines.open().with_context(|| format!("cannot connect to {}", self.name))?;
        line.batch(if self.sync { "SET synchronous_commit = on" } else { "SET synchronous_commit = off" })?;
        Ok(line)
    }
}

/// Loads `rows`; `each` turns a row into lines.
fn copy<L: Line, T>(
    line: &mut L,
    table: &str,
    rows: impl Iterator<Item = T> + Send,
    mut each: impl FnMut(&mut Lines, &T) + Send,
) -> anyhow::Result<()> {
    let mut rows = rows.fuse();
    let mut pieces = || {
        let mut lines = Lines::default();
        for row in rows.by_ref() {
            each(&mut lines, &row);
            if lines.0.len() >= COPY_BYTES {
                break;
            }
        }
        lines.0
    };
    line.copy(table, &mut pieces).map_err(|error| anyhow::Error::from(error).context(format!("cannot load {table}")))
}

impl<O: Opens> Target for Tables<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn level(&self) -> &'static str {
        if self.sync { "disk" } else { "memory" }
    }

    fn ring(&self) -> &'static str {
        self.ring
    }

    fn load(&self, population: &Population, threads: usize, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()> {
        let mut client = self.open()?;
        client.batch(&format!("DROP TABLE IF EXISTS {}", TABLES.join(", ")))?;
        client.batch(DEFINITIONS)?;
        let now: String = client.ask("SELECT localtimestamp::text", &[])?.pop().context("no time")?.get(0);
        share_out(population.scale.warehouses + 1, threads, |job| {
            let mut client = self.open()?;
            if job == 0 {
                return copy(&mut client, "item", population.items(), Lines::item);
            }
            say(&format!("warehouse {job} of {}", population.scale.warehouses));
            load_warehouse(&mut client, population, job, &now)
        })?;
        // A fair comparison requires this of a peer.
        for table in TABLES {
            client.batch(&format!("VACUUM ANALYZE {table}"))?;
        }
        Ok(())
    }

    fn connect(&self) -> anyhow::Result<Box<dyn Session>> {
        let mut client = self.open()?;
        let statements = Statements::prepare(&mut client)
            .map_err(|error| anyhow::Error::from(error).context(format!("{} cannot prepare", self.name)))?;
        Ok(Box::new(Terminal { client, statements, begin: self.begin.clone() }))
    }

    fn log_position(&self) -> anyhow::Result<u64> {
        let row = self.open()?.ask("SELECT pg_current_wal_lsn()::text", &[])?.pop();
        let text: String = row.context("no position of a log")?.get(0);
        let (high, low) = text.split_once('/').with_context(|| format!("no position of a log: {text}"))?;
        Ok((u64::from_str_radix(high, 16)? << 32) + u64::from_str_radix(low, 16)?)
    }
}

fn load_warehouse<L: Line>(client: &mut L, population: &Population, warehouse: u32, now: &str) -> anyhow::Result<()> {
    let (place, districts) = population.warehouse(warehouse);
    copy(client, "warehouse", [place].into_iter(), Lines::warehouse)?;
    copy(client, "district", districts.into_iter(), Lines::district)?;
    copy(client, "customer", population.customers(warehouse), |lines, row| lines.customer(row, now))?;
    copy(client, "history", population.histories(warehouse), |lines, row| lines.history(row, now))?;
    copy(client, "orders", population.orders(warehouse), |lines, row| lines.order(row, now))?;
    let new = population.orders(warehouse).filter(|order| order.carrier.is_none());
    copy(client, "new_order", new, Lines::new_order)?;
    copy(client, "order_line", population.orders(warehouse), |lines, row| lines.order_lines(row, now))?;
    copy(client, "stock", population.stock(warehouse), Lines::stock)
}

/// Every statement of the five transactions.
struct Statements<S> {
    warehouse_tax: S,
    next_order: S,
    discount: S,
    items: S,
    insert_order: S,
    insert_new_order: S,
    /// By district number.
    take_stock: Vec<S>,
    /// By number of lines, from `LINES_MIN` on.
    insert_lines: Vec<S>,
    by_name: S,
    pay: S,
    district_ytd: S,
    warehouse_ytd: S,
    insert_history: S,
    customer: S,
    last_order: S,
    lines: S,
    oldest: S,
    is_any_new: S,
    delete_new_order: S,
    carry: S,
    deliver_lines: S,
    credit: S,
    next_order_now: S,
    low_stock: S,
}

impl<S> Statements<S> {
    fn prepare(client: &mut impl Line<Statement = S>) -> Result<Self, Failure> {
        let mut take_stock = Vec::new();
        for district in 1..=DISTRICTS {
            take_stock.push(client.prepare(&format!(
                "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, \
                 s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 \
                 WHERE s_w_id = $1 AND s_i_id = $2 RETURNING s_quantity, s_dist_{district:02}, s_data"
            ))?);
        }
        let mut insert_lines = Vec::new();
        for count in LINES_MIN..=*LINES.end() {
            let rows: Vec<String> = (0..count)
                .map(|line| {
                    let at = |column: u32| 4 + line * 5 + column;
                    let [item, supplier, quantity, amount, info] = [0, 1, 2, 3, 4].map(at);
                    format!("($1, $2, $3, {}, ${item}, ${supplier}, ${quantity}, ${amount}, ${info})", line + 1)
                })
                .collect();
            insert_lines.push(client.prepare(&format!(
                "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
                 ol_amount, ol_dist_info) VALUES {}",
                rows.join(", ")
            ))?);
        }
        let mut prepare = |text: &str| client.prepare(text);
        Ok(Self {
            warehouse_tax: prepare("SELECT w_tax FROM warehouse WHERE w_id = $1")?,
            next_order: prepare(
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
                 RETURNING d_next_o_id - 1, d_tax",
            )?,
            discount: prepare(
                "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            items: prepare("SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id = ANY($1)")?,
            insert_order: prepare(
                "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                 VALUES ($1, $2, $3, $4, localtimestamp, $5, $6)",
            )?,
            insert_new_order: prepare("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)")?,
            take_stock,
            insert_lines,
            by_name: prepare(
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
            )?,
            pay: prepare(
                "UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, \
                 c_payment_cnt = c_payment_cnt + 1, \
                 c_data = CASE WHEN c_credit = 'BC' THEN substr($5 || c_data, 1, 500) ELSE c_data END \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
                 RETURNING c_balance, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                 c_credit, c_credit_lim, c_discount, CASE WHEN c_credit = 'BC' THEN substr(c_data, 1, 200) END",
            )?,
            district_ytd: prepare(
                "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2 \
                 RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
            )?,
            warehouse_ytd: prepare(
                "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1 \
                 RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
            )?,
            insert_history: prepare(
                "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                 VALUES ($1, $2, $3, $4, $5, localtimestamp, $6, $7)",
            )?,
            customer: prepare(
                "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            last_order: prepare(
                "SELECT o_id, o_entry_d, o_carrier_id, o_ol_cnt FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
                 ORDER BY o_id DESC LIMIT 1",
            )?,
            lines: prepare(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
            oldest: prepare(
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
            )?,
            is_any_new: prepare("SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 LIMIT 1")?,
            delete_new_order: prepare("DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3")?,
            carry: prepare(
                "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
            )?,
            deliver_lines: prepare(
                "UPDATE order_line SET ol_delivery_d = localtimestamp WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 \
                 RETURNING ol_amount",
            )?,
            credit: prepare(
                "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            next_order_now: prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            low_stock: prepare(
                "SELECT count(DISTINCT s_i_id)::int FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 \
                 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5",
            )?,
        })
    }
}

/// Converts a number of the tables; all are far below 2^31.
fn int(number: u32) -> i32 {
    number.cast_signed()
}

/// A terminal's session.
struct Terminal<L: Line> {
    client: L,
    statements: Statements<L::Statement>,
    begin: String,
}

impl<L: Line> Session for Terminal<L> {
    fn run(&mut self, request: &Request) -> Result<Answer, Failure> {
        let answer = self.attempt(request);
        if answer.is_err() {
            // If the connection is lost, the next statement reports it.
            let _gone = self.client.batch("ROLLBACK");
        }
        answer
    }
}

impl<L: Line> Terminal<L> {
    fn attempt(&mut self, request: &Request) -> Result<Answer, Failure> {
        let reads = matches!(request, Request::OrderStatus(_) | Request::StockLevel(_));
        self.client.batch(if reads { BEGIN_READING } else { &self.begin })?;
        let answer = match request {
            Request::NewOrder(order) => self.new_order(order)?,
            Request::Payment(payment) => self.payment(payment)?,
            Request::OrderStatus(status) => self.order_status(status)?,
            Request::Delivery(delivery) => self.delivery(delivery)?,
            Request::StockLevel(level) => self.stock_level(level)?,
        };
        self.client.batch(if answer.rolled_back { "ROLLBACK" } else { "COMMIT" })?;
        Ok(answer)
    }

    fn new_order(&mut self, order: &NewOrder) -> Result<Answer, Failure> {
        let (client, s) = (&mut self.client, &self.statements);
        let [warehouse, district, customer] = [order.warehouse, order.district, order.customer].map(int);
        let tax: Rate = client.one(&s.warehouse_tax, &[&warehouse])?.get(0);
        let row = client.one(&s.next_order, &[&warehouse, &district])?;
        let (id, district_tax): (i32, Rate) = (row.get(0), row.get(1));
        let discount: Rate = client.one(&s.discount, &[&warehouse, &district, &customer])?.get(0);
        let count = int(u32::try_from(order.items.len()).expect("at most 15"));
        let all_local = i32::from(order.all_local());
        client.query(&s.insert_order, &[&warehouse, &district, &id, &customer, &count, &all_local])?;
        client.query(&s.insert_new_order, &[&warehouse, &district, &id])?;
        let ids: Vec<i32> = order.items.iter().map(|item| int(item.item)).collect();
        let found = client.query(&s.items, &[&ids])?;
        let item_of = |id: i32| found.iter().find(|row| row.get::<i32>(0) == id);
        // The user's mistake is the last item. The other items are processed in full, then everything is rolled back
        // (clause 2.4.2.3).
        let mistaken = ids.last().is_some_and(|id| item_of(*id).is_none());
        let there = order.items.len() - usize::from(mistaken);
        let mut answer = Answer { rolled_back: mistaken, ..Answer::default() };
        let mut lines = vec![(Money(0), String::new()); there];
        let mut sum = 0;
        for at in order.by_stock().into_iter().filter(|at| *at < there) {
            let item = order.items[at];
            let row = item_of(int(item.item)).with_context(|| format!("there is no item {}", item.item));
            let row = row.map_err(Failure::Other)?;
            let (price, original): (Money, bool) = (row.get(1), is_original(row, 3));
            let [supplier, number, quantity] = [item.supplier, item.item, item.quantity].map(int);
            let remote = i32::from(item.supplier != order.warehouse);
            let take = &s.take_stock[order.district as usize - 1];
            let stock = client.one(take, &[&supplier, &number, &quantity, &remote])?;
            answer.count += u32::from(original && is_original(&stock, 2));
            let amount = price.0 * i64::from(item.quantity);
            sum += amount;
            lines[at] = (Money(amount), stock.get(1));
        }
        let numbers: Vec<[i32; 3]> =
            order.items[..there].iter().map(|item| [item.item, item.supplier, item.quantity].map(int)).collect();
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&warehouse, &district, &id];
        for ([item, supplier, quantity], (amount, info)) in numbers.iter().zip(&lines) {
            values.extend([item as &(dyn ToSql + Sync), supplier, quantity, amount, info]);
        }
        client.query(&s.insert_lines[there - LINES_MIN as usize], &values)?;
        answer.amount = total(sum, discount.0, tax.0, district_tax.0);
        Ok(answer)
    }

    /// Returns the id of the customer that `who` names.
    fn customer(&mut self, warehouse: i32, district: i32, who: &CustomerBy) -> Result<i32, Failure> {
        match who {
            CustomerBy::Id(id) => Ok(int(*id)),
            CustomerBy::Last(last) => {
                let rows = self.client.query(&self.statements.by_name, &[&warehouse, &district, last])?;
                if rows.is_empty() {
                    let text = format!("no customer {last} in district {district} of {warehouse}");
                    return Err(Failure::Other(anyhow::anyhow!(text)));
                }
                Ok(rows[middle(rows.len())].get(0))
            }
        }
    }

    fn payment(&mut self, payment: &Payment) -> Result<Answer, Failure> {
        let [warehouse, district] = [payment.warehouse, payment.district].map(int);
        let [of_warehouse, of_district] = [payment.customer_warehouse, payment.customer_district].map(int);
        let customer = self.customer(of_warehouse, of_district, &payment.customer)?;
        let (client, s) = (&mut self.client, &self.statements);
        let (amount, cents) = (Money(payment.amount), payment.amount);
        let note = format!(
            "{customer} {of_district} {of_warehouse} {district} {warehouse} {}.{:02} ",
            cents / 100,
            cents % 100
        );
        let row = client.one(&s.pay, &[&of_warehouse, &of_district, &customer, &amount, &note])?;
        let Money(balance) = row.get(0);
        let of_district_name: String = client.one(&s.district_ytd, &[&warehouse, &district, &amount])?.get(0);
        // Locked last among the contended rows: all payments in this warehouse wait for it.
        let name: String = client.one(&s.warehouse_ytd, &[&warehouse, &amount])?.get(0);
        let data = format!("{name}    {of_district_name}");
        client.query(
            &s.insert_history,
            &[&customer, &of_district, &of_warehouse, &district, &warehouse, &amount, &data],
        )?;
        Ok(Answer { rolled_back: false, amount: balance, count: 0 })
    }

    fn order_status(&mut self, status: &OrderStatus) -> Result<Answer, Failure> {
        let [warehouse, district] = [status.warehouse, status.district].map(int);
        let customer = self.customer(warehouse, district, &status.customer)?;
        let (client, s) = (&mut self.client, &self.statements);
        let Money(amount) = client.one(&s.customer, &[&warehouse, &district, &customer])?.get(0);
        let Some(order) = client.opt(&s.last_order, &[&warehouse, &district, &customer])? else {
            return Ok(Answer { amount, ..Answer::default() });
        };
        let (id, count): (i32, i32) = (order.get(0), order.get(3));
        let lines = client.query(&s.lines, &[&warehouse, &district, &id])?;
        let shown = u32::try_from(lines.len()).expect("at most 15");
        if int(shown) != count {
            let text = format!("order {id} of {warehouse}, {district} has {shown} lines in place of {count}");
            return Err(Failure::Other(anyhow::anyhow!(text)));
        }
        Ok(Answer { rolled_back: false, amount, count: shown })
    }

    /// Locks the oldest new order of a district, if there is one.
    fn oldest(&mut self, warehouse: i32, district: i32) -> Result<Option<i32>, Failure> {
        loop {
            if let Some(row) = self.client.opt(&self.statements.oldest, &[&warehouse, &district])? {
                return Ok(Some(row.get(0)));
            }
            // A statement that waited for a row that was then deleted returns none, although there may be others.
            if self.client.opt(&self.statements.is_any_new, &[&warehouse, &district])?.is_none() {
                return Ok(None);
            }
        }
    }

    fn delivery(&mut self, delivery: &Delivery) -> Result<Answer, Failure> {
        let [warehouse, carrier] = [delivery.warehouse, delivery.carrier].map(int);
        let mut answer = Answer::default();
        for district in 1..=int(DISTRICTS) {
            let Some(order) = self.oldest(warehouse, district)? else { continue };
            let (client, s) = (&mut self.client, &self.statements);
            client.query(&s.delete_new_order, &[&warehouse, &district, &order])?;
            let customer: i32 = client.one(&s.carry, &[&warehouse, &district, &order, &carrier])?.get(0);
            let lines = client.query(&s.deliver_lines, &[&warehouse, &district, &order])?;
            let sum: i64 = lines.iter().map(|line| line.get::<Money>(0).0).sum();
            client.query(&s.credit, &[&warehouse, &district, &customer, &Money(sum)])?;
            answer.count += 1;
            answer.amount += sum;
        }
        Ok(answer)
    }

    fn stock_level(&mut self, level: &StockLevel) -> Result<Answer, Failure> {
        let (client, s) = (&mut self.client, &self.statements);
        let [warehouse, district] = [level.warehouse, level.district].map(int);
        let next: i32 = client.one(&s.next_order_now, &[&warehouse, &district])?.get(0);
        let first = next - 20;
        let row = client.one(&s.low_stock, &[&warehouse, &district, &first, &next, &level.threshold])?;
        Ok(Answer { rolled_back: false, amount: 0, count: row.get::<i32>(0).unsigned_abs() })
    }
}

fn is_original(row: &impl Cells, column: usize) -> bool {
    row.get::<&str>(column).contains("ORIGINAL")
}
