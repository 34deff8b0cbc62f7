#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is made of the bench's JSON (see tests/bench/run.sh, which calls this).

    report.py agree OUT.json RUN.json…      whether runs agree, row by row; OUT: what they say together
    report.py compilers NAME=RUN.json…      what each compiler's program costs, side by side; a NAME may have several
                                            runs
    report.py docs BENCH.json PAGE.md…      writes the tables between the marks that are in these pages

Two runs agree on a row when their medians lie within 10 % or 3 ns of each other.
"""

import json
import statistics
import sys
import textwrap

PART, NS = 0.10, 3

# README's rows: (group, name in the bench, what a reader calls it).
VERDICTS = (("limits", "one limit, 1 k sources", "one limit, 1 000 sources"),
            ("limits", "one limit, 1 k sources, all refused", "the same, all refused"),
            ("limits", "three limits, 1 k sources", "three limits, all admitted"),
            ("limits", "eight limits, 1 k sources", "eight limits, all admitted"),
            ("limits", "one limit, 131 k sources", "one limit, 131 k live sources"),
            ("limits", "one limit, 1 M sources", "one limit, 1 M live sources"),
            ("limits", "one limit, random spoofed sources", "one limit, random spoofed sources"),
            ("classes", "last of 256 classes", "256 classes instead of 1"),
            ("bans", "5 k sources are banned, others send", "5 000 bans instead of none"),
            ("lists", "1 M IPv4 prefixes, 1 k sources", "1 M IPv4 prefixes instead of none, 1 000 sources"),
            ("lists", "1 M IPv4 prefixes, random sources", "the same, random sources"),
            ("lists", "120 k IPv6 prefixes, 1 k sources", "120 k IPv6 prefixes instead of none, 1 000 sources"),
            ("lists", "120 k IPv6 prefixes, random sources", "the same, random sources"))
FLOOD = (("veth", "bare XDP_DROP", "bare XDP_DROP"),
         ("veth", "loadshed, 1 M sources, refused", "loadshed, a limit that refuses"))


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def rows_of(document):
    """{(group, name): row}: a name occurs once in a group."""
    return {(row["group"], row["name"]): row for row in document["rows"]}


def together(figures):
    """One figure of those of several runs: the middle median, the lowest and the highest sample."""
    return {"median": statistics.median(figure["median"] for figure in figures),
            "low": min(figure["low"] for figure in figures), "high": max(figure["high"] for figure in figures)}


def agrees(medians, unit):
    return max(medians) - min(medians) <= max(PART * abs(statistics.median(medians)), NS if unit == "ns" else 0)


def merge(documents):
    """The document that several runs make together: rows that were measured in each."""
    runs = [rows_of(document) for document in documents]
    merged = dict(documents[0], rows=[])
    merged["machine"] = dict(documents[0]["machine"], runs=len(runs),
                             load=" ".join(document["machine"]["load"] for document in documents))
    for key, first in runs[0].items():
        found = [run[key] for run in runs if "loadshed" in run.get(key, {})]
        row = dict(first)
        if len(found) == len(runs):
            row["loadshed"] = together([each["loadshed"] for each in found])
            row["medians"] = [each["loadshed"]["median"] for each in found]
            row["rivals"] = {name: together([each["rivals"][name] for each in found]) for name in first["rivals"]
                             if all(name in each["rivals"] for each in found)}
            row["agree"] = agrees(row["medians"], row["unit"])
            if "goal" in row:
                goal, median = statistics.median(each["goal"] for each in found), row["loadshed"]["median"]
                at_least = any(each["met"] == (each["loadshed"]["median"] > each["goal"]) for each in found)
                row["goal"], row["met"] = goal, median >= goal if at_least else median <= goal
        merged["rows"].append(row)
    return merged


def agree(out, paths):
    """Prints what the runs differ by; exit code 1 if a row could not be compared."""
    merged = merge([load(path) for path in paths])
    rows = [row for row in merged["rows"] if "medians" in row]
    print("\n%-42s %s  spread" % ("medians of %d runs" % len(paths),
                                  " ".join("%9s" % ("run %d" % (i + 1)) for i in range(len(paths)))))
    for row in rows:
        spread = max(row["medians"]) - min(row["medians"])
        digits = 1 if row["unit"] == "times" else 0
        print("%-42s %s %7.*f%s" % (row["name"][:42], " ".join("%9.*f" % (digits, m) for m in row["medians"]), digits,
                                    spread, "" if row["agree"] else "  DIFFER"))
    good, missed = sum(row["agree"] for row in rows), sum(row.get("met") is False for row in rows)
    print("\n%d of %d rows agree within %d %% or %d ns; %d goals missed; written to %s"
          % (good, len(rows), PART * 100, NS, missed, out))
    with open(out, "w", encoding="utf-8") as file:
        json.dump(merged, file, indent=1)
        file.write("\n")
    return 0 if rows else 1


def compilers(arguments):
    """Prints a column for each compiler, and how far the slowest is over the fastest."""
    runs = {}
    for argument in arguments:
        name, _, path = argument.partition("=")
        runs.setdefault(name, []).append(load(path))
    merged = {name: merge(documents) for name, documents in runs.items()}
    tables = {name: rows_of(document) for name, document in merged.items()}
    for name, document in merged.items():
        print("%s: %s, %d bytes of machine code" % (name, document["machine"]["compiler"],
                                                    document["machine"]["code_bytes"]))
    print("\n%-42s %s   slowest over fastest" % ("ns over XDP_DROP", " ".join("%9s" % name for name in tables)))
    far = 0
    for key, row in next(iter(tables.values())).items():
        if row.get("over") != "XDP_DROP" or not all("medians" in table.get(key, {}) for table in tables.values()):
            continue
        medians = [table[key]["loadshed"]["median"] for table in tables.values()]
        good = agrees(medians, "ns")
        far += not good
        print("%-42s %s   %+.0f %%%s" % (key[1][:42], " ".join("%9.1f" % m for m in medians),
                                         100 * (max(medians) / min(medians) - 1), "" if good else "  DIFFER"))
    print("\n%d rows differ by more than %d %% and %d ns" % (far, PART * 100, NS))
    return 0


def number(value):
    return "0" if abs(value) < 0.5 else "%.0f" % value


def table(document):
    """README's two tables as lines of Markdown."""
    rows, machine = rows_of(document), document["machine"]
    runs = machine.get("runs", 1)
    words = ("`make bench%s` on %s, %d CPUs, kernel %s, %s: nanoseconds of a whole verdict over a bare XDP_DROP (or, \"instead "
             "of\", over the same without) on the same packets, medians of five%s; in brackets the lowest and the highest "
             "sample. Beside it what one would write instead: a token bucket and no more, a list and no more."
             % (" RUNS=%d" % runs if runs > 1 else "", machine["cpu"], machine["cpus"],
                machine["kernel"].split("-")[0], machine["compiler"], " and of %d runs" % runs if runs > 1 else ""))
    lines = [*textwrap.wrap(words, 118), "", "| work | loadshed | instead |", "|---|---|---|"]
    for group, name, words in VERDICTS:
        row = rows.get((group, name), {})
        if "loadshed" in row:
            figure = row["loadshed"]
            lines.append("| %s | %s (%s to %s) | %s |" % (
                words, number(figure["median"]), number(figure["low"]), number(figure["high"]),
                ", ".join("%s %s" % (rival, number(its["median"])) for rival, its in row["rivals"].items())))
    flood = [(words, rows[group, name]["loadshed"]["median"], None) for group, name, words in FLOOD
             if "loadshed" in rows.get((group, name), {})]
    flood += [(row["name"], row["rivals"]["its ns"]["median"], row["loadshed"]["median"]) for row in document["rows"]
              if row["group"] == "veth-limit" and "loadshed" in row]
    if flood:
        lines += ["", "A flood from 1 M sources over a veth pair, sender and verdict on one CPU: nanoseconds of a packet, all in.",
                  "", "| judge | ns per packet | loadshed is faster by |", "|---|---|---|"]
        lines += ["| %s | %s | %s |" % (words, number(ns), "%.1f times" % times if times else "")
                  for words, ns, times in flood]
    skipped = [row for row in document["rows"] if row["group"].startswith("veth") and "skipped" in row]
    if skipped:
        lines += ["", "Not measured here: " + "; ".join("%s (%s)" % (row["name"], row["skipped"]) for row in skipped) + "."]
    return lines


def instruments(document):
    """The guide's table of what the two instruments say of the same work."""
    rows = rows_of(document)

    def figure(group, name):
        return number(rows[group, name]["loadshed"]["median"]) if "loadshed" in rows.get((group, name), {}) else ""

    lines = ["| all refused by one limit, ns | 1 000 sources | 1 M sources |", "|---|---|---|"]
    for words, group, name in (("BPF_PROG_TEST_RUN, over XDP_DROP", "limits", "one limit, %s sources, all refused"),
                               ("veth, over XDP_DROP there", "veth", "refused, over XDP_DROP, %s sources"),
                               ("veth, the program alone (run_time_ns)", "veth", "program alone: loadshed, %s sources")):
        lines.append("| %s | %s | %s |" % (words, figure(group, name % "1 k"), figure(group, name % "1 M")))
    drop = figure("veth", "program alone (run_time_ns): XDP_DROP")
    return lines + ["| the same of XDP_DROP | %s | %s |" % (drop, drop)]


BLOCKS = {"bench": table, "instruments": instruments}


def docs(source, paths):
    """Exit code; a page without marks is an error and stays as it is."""
    document, code = load(source), 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            page = file.read()
        found = False
        for name, make in BLOCKS.items():
            marks = "<!-- %s: begin -->\n" % name, "<!-- %s: end -->" % name
            before, begin, rest = page.partition(marks[0])
            _, end, after = rest.partition(marks[1])
            if begin and end:
                found, page = True, before + begin + "\n".join([*make(document), end + after])
        if not found:
            print("%s: no pair of marks like '<!-- bench: begin -->' in it" % path, file=sys.stderr)
            code = 1
            continue
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    return code


def main(arguments):
    """Exit code."""
    if len(arguments) >= 3 and arguments[0] == "agree":
        return agree(arguments[1], arguments[2:])
    if len(arguments) >= 2 and arguments[0] == "compilers":
        return compilers(arguments[1:])
    if len(arguments) >= 3 and arguments[0] == "docs":
        return docs(arguments[1], arguments[2:])
    print(__doc__.split("\n\n")[1], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
