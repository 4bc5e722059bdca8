"""Each part of the read path, switched off alone: what a read of one row then costs the server."""

import statistics

CLAIM = "Each part of the read path makes reads of single rows cheaper, seen through the server."
TITLE = "Reads of single rows, part by part"
# Parts that a read of resident rows passes, with the words for them.
PARTS = {
    "point-reads": "the plan of point reads: a read becomes a scan of one row",
    "hints": "hints from index entries to cached blocks: a read looks blocks up",
    "filters": "filters: a read looks into every run",
    "huge-pages": "huge pages under the block cache",
}
KINDS = {"present": "0", "absent": "1"}


def run(lab, small):
    rows, seconds, rounds = (100_000, 3, 3) if small else (1_000_000, 10, 7)
    fill = [f"--rows={rows}", "--value-size=256", "--seed=1", "--threads=16"]
    # Small memtables, so that the rows are in files of more than one level.
    settings = {"memory_bytes_max": "1GiB", "memtable_bytes_max": f"{4 if small else 40}MiB"}
    with lab.server("rows", durability="interval=100", **settings) as server:
        server.load("missing-keys", *fill, "--missing=0", "--warm-up=0s", "--duration=1s")
        server.rest()
    samples = {part: {kind: [] for kind in KINDS} for part in ["nothing", *PARTS]}
    for turn in range(rounds):
        order = list(samples) if turn % 2 == 0 else list(samples)[::-1]
        for part in order:
            off = {} if part == "nothing" else {"read_path_off": part}
            with lab.server("rows", **settings, **off) as server:
                for kind, share in KINDS.items():
                    samples[part][kind].append(cost(server, fill, share, seconds))
    return {"rows": rows, "seconds": seconds, "rounds": rounds, "micros": samples}


def cost(server, fill, missing, seconds):
    """Returns the processor time of the server for a read, in microseconds."""
    report, changes, cpu = server.load(
        "missing-keys", *fill, "--skip-fill", f"--missing={missing}", "--warm-up=0s", f"--duration={seconds}s"
    )
    reads = sum(kind["count"] for kind in report["operations"].values())
    return round(cpu / reads * 1e6, 2)


def ratios(figures, part, kind):
    """Returns the cost without a part as a multiple of the cost with all, round by round."""
    micros = figures["micros"]
    return sorted(off / on for off, on in zip(micros[part][kind], micros["nothing"][kind]))


def page(figures):
    lines = [
        f"{figures['rows']:,} rows of one cell of 256 bytes, all in the block cache, in the sorted runs that compaction leaves. The",
        "load tester reads random rows by key with 16 workers and verifies each value. A server is started",
        "for each part with that part switched off (`--read-path-off`), in turns with a server that has all:",
        f"{figures['rounds']} rounds of {figures['seconds']} s. The figure is the processor time of the server for a",
        "read, without the client's; all of gRPC and the network stack is in it.",
        "",
        "| switched off | present rows, cost | low to high | absent rows, cost | low to high |",
        "|---|---|---|---|---|",
    ]
    for part, words in PARTS.items():
        cells = []
        for kind in KINDS:
            values = ratios(figures, part, kind)
            cells += [f"{statistics.median(values):.2f}", f"{values[0]:.2f} to {values[-1]:.2f}"]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    with_all = {kind: statistics.median(figures["micros"]["nothing"][kind]) for kind in KINDS}
    lines += [
        "",
        "1.00 is the cost with all parts: "
        f"{with_all['present']:.0f} µs for a present row and {with_all['absent']:.0f} µs for an absent one here.",
    ]
    bars = [(part, statistics.median(ratios(figures, part, kind)), kind) for part in PARTS for kind in KINDS]
    return lines, ("bars", "Cost of a read without a part, all parts = 1", bars)
