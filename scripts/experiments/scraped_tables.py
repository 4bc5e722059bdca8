"""Point reads of a server with very many tables, alone and while its metrics are scraped, in turns."""

import os
import re
import statistics

CLAIM = "With 100,000 tables, a scrape of the metrics each second makes the p99 of reads at most 1.2 times as long."
TITLE = "Scrapes of a server with very many tables"
BOUND, CLAIMED = 1.2, 100_000
# The default budget of 512 MiB has no place for the metadata and memtables of so many tables.
BUDGET = "2GiB"
# Lines of the benchmark: tables, phases, scrapes.
CREATED = re.compile(r"^(\d+) tables in (\d+) s", re.M)
PHASE = re.compile(r"^(alone|scraped) +(\d+) reads +p50 (\d+) us, p99 (\d+) us, p99.9 (\d+) us$", re.M)
SCRAPES = re.compile(r"^(\d+) scrapes, of (\d+) KiB and (\d+) ms in the mean$", re.M)


def run(lab, small):
    tables, rounds = (10_000, 10) if small else (100_000, 20)
    # The benchmark hands its environment to the server.
    os.environ.update({"STELE_MEMORY_BYTES_MAX": BUDGET, "STELE_SQL_LISTEN": "off"})
    seconds = 5
    text = lab.benchmark(
        "scraped-tables", f"--server={lab.stele}", f"--tables={tables}", "--create-seconds=7200",
        f"--seconds={seconds}", f"--rounds={rounds}")
    return {**parse(text, seconds), "real_time": os.sched_getscheduler(0) == os.SCHED_FIFO}


def parse(text, seconds):
    """Returns the figures in the lines of the benchmark."""
    created, scrapes = CREATED.search(text), SCRAPES.search(text)
    phases = {"alone": [], "scraped": []}
    for name, reads, p50, p99, p999 in PHASE.findall(text):
        phases[name].append({"reads": int(reads), "p50_us": int(p50), "p99_us": int(p99), "p999_us": int(p999)})
    if not created or not scrapes or not phases["alone"] or len(phases["alone"]) != len(phases["scraped"]):
        raise SystemExit(f"experiment: the benchmark's lines are not as expected: {text[-2000:]}")
    count, kib, millis = map(int, scrapes.groups())
    return {"tables": int(created[1]), "budget": BUDGET, "seconds": seconds,
            "scrapes": {"count": count, "kib": kib, "millis": millis}, **phases}


def real_time(figures):
    """Returns the priority of the run, if it was not the usual one."""
    if not figures["real_time"]:
        return []
    return ["All of them ran at real-time priority (`chrt -f 15`) once the tables were there, which takes most of the disturbance by other programs off both",
            "sides alike."]


def page(figures):
    alone, scraped, scrapes = figures["alone"], figures["scraped"], figures["scrapes"]
    lines = [
        f"The server has {figures['tables']:,} tables with one row each, and a table of 100,000 rows that is read. Its memory budget is",
        f"{figures['budget'].replace('GiB', ' GiB')}. Four clients read random rows, with a pause of 1 ms before each read, for",
        f"{len(alone)} rounds. In each round they read {figures['seconds']} s alone, and {figures['seconds']} s beside a scraper that asks for `/metrics` once",
        f"a second. Clients, scraper and server share the machine. A scrape took {scrapes['millis']} ms and {scrapes['kib']:,} KiB in the mean",
        f"of {scrapes['count']}.",
        *real_time(figures),
        "",
        "| latency | alone, µs | scraped, µs | scraped / alone | low to high |",
        "|---|---|---|---|---|",
    ]
    for name, what in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us")):
        ratios = sorted(busy[what] / quiet[what] for quiet, busy in zip(alone, scraped))
        middle = [statistics.median(phase[what] for phase in phases) for phases in (alone, scraped)]
        lines.append(f"| {name} | {middle[0]:,.0f} | {middle[1]:,.0f} | {statistics.median(ratios):.2f} |"
                     f" {ratios[0]:.2f} to {ratios[-1]:.2f} |")
    p99 = statistics.median(busy["p99_us"] / quiet["p99_us"] for quiet, busy in zip(alone, scraped))
    steady = sorted(after["p99_us"] / before["p99_us"] for before, after in zip(alone, alone[1:]))
    lines += [
        "",
        "Every figure is the median over the rounds, and a ratio is formed within each round. The noise: the p99 of a phase",
        f"alone is {steady[0]:.2f} to {steady[-1]:.2f} times the p99 of the phase alone before it.",
        "",
        f"**Verdict.** The ratio of the p99 is {p99:.2f}. " + (
            f"The claim of at most {BOUND} holds in this run." if p99 <= BOUND
            else f"The claim of at most {BOUND} does not hold in this run."),
        *([] if figures["tables"] >= CLAIMED else [f"It had {figures['tables']:,} tables, so it says nothing about {CLAIMED:,}."]),
    ]
    bars = [(name, statistics.median(phase[what] for phase in figures[kind]) / 1000, kind)
            for name, what in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us")) for kind in ("alone", "scraped")]
    return lines, ("bars", "Latency of a read, ms", bars)
