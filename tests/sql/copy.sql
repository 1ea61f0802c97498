-- COPY TO as text and csv: headers, and which fields are quoted.
CREATE TABLE cp_t ("a,b" text, c text, "null" int);
INSERT INTO cp_t VALUES ('x', 'y', 1), (NULL, NULL, NULL), ('q"', 'a,b', 2);
COPY cp_t TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *);
COPY cp_t TO STDOUT (FORMAT csv, HEADER, NULL 'c', FORCE_QUOTE (c));
COPY (SELECT c FROM cp_t) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (c));
COPY cp_t TO STDOUT (HEADER);
COPY cp_t TO STDOUT (FORMAT csv, FORCE_QUOTE *);
DROP TABLE cp_t;
