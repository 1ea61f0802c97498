"""Writes the *.tsv files beside it from a running PostgreSQL 15.

Usage: python3 generate.py [psql options]      for example: python3 generate.py -h /tmp -p 5432 -U postgres
       python3 generate.py --check [options]   compares instead of writing; exit status 1 when they differ

Rows are written only for functions that the Rust sources implement: their names are the string literals left of `=>`
in the `entries!` lists of ../src/builtin. Names are PostgreSQL's internal ones (pg_proc.prosrc); functions that
PostgreSQL writes in SQL, and aggregates, go by `name(type, ...)`. Facts only: no descriptions.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent / "src" / "builtin"

# Types whose values Collie holds. Arrays of these are supported as well.
SUPPORTED = """bool bytea char name int8 int2 int2vector int4 regproc text oid oidvector float4 float8 unknown bpchar
varchar date time timestamp timestamptz interval numeric regclass regtype regnamespace regrole regprocedure regoper regoperator
record void cstring pg_lsn any anyarray anyelement anynonarray anycompatible anycompatiblearray anycompatiblenonarray""".split()
# Types that are known by name only, so that using one says "not supported" instead of "does not exist".
NAMED = """timetz uuid json jsonb bit varbit money inet cidr macaddr point xml tsvector tsquery xid xid8
cid tid aclitem pg_node_tree trigger internal pg_snapshot txid_snapshot""".split()
# Types that only system functions take or return (as text): kept even though no table can have
CATALOG = "pg_node_tree inet xid8 pg_snapshot txid_snapshot".split()
# System views that Collie shows besides every table of pg_catalog. PostgreSQL numbers views anew in each release, so
# here a view's OID is its place in this list: add names at the end only.
FIRST_VIEW_OID = 13100
VIEWS = """pg_catalog.pg_roles pg_catalog.pg_user pg_catalog.pg_shadow pg_catalog.pg_group pg_catalog.pg_settings
pg_catalog.pg_tables pg_catalog.pg_views pg_catalog.pg_matviews pg_catalog.pg_indexes pg_catalog.pg_sequences
pg_catalog.pg_rules pg_catalog.pg_policies pg_catalog.pg_stats pg_catalog.pg_cursors pg_catalog.pg_prepared_statements
pg_catalog.pg_prepared_xacts pg_catalog.pg_stat_activity pg_catalog.pg_stat_user_tables pg_catalog.pg_stat_all_tables
pg_catalog.pg_stat_user_indexes pg_catalog.pg_stat_all_indexes pg_catalog.pg_stat_replication
pg_catalog.pg_replication_slots pg_catalog.pg_publication_tables pg_catalog.pg_available_extensions
pg_catalog.pg_user_mappings information_schema.tables information_schema.columns information_schema.schemata
information_schema.table_constraints information_schema.key_column_usage information_schema.constraint_column_usage
information_schema.referential_constraints information_schema.check_constraints information_schema.views
information_schema.sequences information_schema.routines information_schema.triggers
information_schema.information_schema_catalog_name pg_catalog.pg_locks""".split()
# Its columns have types that Collie does not even name.
UNKNOWN_TABLES = "pg_statistic_ext_data".split()


def implemented():
    """Returns the names that the Rust sources register."""
    names = set()
    for path in sorted(SOURCES.glob("*.rs")):
        for block in re.findall(r"const \w*ENTRIES: .*?;\n", path.read_text(), re.S):
            names.update(re.findall(r'"([^"\n]+)"\s*=>', block))
    return names


def quoted(names):
    return ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(names))


def query(options, sql):
    command = ["psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", *options, "-c", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tables(options):
    """Yields file name, header and rows of each table."""
    names = implemented()
    supported = f"""(select t.oid from pg_type t left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
        where t.typnamespace = 11 and (t.typname in ({quoted(SUPPORTED)}) or e.typname in ({quoted(SUPPORTED)}) and e.typtype = 'b'))"""
    known = f"""(select t.oid from pg_type t left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
        where t.typnamespace = 11 and (t.typname in ({quoted(SUPPORTED + NAMED)}) or e.typname in ({quoted(SUPPORTED + NAMED)})))"""
    yield (
        "type.tsv",
        "oid typname typlen typbyval typtype typcategory typispreferred typelem typarray typinput typoutput typreceive typsend typalign typstorage typcollation supported",
        f"""select oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typelem, typarray, typinput,
            typoutput, typreceive, typsend, typalign, typstorage, typcollation, oid in {supported}
            from pg_type where oid in {known} order by oid""",
    )
    source = """case when l.lanname in ('internal', 'c') and p.prokind = 'f' then p.prosrc else p.proname || '(' ||
        array_to_string(array(select replace(format_type(a, null), '"', '') from unnest(p.proargtypes) with ordinality u(a, n) order by n), ', ') || ')' end"""
    catalog = f"""(select oid from pg_type where typname in ({quoted(CATALOG)}))"""
    procs = f"""(select p.*, {source} as source from pg_proc p join pg_language l on l.oid = p.prolang
        where p.pronamespace = 11 and p.prokind in ('f', 'a') and {source} in ({quoted(names)})
        and (p.prorettype in {supported} or p.prorettype in {catalog})
        and not exists (select from unnest(p.proargtypes) a where a not in {supported} and a not in {catalog}))"""
    yield (
        "proc.tsv",
        "oid proname prokind proretset provolatile proisstrict prorettype proargtypes provariadic prosrc",
        f"""select oid, proname, prokind, proretset, provolatile, proisstrict, prorettype, proargtypes, provariadic, source
            from {procs} p order by proname collate "C", oid""",
    )
    yield (
        "proc_optional.tsv",
        "oid pronargdefaults",
        f"select oid, pronargdefaults from {procs} p where pronargdefaults > 0 order by oid",
    )
    operators = f"""(select o.* from pg_operator o join {procs} p on p.oid = o.oprcode where o.oprnamespace = 11)"""
    yield (
        "operator.tsv",
        "oid oprname oprleft oprright oprresult oprcode oprcom oprnegate",
        f"""select o.oid, oprname, oprleft, oprright, oprresult, oprcode::oid,
            case when oprcom in (select oid from {operators} x) then oprcom else 0 end,
            case when oprnegate in (select oid from {operators} x) then oprnegate else 0 end
            from {operators} o order by oprname collate "C", o.oid""",
    )
    yield (
        "cast.tsv",
        "castsource casttarget castfunc castcontext castmethod",
        f"""select castsource, casttarget, castfunc, castcontext, castmethod from pg_cast
            where castsource in {supported} and casttarget in {supported} and castsource <> casttarget
            and (castfunc = 0 or castfunc in (select oid from {procs} p)) order by castsource, casttarget""",
    )
    yield (
        "aggregate.tsv",
        "aggfnoid aggkind aggsortop",
        f"""select aggfnoid::oid, aggkind, case when aggsortop in (select oid from {operators} x) then aggsortop else 0 end
            from pg_aggregate where aggfnoid::oid in (select oid from {procs} p) order by 1""",
    )
    yield (
        "opclass.tsv",
        "oid opcname opcfamily opcintype opcdefault",
        f"""select c.oid, opcname, opcfamily, opcintype, opcdefault from pg_opclass c join pg_am a on a.oid = opcmethod
            where amname = 'btree' and opcintype in {supported} order by opcname collate "C", c.oid""",
    )
    yield (
        "amop.tsv",
        "amoplefttype amoprighttype amopstrategy amopopr",
        f"""select distinct amoplefttype, amoprighttype, amopstrategy, amopopr from pg_amop
            join pg_am a on a.oid = amopmethod join pg_opclass c on opcfamily = amopfamily and opcdefault
            where amname = 'btree' and amoppurpose = 's' and amopopr in (select oid from {operators} x)
            order by 1, 2, 3""",
    )
    views = ", ".join(f"('{name}'::regclass, {oid})" for oid, name in enumerate(VIEWS, FIRST_VIEW_OID))
    yield (
        "system_columns.tsv",
        "relation schema relname relkind attname atttypid atttypmod attnotnull",
        f"""select coalesce(v.number, c.oid), relnamespace::regnamespace, relname, relkind, attname,
            coalesce(nullif(typbasetype, 0), t.oid), greatest(atttypmod, typtypmod), attnotnull
            from pg_class c join pg_attribute a on attrelid = c.oid and attnum > 0 join pg_type t on t.oid = atttypid
            left join (values {views}) v (view, number) on v.view = c.oid
            where v.number is not null or relkind = 'r' and relnamespace = 11
            and relname not in ({quoted(UNKNOWN_TABLES)}) order by 1, attnum""",
    )


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    options = [argument for argument in arguments if argument != "--check"]
    differ = False
    for name, header, sql in tables(options):
        text = header.replace(" ", "\t") + "\n" + query(options, sql)
        path = HERE / name
        if check and (not path.exists() or path.read_text() != text):
            print(f"{path}: differs from what this PostgreSQL says")
            differ = True
        elif not check:
            path.write_text(text)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
