"""Each part of the read path, switched off alone: the cost of the reads that it serves, through the server."""

import statistics

CLAIM = "Each part of the read path makes reads of single rows cheaper, measured through the server."
TITLE = "Reads of single rows, part by part"
VALUE = 256
# Columns of a wide row, of 32 bytes each: a row fills a few blocks.
COLUMNS = 1_000
# Servers that have all parts.
ALL, SAME = "nothing", "nothing again"
PARTS = {
    SAME: "nothing, to show the noise",
    "point-reads": "the plan of point reads: a read becomes a scan of one row",
    "hints": "hints from index entries to cached blocks: a read looks blocks up",
    "filters": "filters: a read looks into every sorted run",
    "huge-pages": "huge pages under the block cache",
    "counters": "counters of reads, filters and keys in use",
    "batched-reads": "batches: a read that misses several blocks reads one after the other",
    "admission": "admission: each block that was read stays in the full cache",
    "readahead": "readahead: a scan reads a block when it comes to it",
    "cache-warming": "cache warming: blocks that a compaction wrote are read from disk again",
}
# Parts that a read of resident rows passes.
MEMORY = ("point-reads", "hints", "filters", "huge-pages", "counters")
# Each kind of reads, with words for it and the parts that it passes.
WORKS = {
    "present": ("rows that are there, in memory", MEMORY),
    "absent": ("rows that are not there, in memory", MEMORY),
    "disk": ("rows that are there, on disk", ("admission",)),
    "wide": ("whole wide rows, on disk", ("batched-reads",)),
    "scan": ("ranges of rows, on disk", ("readahead",)),
    "updated": ("rows that are there, beside updates", ("cache-warming",)),
}


class Plan:
    """Sizes of a run: rows, wide rows, seconds of a load, rounds."""

    def __init__(self, small):
        self.rows, self.wide = (100_000, 1_000) if small else (1_000_000, 10_000)
        self.seconds, self.rounds = (3, 3) if small else (10, 7)
        # Small memtables, so that the rows are in files of more than one level.
        self.memory = {"memory_bytes_max": "1GiB" if small else "8GiB", "memtable_bytes_max": f"{4 if small else 40}MiB"}
        # A twentieth of the rows, and a half of them.
        row_mib = self.rows * (VALUE + 50) / (1 << 20)
        self.disk = {**self.memory, "direct_reads": "true", "cache_bytes_max": f"{max(round(row_mib / 20), 1)}MiB"}
        # Small files and levels, so that compactions run all the time.
        self.half = {**self.disk, "cache_bytes_max": f"{round(row_mib / 2)}MiB", "memtable_bytes_max": "128KiB",
                     "l1_bytes_max": "4MiB", "sst_bytes_max": "4MiB"}

    def settings(self, work):
        return self.memory if work in ("present", "absent") else self.half if work == "updated" else self.disk

    def load(self, work):
        """Returns the arguments of the load tester, without its time."""
        rows = [f"--rows={self.rows}", f"--value-size={VALUE}", "--seed=1", "--threads=16"]
        return {
            "present": ["missing-keys", *rows, "--table=rows", "--missing=0"],
            "absent": ["missing-keys", *rows, "--table=rows", "--missing=1"],
            "disk": ["missing-keys", *rows, "--table=rows", "--missing=0"],
            "wide": ["wide-rows", f"--rows={self.wide}", f"--columns={COLUMNS}", "--seed=1", "--threads=2",
                     "--table=wide", "--read-proportion=1", "--whole-row-proportion=1"],
            "scan": ["scans", f"--rows={self.rows}", f"--value-size={VALUE}", "--seed=1", "--threads=2",
                     "--table=scans", "--max-scan-length=2000"],
            "updated": ["hot-keys", *rows, "--table=updated", "--hot-keys=0.5", "--hot-operations=0.5",
                        "--read-proportion=0.5", "--rate=2000", "--arrivals=constant"],
        }[work]


def run(lab, small):
    plan = Plan(small)
    with lab.server("rows", durability="interval=100", **plan.memory) as server:
        for work in ("present", "wide", "scan", "updated"):
            server.load(*plan.load(work), "--warm-up=0s", "--operations=1")
        server.rest()
    samples = {work: {part: [] for part in (ALL, SAME, *parts)} for work, (_, parts) in WORKS.items()}
    for turn in range(plan.rounds):
        for work, of_parts in samples.items():
            order = list(of_parts) if turn % 2 == 0 else list(of_parts)[::-1]
            for part in order:
                of_parts[part].append(sample(lab, plan, work, part))
    return {"rows": plan.rows, "wide": plan.wide, "seconds": plan.seconds, "rounds": plan.rounds, "samples": samples}


def sample(lab, plan, work, part):
    """Starts a server without a part and returns the cost of reads: processor time, latency, disk reads."""
    data = "rows"
    if work == "updated":
        # Updates change the data; each server begins with the same.
        data = "updated"
        lab.copy("rows", data)
    off = {} if part in (ALL, SAME) else {"read_path_off": part}
    durability = {"durability": "interval=100"} if work == "updated" else {}
    with lab.server(data, **plan.settings(work), **off, **durability) as server:
        load = [*plan.load(work), "--skip-fill", "--warm-up=0s"]
        server.load(*load, f"--duration={max(plan.seconds // 3, 1)}s")
        report, changes, cpu = server.load(*load, f"--duration={plan.seconds}s")
    operations = report["operations"]
    reads = next(found for name, found in operations.items() if name != "update")
    count = reads["rows"] if work == "scan" else sum(found["count"] for found in operations.values())
    return {
        "cpu_us": round(cpu / count * 1e6, 2), "p50_us": reads["latency_us"]["p50"],
        "disk_reads": disk_reads(work, changes, reads["count"]), "verified": report["verification"]["values"],
    }


def disk_reads(work, changes, reads):
    """Returns the blocks that a read took from disk, or None where they are not counted or all rows are in memory."""
    if work in ("disk", "wide"):
        points = changes["stele_point_reads_total"]
        return round(changes["stele_point_disk_reads_total"] / points, 3)
    # Many reads beside updates merge several runs; the counters of point reads leave their blocks out.
    return round(changes["stele_cache_misses_total"] / reads, 3) if work == "updated" else None


def ratios(figures, work, part, what):
    """Returns a cost without a part as a multiple of the cost with all parts, round by round, in order of size."""
    of_work = figures["samples"][work]
    pairs = zip(of_work[part], of_work[ALL])
    return sorted(off[what] / on[what] for off, on in pairs if off[what] is not None and on[what])


def shown(figures):
    """Returns two lists of parts: parts with a figure that is above the noise in every round, and all others."""
    found, lost = [], []
    for part in PARTS:
        cells = [(work, what) for work, (_, parts) in WORKS.items() if part in parts
                 for what in ("cpu_us", "p50_us", "disk_reads")]
        above = [cell for cell in cells if is_above(ratios(figures, cell[0], part, cell[1]), ratios(figures, cell[0], SAME, cell[1]))]
        if part != SAME:
            (found if above else lost).append(f"`{part}`")
    return found, lost


def is_above(values, noise):
    """Returns whether each ratio is above each ratio of two servers that are the same."""
    return bool(values) and values[0] > noise[-1]


def told(values):
    """Returns the middle, the least and the greatest of ratios."""
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})" if values else ""


def page(figures):
    lines = [
        f"{figures['rows']:,} rows of one cell of {VALUE} bytes, and {figures['wide']:,} rows of {COLUMNS:,} columns, in the sorted runs that",
        "compactions leave. The load tester reads rows by key and verifies each value. For each part a server starts",
        "with that part switched off (`--read-path-off`). It takes turns with a server that has all parts:",
        f"{figures['rounds']} rounds of {figures['seconds']} s for each kind of reads.",
        "",
        "- *In memory*: all rows are in the block cache. 16 workers read.",
        "- *On disk*: the block cache holds a twentieth of the rows, and files are read past the page cache.",
        "  16 workers read rows; 2 workers read wide rows and ranges of up to 2,000 rows.",
        "- *Beside updates*: the block cache holds half of the rows. 1,000 reads and 1,000 updates begin each second,",
        "  at random rows, and compactions run.",
        "",
        "**CPU** is the processor time of the server for a read (of a range: for a row; beside updates: for an",
        "operation, with flushes and compactions), with gRPC and the network stack in it. **Latency** is the median that",
        "a client sees. **Disk reads** are blocks that a read took from disk. Each figure is a ratio: without the part, over",
        "with all parts. Above 1 the part pays. The brackets hold the least and the greatest round.",
        "",
        "| switched off | reads | CPU | latency | disk reads |",
        "|---|---|---|---|---|",
    ]
    for part, words in PARTS.items():
        for work, (kind, parts) in WORKS.items():
            if part != SAME and part not in parts:
                continue
            cells = [told(ratios(figures, work, part, what)) for what in ("cpu_us", "p50_us", "disk_reads")]
            lines.append(f"| {words} | {kind} | {' | '.join(cells)} |")
    lines += ["", "*Nothing, to show the noise* is a second server that has all parts, in the same turns. With all parts, medians of the",
              "rounds:", "", "| reads | CPU, µs | latency, µs | disk reads |", "|---|---|---|---|"]
    for work, (kind, _) in WORKS.items():
        of_all = figures["samples"][work][ALL]
        cells = [median(of_all, "cpu_us", 1), median(of_all, "p50_us", 0), median(of_all, "disk_reads", 2)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    found, lost = shown(figures)
    lines += [
        "",
        "**Verdict.** A ratio counts only as far as it leaves the range of two servers that are the same. For a part that pays, all",
        f"rounds of CPU, latency or disk reads of one kind of reads lie above that range. In this run: {', '.join(found) or 'no part'}.",
        *([f"The effect of {', '.join(lost)} is within the noise, so this run does not show the claim for these parts."] if lost else []),
        "",
        "**Not in the table: `prefix-index`.** The server accepts the switch, but it has no effect there: tables of a",
        "server have no row prefixes, so their files have no prefix index. Only a program that embeds the engine can ask",
        "for one. [Lookups by prefix](prefix-lookup.md) measures it in the engine. `bench ablate` measures all ten",
        "parts in the engine, without gRPC; [decision 6](../decisions/0006-read-path.md) has its table. A part that saves",
        "half a microsecond is large there and small here, beside the cost of a request.",
    ]
    bars = [
        (f"{part}, {work}", statistics.median(ratios(figures, work, part, "cpu_us")), "CPU")
        for work, (_, parts) in WORKS.items() for part in parts
    ]
    return lines, ("bars", "CPU of a read without a part, all parts = 1", bars)


def median(samples, what, digits):
    values = [sample[what] for sample in samples if sample[what] is not None]
    return f"{statistics.median(values):,.{digits}f}" if values else ""
