//! Shops on one server, whose orders, items and notes belong to a tenant each,
//! and sessions that trade in them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, Row, prelude::Queryable};
use oxferry_testkit::{
    server::{Schema, Server, ServerOptions, shared},
    tool::Oxferry,
    wait::eventually,
};
use tokio::task::JoinHandle;

use crate::{
    far::run,
    far::target_options,
    world::{LIMIT, options},
};

/// A database with the rows of three tenants, and a server to move one to.
pub(crate) struct Shops {
    pub(crate) source: Schema,
    pub(crate) target: Arc<Server>,
}

/// The tables of the shops: rows of tenants, and what they own.
pub(crate) const TABLES: [&str; 4] = [
    "CREATE TABLE shops (id INT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, shop_id INT NOT NULL, note VARCHAR(40), KEY shop (shop_id))",
    "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, order_id INT NOT NULL, amount INT, KEY (order_id))",
    "CREATE TABLE notes (code VARCHAR(20) PRIMARY KEY, order_id INT NOT NULL, text VARCHAR(40), KEY (order_id))",
];

/// 1,000 orders of three shops, two items and a note each.
pub(crate) const ROWS: [&str; 6] = [
    "SET SESSION cte_max_recursion_depth = 10000",
    "INSERT INTO shops VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "INSERT INTO orders (id, shop_id, note) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i, 1 + i % 3, CONCAT('order ', i) FROM n",
    "INSERT INTO items (order_id, amount) SELECT id, id FROM orders",
    "INSERT INTO items (order_id, amount) SELECT id, -id FROM orders",
    "INSERT INTO notes SELECT CONCAT('N', id), id, 'note' FROM orders",
];

impl Shops {
    pub(crate) async fn on(source: ServerOptions, statements: &[&str]) -> Self {
        let source = Schema::on(shared(source).await.unwrap()).await.unwrap();
        run(&mut source.conn().await.unwrap(), statements).await;
        let target = shared(target_options()).await.unwrap();
        Self { source, target }
    }

    pub(crate) async fn new() -> Self {
        Self::on(options(), &[&TABLES[..], &ROWS[..]].concat()).await
    }

    pub(crate) fn moves(&self, tenant: &str) -> Oxferry {
        self.oxferry(&["move"], tenant)
    }

    pub(crate) fn planned(&self, tenant: &str) -> Oxferry {
        self.oxferry(&["plan", "move"], tenant)
    }

    fn oxferry(&self, command: &[&str], tenant: &str) -> Oxferry {
        let program = env!("CARGO_BIN_EXE_oxferry");
        let (source, target) = (self.source.server().url(), self.target.url());
        let arguments = [
            "--source",
            &source,
            "--target",
            &target,
            "--database",
            self.source.name(),
            "--tenant",
            tenant,
            "--lock-source",
            "rename",
            "--chunk-time",
            "20ms",
            "--chunk-bytes",
            "4K",
        ];
        Oxferry::new(command.iter().copied().chain(arguments)).program(program)
    }

    /// The whole estate of a shop: its own row, and what its orders own.
    pub(crate) fn moves_shop(&self, shop: u32) -> Oxferry {
        let db = self.source.name();
        let joined = |table: &str| {
            format!(
                "{{table=\"{db}.{table}\", column=\"order_id\", owner=\"{db}.orders\", owner_key=\"id\"}}"
            )
        };
        self.moves(&format!("shop_id={shop}"))
            .arg("--joined")
            .arg(joined("items"))
            .arg("--joined")
            .arg(joined("notes"))
            .arg("--root")
            .arg(format!("{{table=\"{db}.shops\", column=\"id\"}}"))
    }

    pub(crate) async fn source(&self) -> Conn {
        self.source.conn().await.unwrap()
    }

    pub(crate) async fn target(&self) -> Conn {
        self.target.conn_to(self.source.name()).await.unwrap()
    }

    /// Whether the switch is made and cleaned up after.
    pub(crate) async fn is_done(&self) -> bool {
        let tables: Vec<String> = self.source().await.query("SHOW TABLES").await.unwrap();
        let own = ["_items_oxstate", "items", "orders"];
        let marks = format!("SHOW TABLES FROM `{}` LIKE '%oxstate'", self.source.name());
        let state: Vec<String> = self
            .target
            .conn()
            .await
            .unwrap()
            .query(marks)
            .await
            .unwrap();
        !tables.iter().any(|table| own.contains(&table.as_str())) && state.is_empty()
    }

    /// Checks that two queries, one on each side, find the same.
    pub(crate) async fn same(&self, on_source: &str, on_target: &str) -> usize {
        let here = texts(&mut self.source().await, on_source).await;
        let there = texts(&mut self.target().await, on_target).await;
        let differs = here.iter().zip(&there).find(|(here, there)| here != there);
        assert_eq!(differs, None, "{on_source}");
        assert_eq!(here.len(), there.len(), "{on_source}");
        here.len()
    }

    /// Checks that the target holds a shop's rows, and nobody else's.
    pub(crate) async fn check_shop(&self, shop: u32) {
        let (orders, owned) = (
            format!("WHERE shop_id = {shop}"),
            format!("WHERE order_id IN (SELECT id FROM _orders_oxold WHERE shop_id = {shop})"),
        );
        for (table, rows) in [("orders", &orders), ("items", &owned), ("notes", &owned)] {
            let here = format!("SELECT * FROM _{table}_oxold {rows} ORDER BY 1");
            let found = self
                .same(&here, &format!("SELECT * FROM {table} ORDER BY 1"))
                .await;
            assert!(found > 0, "{table}");
        }
        let here = format!("SELECT * FROM _shops_oxold WHERE id = {shop}");
        assert_eq!(self.same(&here, "SELECT * FROM shops").await, 1);
    }
}

pub(crate) async fn texts(conn: &mut Conn, query: &str) -> Vec<String> {
    let rows: Vec<Row> = conn.query(query).await.unwrap();
    rows.into_iter()
        .map(|row| format!("{:?}", row.unwrap()))
        .collect()
}

/// Sessions that change the rows of all shops until they are stopped, or shut out.
pub(crate) struct Traders {
    stop: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    sessions: Vec<JoinHandle<()>>,
}

impl Traders {
    pub(crate) async fn start(shops: &Shops, shop: Option<u32>, count: u64) -> Self {
        let mut conns = Vec::new();
        for _ in 0..count {
            conns.push(shops.source().await);
        }
        Self::on(conns, shop).await
    }

    /// Trades with a shop that the target holds, in ids that the source never
    /// gives.
    pub(crate) async fn start_on_target(shops: &Shops, shop: u32, count: u64) -> Self {
        let above = [
            "ALTER TABLE orders AUTO_INCREMENT = 10000000",
            "ALTER TABLE items AUTO_INCREMENT = 10000000",
        ];
        run(&mut shops.target().await, &above).await;
        let mut conns = Vec::new();
        for _ in 0..count {
            let mut conn = shops.target().await;
            run(&mut conn, &["SET @apart = 20000000"]).await;
            conns.push(conn);
        }
        Self::on(conns, Some(shop)).await
    }

    async fn on(conns: Vec<Conn>, shop: Option<u32>) -> Self {
        let (stop, commits) = (Arc::default(), Arc::default());
        let mut sessions = Vec::new();
        for (seed, conn) in (0..).zip(conns) {
            let shared = (Arc::clone(&stop), Arc::clone(&commits));
            sessions.push(tokio::spawn(trade(conn, (seed, shop), shared)));
        }
        let traders = Self {
            stop,
            commits,
            sessions,
        };
        traders.more(20).await;
        traders
    }

    /// Waits for so many more commits.
    pub(crate) async fn more(&self, count: u64) {
        let wanted = self.commits.load(Ordering::Relaxed) + count;
        let commits = &self.commits;
        let reached = eventually(LIMIT, "commits", async || {
            (commits.load(Ordering::Relaxed) >= wanted).then_some(())
        });
        reached.await.unwrap();
    }

    pub(crate) async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for session in self.sessions {
            session.await.unwrap();
        }
    }
}

type Told = (Arc<AtomicBool>, Arc<AtomicU64>);

/// Between two transactions of a session: a shop, not a benchmark.
const PAUSE: Duration = Duration::from_millis(3);

/// Writes until it is told to stop, or its tables are gone.
async fn trade(mut conn: Conn, (seed, only): (u64, Option<u32>), (stop, commits): Told) {
    let mut dice = fastrand::Rng::with_seed(seed);
    while !stop.load(Ordering::Relaxed) {
        let shop = only.unwrap_or_else(|| dice.u32(1..=3));
        let order = dice.u32(1..=1000);
        let n = dice.u32(..);
        let place = format!(
            "INSERT INTO orders (shop_id, note) VALUES ({shop}, 'new {n}'); SET @o = LAST_INSERT_ID()"
        );
        let of_shop = format!(
            "WHERE order_id = {order} AND (SELECT shop_id FROM orders WHERE id = {order}) = {shop}"
        );
        // The first thousand orders are the shops' by turns.
        let other = 1 + (order - 1 + 3 * dice.u32(1..300)) % 999;
        let work = match dice.u32(0..10) {
            0 => format!(
                "START TRANSACTION; {place}; INSERT INTO items (order_id, amount) VALUES (@o, {n} % 100), (@o, 7); COMMIT"
            ),
            // Owned rows come before their owner.
            1 => format!(
                "SET @o = COALESCE(@apart, 0) + 100000 + FLOOR(RAND() * 1000000); INSERT INTO items (order_id, amount) VALUES (@o, 1), (@o, 2); \
                 INSERT INTO notes VALUES (CONCAT('B', @o), @o, 'before'); \
                 INSERT INTO orders (id, shop_id, note) VALUES (@o, {shop}, 'late')"
            ),
            2 => format!("UPDATE items SET amount = amount + 1 {of_shop}"),
            3 => format!("DELETE FROM items {of_shop}"),
            // The owner goes, and what it owned stays behind.
            4 if dice.bool() => {
                format!("DELETE FROM orders WHERE id = {order} AND shop_id = {shop}")
            }
            4 => format!(
                "START TRANSACTION; DELETE FROM notes {of_shop}; DELETE FROM items {of_shop}; \
                 DELETE FROM orders WHERE id = {order} AND shop_id = {shop}; COMMIT"
            ),
            5 => format!("UPDATE notes SET text = 'n{n}' {of_shop}"),
            // Items go over to another order of the shop, or to one that isn't there.
            6 => format!("UPDATE items SET order_id = {other} {of_shop} LIMIT 1"),
            7 => format!("UPDATE notes SET order_id = {n} % 2000000000 {of_shop}"),
            // An order gets another number, and its items with it, or not.
            8 => format!(
                "START TRANSACTION; SET @o = COALESCE(@apart, 0) + 3000000 + {n} % 1000000; \
                 UPDATE items SET order_id = @o {of_shop}; \
                 UPDATE orders SET id = @o WHERE id = {order} AND shop_id = {shop}; COMMIT"
            ),
            _ => format!("UPDATE orders SET note = 'u{n}' WHERE id = {order} AND shop_id = {shop}"),
        };
        match conn.query_drop(work).await {
            Ok(()) => {
                commits.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
            Err(mysql_async::Error::Server(error)) if matches!(error.code, 1062 | 1205 | 1213) => {
                let _ended = conn.query_drop("ROLLBACK").await;
            }
            // The tables are gone: the switch.
            Err(mysql_async::Error::Server(error)) if error.code == 1146 => break,
            Err(error) => panic!("trading failed: {error}"),
        }
    }
}
