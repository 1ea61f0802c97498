"""Fills in expected.tsv from a running PostgreSQL 15: what each call of a built-in function answers.

Usage: python3 expect.py [psql options]       recomputes the last field of every line
       python3 expect.py --check [options]    compares instead; exit status 1 when a line differs

A line is: call TAB argument ... TAB result. A call is `name(type, ...)`, `op NAME(type, ...)`, `cast type type`
(a modifier may follow the target in parentheses), or `agg name(type)`, whose arguments are the rows (fields of a row are separated
by `|`). Types are internal names. `\\N` is NULL. A result is `=text`, with rows of a set separated by `,`, or
`!SQLSTATE message`. A line without a result gets one. A character
beyond ASCII is written as `\\u` and four hexadecimal digits.
"""

import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).resolve().parent / "expected.tsv"


def decoded(text):
    return re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match.group(1), 16)), text)


def encoded(text):
    return re.sub(r"[^\x00-\x7f]", lambda match: f"\\u{ord(match.group()):04x}", text)


def literal(text, type_name):
    text = decoded(text)
    value = "NULL" if text == "\\N" else "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"{value}::pg_catalog.{quoted(type_name)}" if type_name != "any" else value


def quoted(type_name):
    name, _, modifier = type_name.partition("(")
    return f'"{name}"' + (f"({modifier}" if modifier else "")


def statement(call, arguments):
    """Returns the SELECT that computes a line."""
    if match := re.fullmatch(r"cast (\S+) (\S+)", call):
        source, target = match.groups()
        return f"select cast({literal(arguments[0], source)} as pg_catalog.{quoted(target)})"
    if match := re.fullmatch(r"op (\S+)\((.*)\)", call):
        name, types = match.group(1), [t for t in match.group(2).split(", ") if t]
        values = [literal(a, t) for a, t in zip(arguments, types)]
        left = values[0] if len(values) == 2 else ""
        return f"select {left} operator(pg_catalog.{name}) {values[-1]}"
    if match := re.fullmatch(r"agg (\S+)\((.*)\)", call):
        name, types = match.group(1), [t for t in match.group(2).split(", ") if t]
        rows = [", ".join(literal(a, t) for a, t in zip(row.split("|"), types)) for row in arguments]
        columns = ", ".join(f"c{i}" for i in range(len(types)))
        values = " union all ".join(f"select {n}, {row}" for n, row in enumerate(rows))
        empty = f"select 0, {', '.join(literal(chr(92) + 'N', t) for t in types)} where false"
        return f"select pg_catalog.{name}({columns}) from ({values or empty}) as r(n{', ' + columns if columns else ''})"
    name, types = re.fullmatch(r"(\S+?)\((.*)\)", call).groups()
    types = [t for t in types.split(", ") if t]
    return f"select pg_catalog.{name}({', '.join(literal(a, t) for a, t in zip(arguments, types))})"


def answer(options, sql):
    command = ["psql", "-XAtq", "-P", "null=\\N", "-v", "VERBOSITY=verbose", *options]
    command += ["-c", "set timezone = 'UTC'", "-c", "set datestyle = 'ISO, MDY'", "-c", sql]
    done = subprocess.run(command, capture_output=True, text=True)
    error = re.search(r"ERROR:  (\w{5}): (.*)", done.stderr)
    if error:
        return encoded(f"!{error.group(1)} {error.group(2)}")
    return encoded("=" + ",".join(done.stdout.rstrip("\n").split("\n")))


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    options = [argument for argument in arguments if argument != "--check"]
    lines, differ = [], False
    for line in FILE.read_text().splitlines():
        if not line or line.startswith("#"):
            lines.append(line)
            continue
        call, *fields = line.split("\t")
        if fields and fields[-1][:1] in ("=", "!"):
            old = fields.pop()
        else:
            old = None
        new = answer(options, statement(call, fields))
        if check and old != new:
            print(f"{line}\n  PostgreSQL: {new}")
            differ = True
        lines.append("\t".join([call, *fields, new]))
    if not check:
        FILE.write_text("\n".join(lines) + "\n")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
