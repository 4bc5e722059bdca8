"""One table that grows: the cost of a get, a scan and a write at each size, and a line through them up to 10 TB."""

import math

CLAIM = "The cost of a get, a scanned row and a written row grows no faster than the logarithm of the table."
TITLE = "A table that grows"
SIZES = {True: (100_000, 300_000, 1_000_000), False: (1_000_000, 10_000_000, 100_000_000)}
VALUE = 100
# Bytes of the table that costs are projected to.
PROJECTED = 10**13
# Bytes of filter for a row of a table that is read by whole rows.
FILTER = 1.5
# Rows of the claim.
CLAIMED = 100_000_000
COSTS = {
    "present": "get of a row that is there", "absent": "get of a row that is not",
    "scanned": "row of a scan", "written": "row written, 100 a call",
}


def run(lab, small):
    # Small memtables, so that nearly all rows are in files at every size.
    seconds, budget, memtable = (4, "128MiB", "1MiB") if small else (30, "4GiB", "16MiB")
    settings = {"memory_bytes_max": budget, "memtable_bytes_max": memtable, "durability": "interval=100"}
    steps = []
    for rows in SIZES[small]:
        keys = [f"--rows={rows}", f"--value-size={VALUE}", "--seed=1", "--threads=16"]
        timed = ["--warm-up=0s", f"--duration={seconds}s"]
        with lab.server(f"rows-{rows}", **settings) as server:
            # The load must have one operation after it has filled the table.
            _, _, cpu = server.load("missing-keys", *keys, "--missing=0", "--warm-up=0s", "--operations=1")
            step = {"rows": rows, "written": per(cpu, rows)}
            server.rest()
            step["disk_bytes"] = server.metrics().get("stele_level_bytes", 0)
            for kind, share in (("present", "0"), ("absent", "1")):
                step.update(reads(server, kind, [*keys, "--skip-fill", f"--missing={share}", *timed]))
        with lab.server(f"scans-{rows}", **settings) as server:
            server.load("scans", *keys, "--max-scan-length=100", "--warm-up=0s", "--operations=1")
            server.rest()
            report, _, cpu = server.load("scans", *keys, "--skip-fill", "--max-scan-length=100", *timed)
            found = report["operations"]["scan"]["rows"]
            step["scanned"] = per(cpu, found)
        steps.append(step)
    return {"seconds": seconds, "budget": budget, "steps": steps}


def reads(server, kind, arguments):
    """Returns the cost of a get, and its disk reads."""
    report, changes, cpu = server.load("missing-keys", *arguments)
    points = changes.get("stele_point_reads_total", 0)
    disk = changes.get("stele_point_disk_reads_total", 0) / points if points else 0
    count = sum(operation["count"] for operation in report["operations"].values())
    return {kind: per(cpu, count), f"{kind}_disk_reads": round(disk, 3), f"{kind}_verified": report["verification"]["values"]}


def per(cpu_seconds, count):
    """Returns the processor time of one, in microseconds."""
    return round(cpu_seconds / count * 1e6, 2) if count else 0


def line(figures, kind):
    """Returns the line of least squares through the costs over the logarithm of the rows: base and slope."""
    points = [(math.log10(step["rows"]), step[kind]) for step in figures["steps"]]
    x, y = (sum(values) / len(points) for values in zip(*points))
    slope = sum((at - x) * (cost - y) for at, cost in points) / sum((at - x) ** 2 for at, _ in points)
    return y - slope * x, slope


def reach(figures):
    """Returns how far a run is from the claim."""
    rows = figures["steps"][-1]["rows"]
    if rows >= CLAIMED:
        return []
    return [f"**This run stopped at {rows:,} rows.** The claim is about 1 to 100 million rows, and the experiment has not been",
            "run at that size yet. About more rows this page has only arithmetic. `scripts/experiment growth` without",
            "`--small` runs the full sizes.", ""]


def bent(steps):
    """Returns a remark on a line that passes from memory to disk."""
    first, last = steps[0]["present_disk_reads"], steps[-1]["present_disk_reads"]
    if first > 0.1 or last < 0.1:
        return []
    lines = [f"- The first size lies in memory; the last one does not, with {last:.2f} disk reads a get. The cost of the disk reads",
             "  is in the slope of a get that finds its row. Such a get needs about one disk read at most, so the line is too steep",
             "  for it at 10 TB."]
    slopes = [(after["present"] - before["present"]) / math.log10(after["rows"] / before["rows"])
              for before, after in zip(steps, steps[1:])]
    if slopes[-1] > slopes[0]:
        lines.append(f"  Its cost grew faster than the logarithm here: by {slopes[0]:.1f} µs each ten times at first and by "
                     f"{slopes[-1]:.1f} µs at last.")
        lines.append("  So this run does not show the claim for it.")
    return lines


def page(figures):
    steps = figures["steps"]
    last = steps[-1]
    row_bytes = last["disk_bytes"] / last["rows"]
    projected = PROJECTED / row_bytes
    head = " | ".join(f"{step['rows']:,}" for step in steps)
    lines = [
        *reach(figures),
        f"Each row is one cell of {VALUE} bytes. The memory budget is {figures['budget'].replace('MiB', ' MiB').replace('GiB', ' GiB')}. At each size the load tester fills a table",
        "and waits until compactions come to rest. Then 16 workers read random rows, and 16 workers scan ranges of up to 100",
        f"rows, {figures['seconds']} s each. A figure is the processor time of the server in microseconds. The figure of a written row",
        "includes the flushes and compactions that ran before the last row was written.",
        "",
        f"| cost | {head} | line: each ten times | line: at 10 TB, on paper |",
        "|---|" + "---|" * (len(steps) + 2),
    ]
    for kind, words in COSTS.items():
        base, slope = line(figures, kind)
        cells = [f"{step[kind]:.1f}" for step in steps]
        at_end = max(base + slope * math.log10(projected), steps[-1][kind])
        lines.append(f"| {words} | {' | '.join(cells)} | {slope:+.1f} | {at_end:.0f} |")
    disk = " | ".join(f"{step['present_disk_reads']:.2f}" for step in steps)
    verified = sum(step["present_verified"] for step in steps)
    lines += [
        f"| disk reads of a get that finds its row | {disk} | | |",
        "",
        f"The load tester compared {verified:,} values; a wrong value ends the experiment.",
        "",
        "## The projection to 10 TB a node",
        "",
        f"The last column is arithmetic. It continues the line of least squares over the logarithm of the rows, from {last['rows']:,}",
        f"rows to the {projected / 1e9:.0f} billion rows of {row_bytes:.0f} bytes that fill 10 TB, {projected / last['rows']:,.0f} times as many. It never falls",
        "below the cost at the last size.",
        "",
        *bent(steps),
        f"- A get needs about one disk read if filters and index are in memory. At 10 TB the filters of these rows take",
        f"  {projected * FILTER / 1e9:.0f} GB, and the index takes some 20 GB ([sizing](../sizing.md#memory)). With less memory a get reads them",
        "  from disk, and the line does not hold. Larger rows need less: rows of 1,000 bytes need about 15 GB.",
        "- Compactions of a larger table write each byte more often: 19 times at 100 GiB and 43 times at 2 TiB, as",
        "  [decision 25](../decisions/0025-level-1-in-two-steps.md) computes. A written row at 10 TB costs more than the line says.",
    ]
    bars = [(f"{step['rows']:,}", step[kind], kind) for step in steps for kind in ("present", "absent")]
    return lines, ("bars", "Processor time of a get by rows of the table, µs", bars)
