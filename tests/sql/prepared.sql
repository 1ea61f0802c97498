-- Prepared statements of the session, as pg_prepared_statements shows them. Plans of this server are generic, so what
-- PostgreSQL counts for a statement with parameters is not compared.
CREATE TABLE ps_t (i int, t text);
PREPARE ps_a AS SELECT 1;
PREPARE   ps_b(int,varchar,date) as   insert into ps_t values ($1, $2)  ;
PREPARE ps_c AS SELECT $1::int + $2;
SELECT name, statement, prepare_time <= now(), parameter_types, from_sql FROM pg_prepared_statements WHERE name LIKE 'ps%' ORDER BY name;
EXECUTE ps_a; EXECUTE ps_a;
SELECT name, generic_plans, custom_plans FROM pg_prepared_statements WHERE name IN ('ps_a', 'ps_b') ORDER BY name;
DEALLOCATE ps_a;
SELECT name FROM pg_prepared_statements WHERE name LIKE 'ps%' ORDER BY name;
DEALLOCATE ALL;
SELECT count(*) FROM pg_prepared_statements;
SELECT ARRAY['pg_class'::regclass, NULL], ARRAY['int4'::regtype, 'varchar'::regtype];
DROP TABLE ps_t;
