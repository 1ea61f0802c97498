//! `Request`: a request of a terminal with all its input (clauses 2.4.1 to 2.8.1); `Deck`: the proportions of requests.

use crate::chance::{Chance, Constants};
use crate::scale::{DISTRICTS, LINES, Scale};

/// The five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Enters an order of several lines.
    NewOrder,
    /// Takes a payment of a customer.
    Payment,
    /// Shows a customer's last order.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts items of recent orders that run short.
    StockLevel,
}

impl Kind {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "New-Order",
            Self::Payment => "Payment",
            Self::OrderStatus => "Order-Status",
            Self::Delivery => "Delivery",
            Self::StockLevel => "Stock-Level",
        }
    }

    /// Returns the number of its cards in a deck of 23 (clause 5.2.4.2).
    const fn cards(self) -> usize {
        match self {
            Self::NewOrder | Self::Payment => 10,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 1,
        }
    }

    /// Returns keying time and mean think time in seconds (clause 5.2.5.7).
    pub(crate) const fn times_s(self) -> (u32, u32) {
        match self {
            Self::NewOrder => (18, 12),
            Self::Payment => (3, 12),
            Self::OrderStatus => (2, 10),
            Self::Delivery => (2, 5),
            Self::StockLevel => (2, 5),
        }
    }
}

/// How a customer is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomerBy {
    /// By number.
    Id(u32),
    /// The middle one, by first name, of the customers with this last name.
    Last(String),
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedItem {
    /// Larger than the number of items if the user has made a mistake.
    pub item: u32,
    /// The warehouse that has it.
    pub supplier: u32,
    /// Pieces.
    pub quantity: u32,
}

/// Enters an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// The warehouse of the customer.
    pub warehouse: u32,
    /// The district of the customer.
    pub district: u32,
    /// The number of the customer.
    pub customer: u32,
    /// What is ordered.
    pub items: Vec<OrderedItem>,
}

impl NewOrder {
    /// Returns whether all items come from its own warehouse.
    pub fn all_local(&self) -> bool {
        self.items.iter().all(|item| item.supplier == self.warehouse)
    }

    /// Returns the indices of its items ordered by supplier and item. All orders lock stock in this order, so they do
    /// not deadlock.
    pub fn by_stock(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.items.len()).collect();
        places.sort_by_key(|&place| (self.items[place].supplier, self.items[place].item));
        places
    }
}

/// Takes a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The warehouse that receives it.
    pub warehouse: u32,
    /// The district that receives it.
    pub district: u32,
    /// The warehouse of the payer.
    pub customer_warehouse: u32,
    /// The district of the payer.
    pub customer_district: u32,
    /// The payer.
    pub customer: CustomerBy,
    /// The amount in cents.
    pub amount: i64,
}

/// Shows the last order of a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// The warehouse of the customer.
    pub warehouse: u32,
    /// The district of the customer.
    pub district: u32,
    /// The customer.
    pub customer: CustomerBy,
}

/// Delivers the oldest order of each district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The warehouse that delivers.
    pub warehouse: u32,
    /// The number of the carrier.
    pub carrier: u32,
}

/// Counts items of recent orders that run short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// The warehouse.
    pub warehouse: u32,
    /// The district of the orders.
    pub district: u32,
    /// The quantity below which an item runs short.
    pub threshold: i32,
}

/// One transaction to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Enters an order.
    NewOrder(NewOrder),
    /// Takes a payment.
    Payment(Payment),
    /// Shows the last order of a customer.
    OrderStatus(OrderStatus),
    /// Delivers the oldest order of each district.
    Delivery(Delivery),
    /// Counts items of recent orders that run short.
    StockLevel(StockLevel),
}

impl Request {
    /// Returns which of the five it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => Kind::NewOrder,
            Self::Payment(_) => Kind::Payment,
            Self::OrderStatus(_) => Kind::OrderStatus,
            Self::Delivery(_) => Kind::Delivery,
            Self::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// A deck of transaction cards: shuffled, dealt to the last card, and shuffled again.
#[derive(Clone, Debug, Default)]
struct Deck(Vec<Kind>);

impl Deck {
    fn deal(&mut self, chance: &mut Chance) -> Kind {
        if self.0.is_empty() {
            self.0.extend(Kind::ALL.iter().flat_map(|kind| std::iter::repeat_n(*kind, kind.cards())));
            let order = chance.permutation(23);
            self.0 = order.iter().map(|place| self.0[*place as usize - 1]).collect();
        }
        self.0.pop().expect("a new deck has 23 cards")
    }
}

/// Draws the requests of one terminal.
#[derive(Clone, Debug)]
pub struct Terminal {
    scale: Scale,
    constants: Constants,
    pub(crate) chance: Chance,
    deck: Deck,
    /// The terminal's warehouses: one, or, if there are fewer terminals than warehouses, several, of which each request
    /// draws one.
    homes: Vec<u32>,
    /// The district whose stock it looks at.
    district: u32,
}

impl Terminal {
    /// Makes terminal `number` of `terminals`. The terminals share the warehouses evenly, or each serves several.
    pub fn new(scale: Scale, constants: Constants, seed: u64, number: u32, terminals: u32) -> Self {
        let homes = if terminals >= scale.warehouses {
            vec![number % scale.warehouses + 1]
        } else {
            (1..=scale.warehouses).filter(|warehouse| (warehouse - 1) % terminals == number).collect()
        };
        Self {
            scale,
            constants,
            chance: Chance::new(seed, (1 << 31) + number),
            deck: Deck::default(),
            homes,
            district: number / scale.warehouses % DISTRICTS + 1,
        }
    }

    /// Draws the next request.
    pub fn draw(&mut self) -> Request {
        let kind = self.deck.deal(&mut self.chance);
        let chance = &mut self.chance;
        let warehouse = match &self.homes[..] {
            [home] => *home,
            homes => homes[chance.within(1, u32::try_from(homes.len()).expect("a u32 of warehouses")) as usize - 1],
        };
        match kind {
            Kind::NewOrder => Request::NewOrder(self.new_order(warehouse)),
            Kind::Payment => Request::Payment(self.payment(warehouse)),
            Kind::OrderStatus => {
                let district = chance.within(1, DISTRICTS);
                Request::OrderStatus(OrderStatus { warehouse, district, customer: self.who() })
            }
            Kind::Delivery => Request::Delivery(Delivery { warehouse, carrier: chance.within(1, 10) }),
            Kind::StockLevel => {
                let threshold = i32::try_from(chance.within(10, 20)).expect("at most 20");
                Request::StockLevel(StockLevel { warehouse, district: self.district, threshold })
            }
        }
    }

    /// Draws a customer, 60 of 100 times by name.
    fn who(&mut self) -> CustomerBy {
        if self.chance.within(1, 100) <= 60 {
            CustomerBy::Last(self.chance.name_to_find(&self.constants, self.scale.names()))
        } else {
            CustomerBy::Id(self.chance.customer(&self.constants, self.scale.customers))
        }
    }

    /// Returns a warehouse other than `home`, if there is one.
    fn remote(&mut self, home: u32) -> u32 {
        match self.scale.warehouses {
            1 => home,
            count => {
                let other = self.chance.within(1, count - 1);
                if other >= home { other + 1 } else { other }
            }
        }
    }

    fn new_order(&mut self, warehouse: u32) -> NewOrder {
        let district = self.chance.within(1, DISTRICTS);
        let customer = self.chance.customer(&self.constants, self.scale.customers);
        let mut items: Vec<_> = (0..self.chance.within(*LINES.start(), *LINES.end()))
            .map(|_| OrderedItem {
                item: self.chance.item(&self.constants, self.scale.items),
                supplier: if self.chance.one_in(100) { self.remote(warehouse) } else { warehouse },
                quantity: self.chance.within(1, 10),
            })
            .collect();
        if let Some(last) = items.last_mut().filter(|_| self.chance.one_in(100)) {
            last.item = self.scale.items + 1; // the user's mistake
        }
        NewOrder { warehouse, district, customer, items }
    }

    fn payment(&mut self, warehouse: u32) -> Payment {
        let district = self.chance.within(1, DISTRICTS);
        let (customer_warehouse, customer_district) = if self.chance.within(1, 100) <= 85 {
            (warehouse, district)
        } else {
            (self.remote(warehouse), self.chance.within(1, DISTRICTS))
        };
        let customer = self.who();
        let amount = i64::from(self.chance.within(100, 500_000));
        Payment { warehouse, district, customer_warehouse, customer_district, customer, amount }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: requests have the proportions of the specification. Method: 46,000 of one terminal of 4 warehouses,
    /// counted.
    #[test]
    fn requests_have_the_proportions_of_the_specification() {
        let scale = Scale::standard(4);
        let mut terminal = Terminal::new(scale, Constants::draw(5), 5, 1, 4);
        let requests: Vec<_> = (0..46_000).map(|_| terminal.draw()).collect();
        let count = |kind: Kind| requests.iter().filter(|request| request.kind() == kind).count();
        assert_eq!(Kind::ALL.map(count), [20_000, 20_000, 2_000, 2_000, 2_000]);
        let (mut mistakes, mut remote, mut lines, mut paid_remote, mut by_name) = (0, 0, 0, 0, 0);
        for request in &requests {
            match request {
                Request::NewOrder(order) => {
                    assert!(order.warehouse == 2 && LINES.contains(&u32::try_from(order.items.len()).unwrap()));
                    assert!((1..=3_000).contains(&order.customer));
                    mistakes += order.items.iter().filter(|item| item.item > scale.items).count();
                    remote += order.items.iter().filter(|item| item.supplier != 2).count();
                    lines += order.items.len();
                    let sorted: Vec<_> =
                        order.by_stock().iter().map(|at| (order.items[*at].supplier, order.items[*at].item)).collect();
                    assert!(sorted.is_sorted());
                }
                Request::Payment(payment) => {
                    paid_remote += usize::from(payment.customer_warehouse != 2);
                    by_name += usize::from(matches!(payment.customer, CustomerBy::Last(_)));
                    assert!((100..=500_000).contains(&payment.amount));
                }
                Request::StockLevel(level) => assert_eq!((level.warehouse, level.district), (2, 1)),
                Request::OrderStatus(_) | Request::Delivery(_) => {}
            }
        }
        assert!((130..270).contains(&mistakes), "{mistakes} of 20,000 orders name an item that is not there");
        assert!((lines / 125..lines / 83).contains(&remote), "{remote} of {lines} lines are remote");
        assert!((2_800..3_200).contains(&paid_remote), "{paid_remote} of 20,000 payments are remote");
        assert!((11_700..12_300).contains(&by_name), "{by_name} of 20,000 payments are by name");
    }

    /// Goal: the terminals cover all warehouses equally. Method: fewer, as many and more terminals than warehouses.
    #[test]
    fn terminals_share_the_warehouses() {
        let scale = Scale::standard(5);
        for terminals in [1, 2, 5, 10] {
            let mut homes: Vec<u32> = (0..terminals)
                .flat_map(|number| Terminal::new(scale, Constants::draw(1), 1, number, terminals).homes)
                .collect();
            homes.sort_unstable();
            let times = usize::try_from(terminals / 5).unwrap().max(1);
            assert_eq!(homes, (1..=5).flat_map(|home| std::iter::repeat_n(home, times)).collect::<Vec<_>>());
        }
    }
}
