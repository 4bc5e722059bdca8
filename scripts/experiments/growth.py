"""One table that grows: a get, a scan and a write at each size, and what a line through them says of 10 TB."""

import math

CLAIM = "The cost of a get, a scanned row and a written row grows no faster than the logarithm of the table."
TITLE = "A table that grows"
SIZES = {True: (100_000, 300_000, 1_000_000), False: (1_000_000, 10_000_000, 100_000_000)}
VALUE = 100
# Bytes of the table that costs are projected to.
PROJECTED = 10**13
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


def page(figures):
    steps = figures["steps"]
    last = steps[-1]
    row_bytes = last["disk_bytes"] / last["rows"]
    projected = PROJECTED / row_bytes
    head = " | ".join(f"{step['rows']:,}" for step in steps)
    lines = [
        f"Rows of one cell of {VALUE} bytes, a memory budget of {figures['budget']}. At each size the load tester fills a",
        "table, compactions come to rest, and 16 workers read random rows and scan ranges of up to 100 rows,",
        f"{figures['seconds']} s each. The figure is the processor time of the server, in microseconds; of a written row,",
        "with the flushes and compactions that run until the last is written.",
        "",
        f"| cost | {head} | each ten times | at 10 TB, on paper |",
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
        f"A row takes {row_bytes:.0f} bytes of disk, so 10 TB are {projected / 1e9:.0f} billion rows. The projection continues the",
        "line of least squares over the logarithm of the rows, and never falls below the last size; it holds as long as filters and index stay in",
        f"memory ([sizing](../sizing.md#memory)). {verified:,} values were read and compared; a wrong one ends the experiment.",
    ]
    bars = [(f"{step['rows']:,}", step[kind], kind) for step in steps for kind in ("present", "absent")]
    return lines, ("bars", "Processor time of a get by rows of the table, µs", bars)
