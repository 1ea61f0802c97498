-- INCLUDE: columns that an index holds besides its key.
CREATE TABLE inc (a int, b text, c int, d int, PRIMARY KEY (a) INCLUDE (b, c), UNIQUE (c) INCLUDE (d, a));
CREATE UNIQUE INDEX ON inc (d DESC, c) INCLUDE (b);
CREATE INDEX inc_plain ON inc (b) INCLUDE (a);
CREATE UNIQUE INDEX inc_named ON inc (d) INCLUDE (d);
CREATE INDEX ON inc (b) INCLUDE (b, b);
SELECT indexrelid::regclass::text, indnatts, indnkeyatts, indkey::text, indoption::text, indisunique, indisprimary
FROM pg_index WHERE indrelid = 'inc'::regclass ORDER BY 1;
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'inc' ORDER BY 1;
SELECT conname, conkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'inc'::regclass ORDER BY 1;
SELECT c.relname, c.relnatts, a.attnum, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relname LIKE 'inc\_%' AND c.relkind = 'i' ORDER BY 1, 3;
SELECT pg_get_indexdef('inc_plain'::regclass, 1, true), pg_get_indexdef('inc_plain'::regclass, 2, true),
       pg_get_indexdef('inc_plain'::regclass, 3, true);
\d inc
-- Only the key counts.
INSERT INTO inc VALUES (1, 'x', 1, 1), (2, 'x', 2, 2);
INSERT INTO inc VALUES (1, 'y', 3, 3);
INSERT INTO inc VALUES (3, 'y', 2, 3);
INSERT INTO inc VALUES (1, 'y', 9, 9) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *;
INSERT INTO inc VALUES (1, 'y', 9, 9) ON CONFLICT (a, b) DO NOTHING;
INSERT INTO inc VALUES (7, 'y', 1, 1) ON CONFLICT (c, d) DO NOTHING;
INSERT INTO inc VALUES (7, 'z', 1, 2) ON CONFLICT (c, d) DO UPDATE SET b = excluded.b RETURNING *;
INSERT INTO inc VALUES (7, 'z', 2, 3) ON CONFLICT ON CONSTRAINT inc_c_d_a_key DO UPDATE SET b = excluded.b RETURNING *;
UPDATE inc SET b = 'w' WHERE b = 'y' RETURNING a, b;
SELECT a, b FROM inc WHERE b = 'z' ORDER BY a;
DELETE FROM inc WHERE b = 'w';
ALTER TABLE inc ADD CONSTRAINT inc_more UNIQUE (d, a) INCLUDE (c);
CREATE TABLE inc_ref (a int REFERENCES inc, c int REFERENCES inc (c), d int REFERENCES inc (d, a));
CREATE TABLE inc_ref (a int REFERENCES inc, c int REFERENCES inc (c));
INSERT INTO inc_ref VALUES (2, 2);
INSERT INTO inc_ref VALUES (5, 2);
DROP TABLE inc_ref;
-- What cannot be included.
CREATE INDEX ON inc (a) INCLUDE (nothing);
CREATE INDEX ON inc (a) INCLUDE (lower(b));
CREATE INDEX ON inc (a) INCLUDE (b COLLATE "C");
CREATE INDEX ON inc (a) INCLUDE (b text_ops);
CREATE INDEX ON inc (a) INCLUDE (b ASC);
CREATE INDEX ON inc (a) INCLUDE (b NULLS FIRST);
CREATE TABLE inc_bad (a int, PRIMARY KEY (a) INCLUDE (nothing));
DROP TABLE inc;
