-- INSERT, UPDATE, DELETE, constraints, RETURNING, defaults, transactions, savepoints.
CREATE TABLE t (id int PRIMARY KEY, name varchar(5) NOT NULL DEFAULT 'none', n int CHECK (n > 0), u int UNIQUE, at date DEFAULT '2024-01-01');
INSERT INTO t VALUES (1, 'one', 1, 1);
INSERT INTO t (id) VALUES (2), (3) RETURNING *;
INSERT INTO t (id, n, u) SELECT 10 + g, g, 10 + g FROM generate_series(1, 3) g RETURNING id, n * 2 AS twice;
INSERT INTO t DEFAULT VALUES;
INSERT INTO t VALUES (4, DEFAULT, 5, DEFAULT, DEFAULT) RETURNING name, u, at;
INSERT INTO t VALUES (1, 'x');
INSERT INTO t VALUES (20, 'x', 1, 1);
INSERT INTO t VALUES (20, NULL);
INSERT INTO t VALUES (20, 'x', 0);
INSERT INTO t VALUES (20, 'toolong');
INSERT INTO t VALUES (20, 'abc     ');
INSERT INTO t VALUES ('x');
INSERT INTO t VALUES (20, 'x', 1, 2, 'never');
INSERT INTO t VALUES (1, 2, 3, 4, '2024-01-01', 6);
INSERT INTO t (id, name) VALUES (30);
INSERT INTO t (id, nothing) VALUES (1, 2);
INSERT INTO nowhere VALUES (1);
INSERT INTO t VALUES (40, 'a', 1, 40), (41, 'b', 1, 40);
SELECT count(*) FROM t WHERE id >= 40;
UPDATE t SET n = coalesce(n, 0) + 1, name = upper(name) WHERE id < 4 RETURNING id, name, n;
UPDATE t SET id = id + 100 WHERE id IN (2, 3);
UPDATE t SET (name, n) = ('multi', 7) WHERE id = 102;
UPDATE t SET (name, n) = (SELECT 'sub', 8) WHERE id = 103;
UPDATE t SET name = DEFAULT WHERE id = 103 RETURNING name;
UPDATE t SET u = 1 WHERE id = 4;
UPDATE t SET n = -1 WHERE id = 1;
UPDATE t SET name = NULL WHERE id = 1;
UPDATE t SET name = 'toolong' WHERE id = 1;
UPDATE t SET nothing = 1;
UPDATE t SET id = 4 WHERE id = 1;
UPDATE t SET n = n + 1 WHERE false;
UPDATE t SET n = s.n FROM (VALUES (1, 50), (4, 60)) s (id, n) WHERE t.id = s.id RETURNING t.id, t.n, s.n;
UPDATE t AS x SET n = x.n + 1 WHERE x.id = 1 RETURNING x.n;
DELETE FROM t WHERE id = 4 RETURNING *;
DELETE FROM t USING (VALUES (11), (12)) s (id) WHERE t.id = s.id;
DELETE FROM t WHERE nothing = 1;
SELECT * FROM t ORDER BY id;
BEGIN;
INSERT INTO t (id) VALUES (200);
SAVEPOINT a;
INSERT INTO t (id) VALUES (201);
INSERT INTO t (id) VALUES (201);
SELECT 1;
ROLLBACK TO a;
SELECT id FROM t WHERE id >= 200 ORDER BY id;
RELEASE a;
ROLLBACK TO a;
ROLLBACK;
SELECT count(*) FROM t WHERE id >= 200;
COMMIT;
ROLLBACK;
BEGIN;
BEGIN;
DELETE FROM t;
SELECT count(*) FROM t;
ROLLBACK;
START TRANSACTION READ ONLY;
DELETE FROM t;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SHOW transaction_isolation;
COMMIT AND NO CHAIN;
TRUNCATE t;
SELECT count(*) FROM t;
CREATE TABLE IF NOT EXISTS t (x int);
CREATE TABLE t (x int);
DROP TABLE IF EXISTS nowhere;
DROP TABLE nowhere;
CREATE TABLE two (a int, b int, PRIMARY KEY (a, b), UNIQUE (b, a), CHECK (a < b));
INSERT INTO two VALUES (1, 2), (1, 3), (2, 3);
INSERT INTO two VALUES (1, 2);
INSERT INTO two VALUES (2, 1);
INSERT INTO two VALUES (1, NULL);
UPDATE two SET a = a + 1, b = b + 10;
SELECT * FROM two WHERE (a, b) > (2, 12) ORDER BY a, b;
CREATE UNIQUE INDEX two_b ON two (b);
CREATE UNIQUE INDEX two_a ON two (a);
CREATE INDEX ON two (b DESC NULLS LAST, a);
DROP INDEX two_b;
DROP INDEX two_b;
ALTER TABLE two ADD CONSTRAINT small CHECK (a < 100);
ALTER TABLE two ADD CHECK (a > 100);
INSERT INTO two VALUES (100, 101);
ALTER TABLE t ADD PRIMARY KEY (n);
COPY two FROM stdin;
5	55
6	66
\.
COPY two (b, a) FROM stdin;
77	7
x	8
\.
COPY two FROM stdin;
8
\.
COPY two FROM stdin;
8	88	888
\.
COPY two TO stdout;
COPY (SELECT a, b, NULL AS c FROM two ORDER BY a) TO stdout WITH (FORMAT csv, HEADER);
CREATE SCHEMA s;
CREATE TABLE s.t (x int);
INSERT INTO s.t VALUES (1);
SET search_path = s, public;
SELECT * FROM t;
RESET search_path;
DROP SCHEMA s;
DROP TABLE s.t;
DROP SCHEMA s;
DROP TABLE t, two;
