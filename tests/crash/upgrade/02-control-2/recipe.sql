-- Version 2 of `control`, version 1 of all else: the program of November 2026, from the first replica on.
--! set store.write_buffer_size=16KiB
--! set wal.chunk_size=4KiB
--! set wal.ring_size=256KiB
--! set wal.ring=private
--! set wal.segment_size=1MiB
--! set wal.flush_bytes=64KiB
--! set wal.max_total_wal_size=1

-- Levels of several trees and a log whose beginning is gone; stopped in order.
--! life stop
CREATE SCHEMA shop
CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL UNIQUE, born date, score numeric(10,2) DEFAULT 1.50, CHECK (id > 0))
CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int REFERENCES shop.customers ON DELETE CASCADE, placed timestamp, note text, paid boolean DEFAULT false)
CREATE INDEX orders_note ON shop.orders (lower(note)) WHERE paid
CREATE INDEX orders_customer ON shop.orders (customer, placed)
CREATE TABLE heap (n int, words text[], at timestamptz, raw bytea, real8 double precision)
CREATE TABLE gone (n int PRIMARY KEY)
CREATE TABLE late (n int PRIMARY KEY, s text)
INSERT INTO gone SELECT n FROM generate_series(1, 200) n
INSERT INTO shop.customers SELECT n, 'customer ' || n, date '1970-01-01' + n, n * 1.25 FROM generate_series(1, 300) n
INSERT INTO shop.orders (id, customer, placed, note, paid) SELECT n, n % 300 + 1, timestamp '2026-01-01' + n * interval '1 hour', 'Note ' || n, n % 3 = 0 FROM generate_series(1, 900) n
INSERT INTO heap VALUES (1, '{a,b}', '2026-11-28 05:00:00+00', '\x00ff', 0.1), (2, NULL, NULL, NULL, 'NaN'), (3, '{}', NULL, '', '-Infinity')
INSERT INTO heap SELECT 4, ARRAY[repeat('long ', 5000)], NULL, NULL, -0.0
CHECKPOINT
UPDATE shop.orders SET paid = true WHERE id % 7 = 0
DELETE FROM shop.customers WHERE id % 50 = 0
CHECKPOINT
INSERT INTO gone SELECT n FROM generate_series(1001, 9000) n
TRUNCATE gone
INSERT INTO gone SELECT n FROM generate_series(1001, 9000) n
CHECKPOINT
DROP TABLE gone

-- A replica came and went: a slot, a consumer of the log, a key. A tail of the log that the levels do not have; killed.
--! life kill
INSERT INTO late SELECT n, 'late ' || n FROM generate_series(1, 50) n
CREATE UNIQUE INDEX late_s ON late (s)
BEGIN; SAVEPOINT a; DELETE FROM late; ROLLBACK TO a; DELETE FROM late WHERE n > 40; COMMIT
UPDATE shop.customers SET score = NULL, name = 'renamed' WHERE id = 7
BEGIN; INSERT INTO late VALUES (999, 'never'); ROLLBACK
ALTER TABLE late ADD CONSTRAINT few CHECK (n < 1000)
ALTER TABLE heap ALTER COLUMN n SET DEFAULT 42
--! replica

--! ask
SELECT id, name, born, score FROM shop.customers ORDER BY id
SELECT id, customer, placed, note, paid FROM shop.orders ORDER BY id
SELECT n, words, at, raw, real8 FROM heap WHERE n < 4 ORDER BY n
SELECT n, length(words[1]) FROM heap WHERE n >= 4 ORDER BY n
SELECT n, s FROM late ORDER BY n
SELECT count(*), sum(id) FROM shop.orders WHERE paid AND lower(note) >= 'note 5'
SELECT count(*), max(placed) FROM shop.orders WHERE customer = 8
SELECT n FROM late WHERE s = 'late 33'
SELECT id FROM shop.customers WHERE name = 'renamed'
SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes WHERE schemaname IN ('shop', 'public') ORDER BY 1, 2, 3
SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace::regnamespace::text IN ('shop', 'public') ORDER BY 1
SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema IN ('shop', 'public') ORDER BY 1, 2, ordinal_position

--! write
INSERT INTO shop.orders (id, customer, note, paid) VALUES (5001, 7, 'After', true)
INSERT INTO heap (words) VALUES ('{by default}')
UPDATE late SET s = 'changed' WHERE n = 3
DELETE FROM shop.customers WHERE id = 9
CREATE INDEX heap_n ON heap (n)
CREATE TABLE new (n int PRIMARY KEY REFERENCES shop.customers)
INSERT INTO new VALUES (7)
CHECKPOINT
INSERT INTO late VALUES (60, 'in the log')

--! refuse 23505
INSERT INTO shop.customers VALUES (1001, 'renamed')
INSERT INTO late VALUES (61, 'late 33')
--! refuse 23503
INSERT INTO shop.orders (id, customer) VALUES (9001, 50)
DELETE FROM shop.customers WHERE id = 7
--! refuse 23514
INSERT INTO late VALUES (1000, 'x')
INSERT INTO shop.customers VALUES (-1, 'x')
--! refuse 23502
INSERT INTO shop.customers (id) VALUES (1002)
