//! `Snapshot`: the rows of TPC-C's tables in an SQL database, read for the consistency conditions.

use anyhow::Context;
use collie_workload::{
    BEGIN_READING, DISTRICTS, Money, Scale, Tables,
    line::{Cells, Line, Lines},
};

use super::audit::{Audited, Reader};
use super::books::{Books, CustomerBook, DistrictBook, LinesBook, OrderBook, Payments};

impl<O: Lines> Audited for Tables<O> {
    fn holds(&self) -> anyhow::Result<Option<Scale>> {
        let mut line = self.open()?;
        if line.ask("SELECT 1 FROM pg_class WHERE relname = 'warehouse'", &[])?.is_empty() {
            return Ok(None);
        }
        let mut count = |table: &str| -> anyhow::Result<u32> {
            let row = line.ask(&format!("SELECT count(*)::int FROM {table}"), &[])?.pop().context("no count")?;
            Ok(row.get::<i32>(0).unsigned_abs())
        };
        let warehouses = count("warehouse")?;
        let items = count("item")?;
        let customers = count("customer")? / warehouses.max(1) / DISTRICTS;
        Ok(Some(Scale { warehouses, items, customers, undelivered: customers * 3 / 10 }))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        let mut client = self.open()?;
        client.batch(BEGIN_READING)?;
        Ok(Box::new(Snapshot(client)))
    }
}

/// A consistent snapshot of a server.
struct Snapshot<L>(L);

impl<L: Line> Reader for Snapshot<L> {
    fn items(&mut self) -> anyhow::Result<u64> {
        let row = self.0.ask("SELECT count(*) FROM item", &[])?.pop().context("no count")?;
        Ok(row.get::<i64>(0).unsigned_abs())
    }

    fn payments(&mut self) -> anyhow::Result<Payments> {
        let mut payments = Payments::default();
        let taken = "SELECT h_w_id, h_d_id, sum(h_amount) FROM history GROUP BY h_w_id, h_d_id";
        for row in self.0.ask(taken, &[])? {
            payments.taken.insert((number(&row, 0), number(&row, 1)), money(&row, 2));
        }
        let made = "SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id";
        for row in self.0.ask(made, &[])? {
            payments.made.insert((number(&row, 0), number(&row, 1), number(&row, 2)), money(&row, 3));
        }
        Ok(payments)
    }

    fn books(&mut self, warehouse: u32) -> anyhow::Result<Books> {
        let client = &mut self.0;
        let mut query = |text: &str| client.ask(text, &[&warehouse.cast_signed()]);
        let ytd = query("SELECT w_ytd FROM warehouse WHERE w_id = $1")?;
        let stock = query("SELECT count(*) FROM stock WHERE s_w_id = $1")?;
        let districts = query("SELECT d_id, d_ytd, d_next_o_id FROM district WHERE d_w_id = $1")?;
        let customers = "SELECT c_d_id, c_id, c_balance, c_ytd_payment, c_delivery_cnt FROM customer WHERE c_w_id = $1";
        let orders = "SELECT o_d_id, o_id, o_c_id, o_carrier_id IS NOT NULL, o_ol_cnt FROM orders WHERE o_w_id = $1";
        let lines = "SELECT ol_d_id, ol_o_id, count(*)::int, count(ol_delivery_d)::int, \
                     coalesce(sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL), 0) \
                     FROM order_line WHERE ol_w_id = $1 GROUP BY ol_d_id, ol_o_id";
        let (customers, orders, lines) = (query(customers)?, query(orders)?, query(lines)?);
        let new_orders = query("SELECT no_d_id, no_o_id FROM new_order WHERE no_w_id = $1")?;
        Ok(Books {
            ytd: money(ytd.first().with_context(|| format!("there is no warehouse {warehouse}"))?, 0),
            stock: stock.first().map_or(0, |row| row.get::<i64>(0).unsigned_abs()),
            districts: districts
                .iter()
                .map(|row| DistrictBook { id: number(row, 0), ytd: money(row, 1), next_order: number(row, 2) })
                .collect(),
            customers: customers
                .iter()
                .map(|row| CustomerBook {
                    district: number(row, 0),
                    id: number(row, 1),
                    balance: money(row, 2),
                    ytd_payment: money(row, 3),
                    deliveries: number(row, 4),
                })
                .collect(),
            orders: orders
                .iter()
                .map(|row| OrderBook {
                    district: number(row, 0),
                    id: number(row, 1),
                    customer: number(row, 2),
                    carried: row.get(3),
                    lines: number(row, 4),
                })
                .collect(),
            new_orders: new_orders.iter().map(|row| (number(row, 0), number(row, 1))).collect(),
            lines: lines
                .iter()
                .map(|row| LinesBook {
                    district: number(row, 0),
                    order: number(row, 1),
                    count: number(row, 2),
                    delivered: number(row, 3),
                    amount: money(row, 4),
                })
                .collect(),
        })
    }
}

fn number(row: &impl Cells, column: usize) -> u32 {
    row.get::<i32>(column).cast_unsigned()
}

fn money(row: &impl Cells, column: usize) -> i64 {
    row.get::<Money>(column).0
}
