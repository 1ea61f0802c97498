-- Version 1 of `control`, version 1 of all else, as before the first replica. Written by the program of version 2, and `control` then in
-- version 1.
--! set store.write_buffer_size=16KiB
--! set wal.chunk_size=4KiB
--! set wal.ring_size=256KiB
--! set wal.ring=private
--! set wal.segment_size=1MiB
--! set wal.flush_bytes=64KiB
--! set wal.max_total_wal_size=1

--! life stop
CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL UNIQUE, born date)
INSERT INTO people SELECT n, 'person ' || n, date '1970-01-01' + n FROM generate_series(1, 400) n
CHECKPOINT
DELETE FROM people WHERE id % 10 = 0

-- A crash start makes a second history.
--! life kill
INSERT INTO people VALUES (1001, 'late', NULL)

--! life kill
UPDATE people SET born = NULL WHERE id = 3
CREATE INDEX people_born ON people (born)
--! control 1

--! ask
SELECT id, name, born FROM people ORDER BY id
SELECT count(*) FROM people WHERE born > date '1970-12-01'
SELECT id FROM people WHERE name = 'late'
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1

--! write
INSERT INTO people VALUES (1002, 'after', date '2026-11-28')
DELETE FROM people WHERE id = 4
CHECKPOINT
INSERT INTO people VALUES (1003, 'in the log', NULL)

--! refuse 23505
INSERT INTO people VALUES (1004, 'late', NULL)
--! refuse 23502
INSERT INTO people (id) VALUES (1005)
