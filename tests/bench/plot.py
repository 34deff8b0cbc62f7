#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The bench's rows as a picture.

    plot.py BENCH.json OUT.svg

BENCH.json is what `loadshed -o json bench` and `make bench` write. Bars are medians, whiskers the lowest and highest
of five samples. One panel for each group that has rivals; rows without any are left to the table.
"""

import json
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 860, 250, 70, 11, 9, 58
COLOURS = {"loadshed": "#1f6f54", "LRU hash": "#c98a2b", "per-CPU hash": "#b5563c", "spin lock": "#8a6fb0",
           "LPM trie": "#c98a2b", "its ns": "#7a7f87"}
PANELS = {"limits": "One limit per source: nanoseconds over a bare XDP_DROP",
          "lists": "Lists: nanoseconds over none",
          "veth-limit": "Flood of 1 M sources over veth: nanoseconds per packet, all in"}


def series(row):
    """[(name, figure)] of a row, ours first; of a row in `times` only the own time of the rival."""
    if row["unit"] == "times":
        return [(name, figure) for name, figure in row["rivals"].items()]
    return [("loadshed", row["loadshed"])] + list(row["rivals"].items())


def panels(rows):
    """[(title, [(label, [(series, figure)])])] of the groups that have something to compare."""
    found = []
    for group, title in PANELS.items():
        chosen = [row for row in rows if row.get("group") == group and row.get("rivals")]
        bars = [(row["name"], series(row)) for row in chosen]
        if group == "veth-limit":
            bars = [(row["name"].split(",")[0], [("loadshed", row["loadshed"])]) for row in rows
                    if row.get("group") == "veth" and row["name"].startswith(("bare", "loadshed, 1 M sources"))] + bars
        if len(bars) > 1:
            found.append((title, bars))
    return found


def text(x, y, words, size=12, anchor="start", weight="normal"):
    return ('<text x="%g" y="%g" font-size="%d" text-anchor="%s" font-weight="%s">%s</text>'
            % (x, y, size, anchor, weight, escape(words)))


def panel(title, bars, y):
    """SVG lines of one panel that begins at y, and where it ends."""
    top = max(figure["high"] for _, row in bars for _, figure in row)
    scale = (WIDTH - LEFT - RIGHT) / top
    names = list(dict.fromkeys(name for _, row in bars for name, _ in row))
    lines, x = [text(20, y + 16, title, 14, weight="bold")], LEFT
    for name in names if len(names) > 1 else []:
        label = "the other" if name == "its ns" else name
        lines.append('<rect x="%g" y="%g" width="10" height="10" fill="%s"/>' % (x, y + 26, COLOURS.get(name, "#777")))
        lines.append(text(x + 14, y + 35, label, 11))
        x += 26 + 7 * len(label)
    y += 48
    for label, row in bars:
        lines.append(text(LEFT - 10, y + BAR * len(row) / 2 + 4, label, 12, "end"))
        for name, figure in row:
            width = max(figure["median"], 0) * scale
            low, high = (LEFT + max(figure[key], 0) * scale for key in ("low", "high"))
            lines.append('<rect x="%d" y="%g" width="%.1f" height="%d" fill="%s"/>'
                         % (LEFT, y, width, BAR - 1, COLOURS.get(name, "#777")))
            lines.append('<path d="M%.1f %gH%.1f" stroke="#222" stroke-width="1"/>' % (low, y + BAR / 2, high))
            lines.append(text(max(LEFT + width, high) + 5, y + BAR - 2, "%.0f" % figure["median"], 10))
            y += BAR
        y += GAP
    return lines, y + 10


def picture(document):
    """The SVG as text."""
    machine, y, body = document["machine"], TOP, []
    for title, bars in panels(document["rows"]):
        lines, y = panel(title, bars, y)
        body += lines
    head = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %g" font-family="sans-serif" fill="#222">'
            % (WIDTH, y + 10), '<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->',
            '<rect width="100%" height="100%" fill="#fff"/>',
            text(20, 24, "loadshed %s: what a verdict costs" % machine["version"], 17, weight="bold"),
            text(20, 42, "%s, %d CPUs, kernel %s, %s; medians of five, whiskers from lowest to highest"
                 % (machine["cpu"], machine["cpus"], machine["kernel"].split("-")[0], machine["compiler"]), 11)]
    return "\n".join(head + body + ["</svg>", ""])


def main():
    """Exit code."""
    if len(sys.argv) != 3:
        print("usage: plot.py BENCH.json OUT.svg", file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
