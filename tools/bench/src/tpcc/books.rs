//! `Books`: the sums over the rows of a warehouse, and the twelve consistency conditions of clause 3.3.2 over them.
//!
//! The reader of a database adds up; the conditions are written once, here, for every target. Conditions 1 to 10 and 12
//! hold at any moment. Condition 11 is defined for a database as loaded. Each delivery removes one new order and is
//! counted at its customer, so with these counts included it holds at any moment too.

use collie_base::Map;
use collie_workload::{DISTRICTS, Population, Scale};

use super::audit::Audited;

#[derive(Clone, Debug)]
pub(crate) struct DistrictBook {
    pub(crate) id: u32,
    pub(crate) ytd: i64,
    pub(crate) next_order: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct CustomerBook {
    pub(crate) district: u32,
    pub(crate) id: u32,
    pub(crate) balance: i64,
    pub(crate) ytd_payment: i64,
    pub(crate) deliveries: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct OrderBook {
    pub(crate) district: u32,
    pub(crate) id: u32,
    pub(crate) customer: u32,
    pub(crate) carried: bool,
    pub(crate) lines: u32,
}

/// The lines of one order.
#[derive(Clone, Debug)]
pub(crate) struct LinesBook {
    pub(crate) district: u32,
    pub(crate) order: u32,
    pub(crate) count: u32,
    pub(crate) delivered: u32,
    /// The amount of the delivered lines, in cents.
    pub(crate) amount: i64,
}

/// The rows of one warehouse.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) ytd: i64,
    pub(crate) stock: u64,
    pub(crate) districts: Vec<DistrictBook>,
    pub(crate) customers: Vec<CustomerBook>,
    pub(crate) orders: Vec<OrderBook>,
    /// District and order.
    pub(crate) new_orders: Vec<(u32, u32)>,
    pub(crate) lines: Vec<LinesBook>,
}

/// The history of all warehouses, in cents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payments {
    /// By the warehouse and district that received them.
    pub(crate) taken: Map<(u32, u32), i64>,
    /// By the warehouse, district and customer of the payer.
    pub(crate) made: Map<(u32, u32, u32), i64>,
}

/// The result of checking the conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The breaches, at most a few per condition: "condition 2: ...".
    pub(crate) breaches: Vec<String>,
    /// The number of checks per condition: 1 to 12, and at 0 those of the numbers of rows that never change.
    pub(crate) checked: [u64; 13],
}

/// Most breaches reported per condition.
const TOLD: usize = 3;

impl Verdict {
    /// Returns whether every condition holds everywhere and was checked at least once.
    pub(crate) fn holds(&self) -> bool {
        self.breaches.is_empty() && self.checked.iter().all(|count| *count > 0)
    }

    /// Fails unless everything holds.
    ///
    /// # Errors
    /// The breaches, on one line.
    pub(crate) fn ensure(&self, name: &str, when: &str) -> anyhow::Result<()> {
        anyhow::ensure!(self.holds(), "{name} is not consistent {when}: {}", self.breaches.join("; "));
        Ok(())
    }

    fn check(&mut self, condition: usize, holds: bool, breach: impl FnOnce() -> String) {
        self.checked[condition] += 1;
        let begin = format!("condition {condition}: ");
        if !holds && self.breaches.iter().filter(|told| told.starts_with(&begin)).count() < TOLD {
            self.breaches.push(begin + &breach());
        }
    }

    fn equal(&mut self, condition: usize, what: &str, at: (u32, u32), left: i64, right: i64) {
        self.check(condition, left == right, || {
            let (warehouse, district) = at;
            format!("{what} in warehouse {warehouse}, district {district}: {left} and {right}")
        });
    }
}

/// The sums over the rows of one district.
#[derive(Clone, Debug, Default)]
struct Sum {
    newest_order: u32,
    orders: i64,
    ordered_lines: i64,
    lines: i64,
    newest_new: Option<u32>,
    oldest_new: u32,
    new_orders: i64,
    deliveries: i64,
}

/// Checks every condition everywhere in one state of the database.
///
/// # Errors
/// Those of the target.
pub(crate) fn check(target: &dyn Audited, scale: &Scale) -> anyhow::Result<Verdict> {
    let mut reader = target.reader()?;
    let mut verdict = Verdict::default();
    let items = reader.items()?;
    verdict.check(0, items == u64::from(scale.items), || format!("{items} items in place of {}", scale.items));
    let payments = reader.payments()?;
    for warehouse in 1..=scale.warehouses {
        let books = reader.books(warehouse)?;
        books.check(warehouse, scale, &payments, &mut verdict);
    }
    Ok(verdict)
}

/// Adds up the rows of every warehouse in one state of the database: money and counts, in a fixed order. Two databases
/// with the same rows have the same sums.
///
/// # Errors
/// Those of the target.
pub(crate) fn sums(target: &dyn Audited, scale: &Scale) -> anyhow::Result<Vec<i64>> {
    let mut reader = target.reader()?;
    let payments = reader.payments()?;
    let mut sums = vec![payments.taken.values().sum(), payments.made.values().sum()];
    for warehouse in 1..=scale.warehouses {
        let books = reader.books(warehouse)?;
        sums.extend([books.ytd, books.districts.iter().map(|of| of.ytd + i64::from(of.next_order)).sum()]);
        for of in [
            |of: &CustomerBook| of.balance,
            |of: &CustomerBook| of.ytd_payment,
            |of: &CustomerBook| i64::from(of.deliveries) * i64::from(of.id),
        ] {
            sums.push(books.customers.iter().map(of).sum());
        }
        let orders = books.orders.iter();
        sums.push(orders.map(|of| i64::from(of.id) * i64::from(of.customer) + i64::from(of.lines)).sum());
        sums.push(books.new_orders.iter().map(|(_, order)| i64::from(*order)).sum());
        sums.push(books.lines.iter().map(|of| i64::from(of.count) * i64::from(of.order) + of.amount).sum());
    }
    Ok(sums)
}

/// Checks that a freshly loaded database matches its population.
///
/// # Errors
/// Those of the target; differences.
pub(crate) fn check_loaded(target: &dyn Audited, population: &Population) -> anyhow::Result<()> {
    let scale = &population.scale;
    check(target, scale)?.ensure(target.name(), "after it was loaded")?;
    let mut reader = target.reader()?;
    let counts = [u64::from(scale.customers), u64::from(scale.undelivered)].map(|count| count * u64::from(DISTRICTS));
    for warehouse in 1..=scale.warehouses {
        let books = reader.books(warehouse)?;
        let found = [books.orders.len() as u64, books.new_orders.len() as u64];
        anyhow::ensure!(
            found == counts,
            "{}: warehouse {warehouse} has {found:?} orders and new orders in place of {counts:?}",
            target.name()
        );
    }
    Ok(())
}

impl Books {
    pub(super) fn check(&self, warehouse: u32, scale: &Scale, payments: &Payments, verdict: &mut Verdict) {
        let counts = [self.districts.len() as u64, self.customers.len() as u64, self.stock];
        let all = u64::from(DISTRICTS);
        let wanted = [all, all * u64::from(scale.customers), u64::from(scale.items)];
        verdict.check(0, counts == wanted, || {
            format!(
                "warehouse {warehouse} has {counts:?} districts, customers and rows of stock in place of {wanted:?}"
            )
        });
        let sum_of = |values: &mut dyn Iterator<Item = i64>| values.sum::<i64>();
        let district_ytd = sum_of(&mut self.districts.iter().map(|district| district.ytd));
        verdict.equal(1, "w_ytd and the sum of d_ytd", (warehouse, 0), self.ytd, district_ytd);
        let taken = payments.taken.iter().filter(|((at, _), _)| *at == warehouse);
        let taken = sum_of(&mut taken.map(|(_, amount)| *amount));
        verdict.equal(8, "w_ytd and the sum of h_amount", (warehouse, 0), self.ytd, taken);
        self.check_districts(warehouse, scale, payments, verdict);
        self.check_orders(warehouse, payments, verdict);
    }

    fn check_districts(&self, warehouse: u32, scale: &Scale, payments: &Payments, verdict: &mut Verdict) {
        let mut sums: Map<u32, Sum> = Map::default();
        for order in &self.orders {
            let sum = sums.entry(order.district).or_default();
            sum.newest_order = sum.newest_order.max(order.id);
            sum.orders += 1;
            sum.ordered_lines += i64::from(order.lines);
        }
        for lines in &self.lines {
            sums.entry(lines.district).or_default().lines += i64::from(lines.count);
        }
        for &(district, order) in &self.new_orders {
            let sum = sums.entry(district).or_default();
            sum.oldest_new = if sum.newest_new.is_none() { order } else { sum.oldest_new.min(order) };
            sum.newest_new = sum.newest_new.max(Some(order));
            sum.new_orders += 1;
        }
        for customer in &self.customers {
            sums.entry(customer.district).or_default().deliveries += i64::from(customer.deliveries);
        }
        for district in &self.districts {
            let at = (warehouse, district.id);
            let sum = sums.remove(&district.id).unwrap_or_default();
            let next = i64::from(district.next_order);
            verdict.equal(2, "d_next_o_id and the newest order's successor", at, next, i64::from(sum.newest_order) + 1);
            if let Some(newest) = sum.newest_new {
                verdict.equal(2, "d_next_o_id and the newest new order's successor", at, next, i64::from(newest) + 1);
                let span = i64::from(newest - sum.oldest_new) + 1;
                verdict.equal(3, "span and count of new orders", at, span, sum.new_orders);
            }
            verdict.equal(4, "sum of o_ol_cnt and count of lines", at, sum.ordered_lines, sum.lines);
            let taken = payments.taken.get(&at).copied().unwrap_or_default();
            verdict.equal(9, "d_ytd and the sum of h_amount", at, district.ytd, taken);
            let old = sum.orders - sum.new_orders - sum.deliveries;
            verdict.equal(11, "orders delivered at first and by count", at, i64::from(scale.delivered()), old);
        }
        for (district, _) in sums {
            verdict.check(0, false, || {
                format!("rows of district {district} of warehouse {warehouse}, which is not there")
            });
        }
    }

    fn check_orders(&self, warehouse: u32, payments: &Payments, verdict: &mut Verdict) {
        let mut new: Map<(u32, u32), ()> = self.new_orders.iter().map(|key| (*key, ())).collect();
        let mut lines: Map<(u32, u32), &LinesBook> =
            self.lines.iter().map(|lines| ((lines.district, lines.order), lines)).collect();
        let mut delivered: Map<(u32, u32), i64> = Map::default();
        for order in &self.orders {
            let key = (order.district, order.id);
            let name = || format!("order {} of warehouse {warehouse}, district {}", order.id, order.district);
            let is_new = new.remove(&key).is_some();
            verdict
                .check(5, is_new != order.carried, || format!("{}: carried {}, new {is_new}", name(), order.carried));
            let of = lines.remove(&key);
            let count = of.map_or(0, |of| of.count);
            verdict.check(6, count == order.lines, || format!("{}: o_ol_cnt {}, {count} lines", name(), order.lines));
            let wanted = if order.carried { count } else { 0 };
            let found = of.map_or(0, |of| of.delivered);
            verdict.check(7, found == wanted, || {
                format!("{}: carried {}, {found} of {count} lines delivered", name(), order.carried)
            });
            *delivered.entry((order.district, order.customer)).or_default() += of.map_or(0, |of| of.amount);
        }
        for (district, order) in new.into_keys() {
            verdict
                .check(5, false, || format!("new order {order} of warehouse {warehouse}, district {district} is none"));
        }
        for (district, order) in lines.into_keys() {
            verdict.check(6, false, || {
                format!("lines of order {order} of warehouse {warehouse}, district {district}, which is none")
            });
        }
        for customer in &self.customers {
            let delivered = delivered.get(&(customer.district, customer.id)).copied().unwrap_or_default();
            let made = payments.made.get(&(warehouse, customer.district, customer.id)).copied().unwrap_or_default();
            let name = || format!("customer {} of warehouse {warehouse}, district {}", customer.id, customer.district);
            verdict.check(10, customer.balance == delivered - made, || {
                format!("{}: balance {}, delivered {delivered}, paid {made}", name(), customer.balance)
            });
            verdict.check(12, customer.balance + customer.ytd_payment == delivered, || {
                format!(
                    "{}: balance {}, paid so far {}, delivered {delivered}",
                    name(),
                    customer.balance,
                    customer.ytd_payment
                )
            });
        }
    }
}
