-- Indexes on expressions and of a part of a table: definitions, entries, conflicts, refusals.
CREATE TABLE ix (id int PRIMARY KEY, a int, b text, v varchar(10), d date);
INSERT INTO ix SELECT g, g % 10, CASE WHEN g % 3 = 0 THEN NULL ELSE chr(64 + g % 26) END, 'v' || g, '2020-01-01' FROM generate_series(1, 60) g;
CREATE INDEX ON ix (lower(b));
CREATE INDEX ON ix ((a + 1), (a * 2) DESC, b, lower(b), lower(v)) INCLUDE (d);
CREATE INDEX ON ix ((a));
CREATE INDEX ix_part ON ix (a DESC NULLS LAST) WHERE b IS NOT NULL AND a > 3;
CREATE INDEX ix_one ON ix (a) WHERE a > 3;
CREATE UNIQUE INDEX ix_unique ON ix ((id % 100), lower(v)) WHERE (a = 5 OR a = 6) AND b IN ('A', 'B');
CREATE INDEX ix_words ON ix (COALESCE(b, 'x'), (b || 'y'), (a::text), (a IS NULL), upper(b || 'z'));
CREATE INDEX ix_v ON ix (v) WHERE v = 'v1';
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'ix' ORDER BY 1;
SELECT indexrelid::regclass::text, indnatts, indnkeyatts, indkey::text, indoption::text, indisunique,
       pg_get_expr(indexprs, indrelid), pg_get_expr(indpred, indrelid)
FROM pg_index WHERE indrelid = 'ix'::regclass ORDER BY 1;
SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relname LIKE 'ix\_%' AND c.relkind = 'i' ORDER BY 1, 2;
SELECT pg_get_indexdef('ix_words'::regclass, 1, false), pg_get_indexdef('ix_words'::regclass, 2, false), pg_get_indexdef('ix_words'::regclass, 2, true);
\d ix_part
-- Reads by them.
SELECT id FROM ix WHERE lower(b) = 'c' ORDER BY id;
SELECT id FROM ix WHERE lower(b) BETWEEN 'c' AND 'e' ORDER BY id;
SELECT lower(b), id FROM ix WHERE lower(b) > 'w' ORDER BY lower(b), id;
SELECT lower(b) FROM ix ORDER BY lower(b) LIMIT 3;
SELECT id FROM ix WHERE a = 5 AND b IS NOT NULL ORDER BY id;
SELECT id FROM ix WHERE a > 3 AND b = 'P' ORDER BY id;
SELECT id FROM ix WHERE a > 3 AND a = 7 ORDER BY id LIMIT 3;
SELECT x.id, y.id FROM ix x JOIN ix y ON lower(x.b) = lower(y.b) AND x.id < y.id WHERE x.id < 5 ORDER BY 1, 2;
SELECT count(*) FROM ix WHERE a > 3;
-- Again, as texts that came before may be planned in another way.
SELECT count(*) FROM ix WHERE a > 4;
SELECT count(*) FROM ix WHERE a > 3;
-- Entries follow the rows.
UPDATE ix SET b = 'zz' WHERE id = 1;
UPDATE ix SET a = 4 WHERE id = 1;
SELECT id FROM ix WHERE lower(b) = 'zz';
SELECT id, a FROM ix WHERE a > 3 AND b IS NOT NULL AND a < 5 ORDER BY id;
DELETE FROM ix WHERE lower(b) = 'zz';
SELECT id FROM ix WHERE lower(b) = 'zz';
-- Uniqueness and ON CONFLICT.
CREATE TABLE uq (key text, n int, t text);
CREATE UNIQUE INDEX ON uq (lower(key));
CREATE UNIQUE INDEX uq_live ON uq (n) WHERE t IS NULL;
INSERT INTO uq VALUES ('Foo', 1, NULL), ('Bar', 2, NULL);
INSERT INTO uq VALUES ('FOO', 3, NULL);
INSERT INTO uq VALUES ('x', 1, NULL);
INSERT INTO uq VALUES ('x', 1, 'gone');
INSERT INTO uq VALUES ('FOO', 3, NULL) ON CONFLICT (lower(key)) DO UPDATE SET key = excluded.key, n = uq.n + 10 RETURNING *;
INSERT INTO uq VALUES ('fOO', 3, NULL) ON CONFLICT (LOWER(key)) DO NOTHING RETURNING *;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (n) WHERE t IS NULL DO UPDATE SET t = 'was 2' RETURNING *;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (n) WHERE t IS NULL AND n > 0 DO UPDATE SET t = 'was 2' RETURNING *;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (n) DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (n) WHERE t = 'x' DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (upper(key)) DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (lower(key), n) DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT (key) DO NOTHING;
INSERT INTO uq VALUES ('y', 2, NULL) ON CONFLICT ON CONSTRAINT uq_live DO NOTHING;
UPDATE uq SET t = NULL WHERE key = 'x';
UPDATE uq SET key = 'bar' WHERE key = 'x';
SELECT * FROM uq ORDER BY key;
CREATE UNIQUE INDEX ON uq ((n > 0));
CREATE TABLE uq_ref (k text REFERENCES uq (key));
CREATE TABLE uq_ref (n int REFERENCES uq (n));
-- An error in an expression.
CREATE INDEX ix_div ON ix ((100 / a));
CREATE INDEX ix_div ON ix ((100 / a)) WHERE a <> 0;
INSERT INTO ix VALUES (1000, 0, 'q');
CREATE TABLE dv (a int, b int);
CREATE INDEX ON dv ((a / b));
INSERT INTO dv VALUES (1, 1), (1, 0);
INSERT INTO dv VALUES (1, 1);
UPDATE dv SET b = 0;
SELECT * FROM dv;
-- What may not be in one.
CREATE INDEX ON ix (random());
CREATE INDEX ON ix ((now()));
CREATE INDEX ON ix ((a + 1)) WHERE now() > '2020-01-01';
CREATE INDEX ON ix ((d::text));
CREATE INDEX ON ix ((b::date));
CREATE INDEX ON ix ((a::text), (b::int));
CREATE INDEX ON ix ((current_date));
CREATE INDEX ON ix (lower(nothing));
CREATE INDEX ON ix (lower(a));
CREATE INDEX ON ix ((max(a)));
CREATE INDEX ON ix ((SELECT 1));
CREATE INDEX ON ix (((SELECT 1)));
CREATE INDEX ON ix (generate_series(1, 2));
CREATE INDEX ON ix (a) WHERE (SELECT true);
CREATE INDEX ON ix (a) WHERE max(a) > 1;
CREATE INDEX ON ix (a) WHERE a;
CREATE INDEX ON ix (a) WHERE nothing;
CREATE INDEX ON ix ((a + $1));
CREATE INDEX ON ix ((a = 1) nothing_ops);
CREATE INDEX ON ix ((null));
CREATE INDEX ON ix (('x'));
CREATE INDEX ON ix ((ROW(a, b)));
DROP INDEX ix_part, ix_one;
ALTER TABLE dv ADD PRIMARY KEY (a);
DELETE FROM dv WHERE a / b = 1;
SELECT * FROM dv;
DROP TABLE ix, uq, dv;
-- Types, COPY, moved rows, savepoints, foreign keys.
CREATE TABLE e (id int PRIMARY KEY, a int, t text, n numeric, ts timestamptz, f float8, bp char(5), s smallint);
CREATE INDEX e1 ON e ((a + s));
CREATE INDEX e2 ON e (upper(bp));
CREATE INDEX e3 ON e ((n * 2)) WHERE n IS NOT NULL;
CREATE INDEX e4 ON e (abs(f), length(t));
CREATE INDEX e5 ON e ((a IS NULL), id);
CREATE INDEX e6 ON e ((t LIKE 'x%'));
CREATE INDEX e7 ON e (substr(t, 1, 2)) WHERE t IS NOT NULL;
CREATE UNIQUE INDEX e8 ON e (coalesce(a, -1)) WHERE id > 100;
COPY e (id, a, t, n, f, bp, s) FROM stdin;
1	5	xyz	1.50	-2.5	ab	3
2	\N	yy	\N	3	cd	4
3	7	\N	2	0	\N	5
101	7	xx	2	0	\N	5
\.
COPY e (id, a) FROM stdin;
102	7
\.
SELECT id FROM e WHERE a + s = 8;
SELECT id FROM e WHERE upper(bp) = 'AB';
SELECT id FROM e WHERE upper(bp) = 'AB   ';
SELECT id FROM e WHERE n * 2 = 3.00;
SELECT id FROM e WHERE n * 2 > 3 ORDER BY n * 2, id;
SELECT id FROM e WHERE abs(f) = 2.5 AND length(t) = 3;
SELECT id FROM e WHERE abs(f) = 3 AND length(t) > 1;
SELECT id FROM e WHERE (a IS NULL) = true;
SELECT id FROM e WHERE a IS NULL;
SELECT id FROM e WHERE substr(t, 1, 2) = 'xy' AND t <> '';
SELECT id FROM e WHERE substr(t, 1, 2) = 'xy';
SELECT id FROM e WHERE substr(t, 1, 2) IN ('xy', 'yy', 'zz') ORDER BY id;
SELECT id FROM e WHERE substr(t, 1, 2) = ANY (ARRAY['xy', 'xx']) ORDER BY id;
PREPARE q AS SELECT id FROM e WHERE substr(t, 1, 2) = $1;
EXECUTE q('yy');
PREPARE q2 AS SELECT id FROM e WHERE a + s = $1;
EXECUTE q2(12);
INSERT INTO e (id, a) VALUES (103, NULL), (104, NULL);
INSERT INTO e (id, a) VALUES (103, NULL), (104, NULL) ON CONFLICT (coalesce(a, -1)) WHERE id > 100 DO NOTHING;
INSERT INTO e (id, a) VALUES (105, NULL) ON CONFLICT (coalesce(a, -1)) WHERE id > 100 AND a IS NULL DO UPDATE SET s = 9 RETURNING id, s;
INSERT INTO e (id, a) VALUES (106, NULL), (107, NULL) ON CONFLICT (coalesce(a, -1)) WHERE id > 100 DO UPDATE SET s = coalesce(e.s, 0) + 1 RETURNING id, s;
UPDATE e SET id = id + 100 WHERE id < 4 RETURNING id;
UPDATE e SET a = 1000 + id WHERE id < 4 RETURNING id;
UPDATE e SET id = id + 100 WHERE id = 1 RETURNING id;
BEGIN;
SAVEPOINT a;
UPDATE e SET t = 'xynew' WHERE id = 2;
SELECT id FROM e WHERE substr(t, 1, 2) = 'xy' ORDER BY id;
ROLLBACK TO a;
SELECT id FROM e WHERE substr(t, 1, 2) = 'xy' ORDER BY id;
COMMIT;
TRUNCATE e;
INSERT INTO e (id, a, t) VALUES (1, 1, 'xx') RETURNING *;
SELECT id FROM e WHERE substr(t, 1, 2) = 'xx';
CREATE TABLE par (k text PRIMARY KEY);
CREATE TABLE chi (id int PRIMARY KEY, k text REFERENCES par ON DELETE SET NULL ON UPDATE CASCADE);
CREATE UNIQUE INDEX chi_k ON chi (lower(k)) WHERE k IS NOT NULL;
INSERT INTO par VALUES ('A'), ('B'), ('b');
INSERT INTO chi VALUES (1, 'A'), (2, 'B');
UPDATE par SET k = 'C' WHERE k = 'A';
SELECT * FROM chi WHERE lower(k) = 'c';
DELETE FROM par WHERE k = 'B';
INSERT INTO chi VALUES (3, 'b');
SELECT * FROM chi ORDER BY id;
SELECT id FROM chi WHERE k IS NOT NULL ORDER BY id;
WITH d AS (DELETE FROM chi WHERE lower(k) = 'b' RETURNING *) SELECT * FROM d;
INSERT INTO chi SELECT 10 + g, 'b' FROM generate_series(1, 1) g ON CONFLICT (lower(k)) WHERE k IS NOT NULL DO NOTHING;
CREATE INDEX ON chi (k) WHERE k > 'a' OR id = 5;
SELECT id FROM chi WHERE k > 'a' OR id = 5;
\d e
DROP TABLE e, chi, par;
