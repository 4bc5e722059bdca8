"""What row prefixes buy: CPU and bytes of a tree without them, with filter keys, and with the prefix index."""

import re

CLAIM = "A filter key and a hash index for each row prefix make lookups of a prefix cheaper, for few bytes."
TITLE = "Lookups by prefix"
WAYS = ("no row prefixes", "filter keys", "filter keys, prefix index")
KINDS = ("get present", "get absent", "scan of a prefix present", "scan of a prefix absent")
# A line of the benchmark's whole reads: a way, the cost of each kind, bytes.
LINE = re.compile(r"^ *(" + "|".join(WAYS) + r"): " + ", ".join(rf"{kind} (\d+)" for kind in KINDS) + r", (\d+) B of files, (\d+) B of memory$", re.M)


def run(lab, small):
    rows, reads, rounds = (500_000, 50_000, 5) if small else (4_000_000, 200_000, 9)
    text = lab.benchmark(
        "prefix-index", f"--rows={rows}", f"--reads={reads}", f"--rounds={rounds}", "--partitions=64", "--files=8",
        "--prefix-rows=20", "--searches=20000")
    ways = {}
    for way, *figures in LINE.findall(text):
        *nanos, size, memory = map(int, figures)
        ways[way] = {"nanos": dict(zip(KINDS, nanos)), "bytes": size, "memory": memory}
    if set(ways) != set(WAYS):
        raise SystemExit(f"experiment: the benchmark's lines are not as expected: {text[-2000:]}")
    return {"rows": rows, "reads": reads, "rounds": rounds, "ways": ways}


def page(figures):
    ways, without = figures["ways"], figures["ways"][WAYS[0]]
    lines = [
        f"{figures['rows']:,} rows of 124 bytes in eight sorted runs that all cover the whole range of keys; 20 rows share a",
        "prefix of 8 bytes, and lie in one run. The engine in this process, all blocks in the cache: the figure is",
        f"nanoseconds of CPU, the middle of {figures['rounds']} rounds of {figures['reads']:,} reads. Absent prefixes were never written.",
        "",
        f"| tree | {' | '.join(KINDS)} | bytes of files | bytes of memory |",
        "|---|" + "---|" * (len(KINDS) + 2),
    ]
    for way in WAYS:
        found = ways[way]
        cells = [f"{found['nanos'][kind]:,} ({found['nanos'][kind] / without['nanos'][kind]:.2f})" for kind in KINDS]
        lines.append(f"| {way} | {' | '.join(cells)} | {sized(found, without, 'bytes')} | {sized(found, without, 'memory')} |")
    lines += ["", "In brackets: of the tree without row prefixes. Memory is that of blocks and metadata after all was read.",
              "[Decision 11](../decisions/0011-prefix-index.md) has the reasons."]
    short = {WAYS[1]: "filter keys", WAYS[2]: "prefix index"}
    bars = [
        (kind.replace("scan of a prefix", "scan"), ways[way]["nanos"][kind] / without["nanos"][kind], short[way])
        for kind in KINDS for way in WAYS[1:]
    ]
    return lines, ("bars", "CPU, tree without row prefixes = 1", bars)


def sized(found, without, what):
    """Returns bytes, and their ratio to those without row prefixes."""
    return f"{found[what]:,} ({found[what] / without[what]:.3f})"
