"""Data twenty times as large as the cache: disk reads of a get, bytes of a read, latency by number of clients, and
reads a second beside fio on the same disk."""

CLAIM = "With data 20 times the cache, a read of a row takes about one read from disk (published: 0.85)."
TITLE = "Data much larger than memory"
VALUE = 1_000
# Bytes of a data block before compression in every table of a server.
BLOCK = 16 << 10
CLIENTS = (1, 10, 50, 150)


def run(lab, small):
    cache_mib, seconds = (16, 8) if small else (512, 60)
    # A row takes its value and some 50 bytes.
    rows = 20 * (cache_mib << 20) // (VALUE + 50)
    settings = {"cache_bytes_max": f"{cache_mib}MiB", "memory_bytes_max": f"{max(8 * cache_mib, 256)}MiB",
                "direct_reads": "true"}
    keys = [f"--num-unique-keys={rows}", f"--value-size={VALUE}", "--seed=1"]
    with lab.server("rows", durability="interval=100", **settings) as server:
        report, changes, cpu = server.load(
            "key-value", *keys, "--num-threads-write=200", "--num-threads-read=0", f"--num-writes={rows}",
            "--warm-up=0s", "--duration=1h")
        write = summary(report, "insert", changes, cpu)
        server.rest()
        write["disk_bytes"] = server.metrics().get("stele_level_bytes", 0)
    reads, limits = [], []
    for off in ("", "filters"):
        extra = {"read_path_off": off} if off else {}
        with lab.server("rows", **settings, **extra) as server:
            for clients in CLIENTS if not off else (50,):
                if not off:
                    # Before the readers, with as many reads at a time, so that both see the disk of one moment.
                    limits.append(lab.fio(int(write["disk_bytes"]), BLOCK, clients, seconds))
                report, changes, cpu = server.load(
                    "key-value", *keys, "--read-only", f"--num-threads-read={clients}", "--warm-up=3s",
                    f"--duration={seconds}s")
                read = summary(report, "read", changes, cpu)
                reads.append({"clients": clients, "filters": not off, **read})
    fio = [{"depth": clients, **limit} for clients, limit in zip(CLIENTS, limits) if limit]
    return {"rows": rows, "cache_mib": cache_mib, "seconds": seconds, "write": write, "reads": reads,
            "block_bytes": BLOCK, "fio": fio}


def summary(report, kind, changes, cpu):
    """Returns the figures of a load."""
    found = report["operations"][kind]
    points = changes.get("stele_point_reads_total", 0)
    disk = changes.get("stele_point_disk_reads_total", 0)
    return {
        "per_second": round(found["per_second"]), "p50_us": found["latency_us"]["p50"],
        "p99_us": found["latency_us"]["p99"], "errors": sum(found["errors"].values()),
        "disk_reads_a_get": round(disk / points, 3) if points else None,
        "disk_reads_per_second": round(found["per_second"] * disk / points) if points else None,
        "kib_a_system_read": round(changes["disk_bytes"] / disk / 1024, 1) if disk else None,
        "kib_a_disk_read": round(changes.get("stele_point_disk_bytes_total", 0) / disk / 1024, 1) if disk else None,
        "verified": report["verification"]["values"], "wrong": report["verification"]["wrong"],
        "limit": [process["limit"] for process in report["processes"]],
        "server_cpu_seconds": round(cpu, 1), "others_percent": round(100 * changes["others"]),
    }


def page(figures):
    write, reads = figures["write"], figures["reads"]
    is_measured = all("others_percent" in read for read in reads)
    lines = [
        f"{figures['rows']:,} rows of a value of {VALUE:,} bytes, 20 times the block cache of {figures['cache_mib']} MiB.",
        "The server reads files past the page cache (`--direct-reads`). 200 writers insert the rows. When compactions have",
        f"come to rest, readers read random rows, {figures['seconds']} s for each number of clients. The load tester verifies",
        "every value. Client and server share the machine.",
        "",
        f"**Writes**: {write['per_second']:,} rows a second, p50 {ms(write['p50_us'])} ms, p99 {ms(write['p99_us'])} ms.",
        "",
        "| clients | filters | gets a second | p50, ms | p99, ms | disk reads a get |" + (
            " part of the processors that other programs took |" if is_measured else ""),
        "|---|---|---|---|---|---|" + ("---|" if is_measured else ""),
    ]
    for read in reads:
        state = "on" if read["filters"] else "off"
        lines.append(
            f"| {read['clients']} | {state} | {read['per_second']:,} | {ms(read['p50_us'])} | {ms(read['p99_us'])} |"
            f" {read['disk_reads_a_get']:.2f} |" + (f" {read['others_percent']} % |" if is_measured else ""))
    checked = sum(read["verified"] for read in reads)
    wrong = sum(sum(read["wrong"].values()) for read in reads)
    failed = sum(read["errors"] for read in reads)
    lines += ["", f"{checked:,} values were read and compared: {wrong} wrong, {failed} failed reads.",
              *average_read(figures), *beside_fio(figures)]
    points = [(f"{read['clients']}", read["p99_us"] / 1000, "p99") for read in reads if read["filters"]]
    points += [(f"{read['clients']}", read["p50_us"] / 1000, "p50") for read in reads if read["filters"]]
    points = sorted(points, key=lambda at: int(at[0]))
    return lines, ("bars", "Latency of a get by number of clients, ms", points)


def average_read(figures):
    """Returns the part of the page about the bytes of a read from disk."""
    block = figures.get("block_bytes", BLOCK) / 1024
    lines = [
        "", "## Average I/O against the size of a block", "",
        f"A block of data has {block:.0f} KiB before compression; the values here do not compress. *Block*: bytes of a block as",
        "read, with its end and its checksum. *Disk*: bytes that the kernel read from the disk for each such read. A direct",
        "read begins and ends at a boundary of the disk, so it takes some more than the block.",
        "",
        "| clients | filters | block, KiB | of the block size | disk, KiB | of the block size |",
        "|---|---|---|---|---|---|",
    ]
    for read in figures["reads"]:
        cells = []
        for size in (read["kib_a_disk_read"], read.get("kib_a_system_read")):
            cells += [f"{size}", f"{size / block:.2f}"] if size else ["not measured", ""]
        lines.append(f"| {read['clients']} | {'on' if read['filters'] else 'off'} | {' | '.join(cells)} |")
    return [*lines, "", "A server has one size of block for all tables. Only a program that embeds the engine can choose another",
            "(`TreeOptions::block_bytes`, see [embedding](../embedding.md)), so this page compares no sizes."]


def beside_fio(figures):
    """Returns the part of the page about the limit of the disk."""
    lines = ["", "## Reads a second against `fio`", ""]
    limits = {limit["depth"]: limit for limit in figures.get("fio", [])}
    if not limits:
        return [*lines, "`fio` was not on the `PATH` of this run, so the limit of the disk is unknown. Install it (`apt-get install fio`)",
                "and repeat the experiment, or name its file with `--fio FILE`."]
    lines += [
        f"`fio` reads random blocks of {figures['block_bytes'] >> 10} KiB of a file as large as the data, in the same directory:",
        "`--rw=randread --direct=1 --ioengine=io_uring`, with one read in flight for each client. It runs just before the",
        "readers of the same number, while the server is idle. Both wait for the same disk. The server and the load tester also",
        "spend processor time on gRPC and on the values; `fio` does neither, so it shows what is left to gain at most.",
        "",
        "| in flight | `fio`: reads a second | p50, ms | p99, ms | server: disk reads a second | part of `fio` |",
        "|---|---|---|---|---|---|",
    ]
    for read in figures["reads"]:
        limit = limits.get(read["clients"])
        if limit and read["filters"]:
            disk = read["disk_reads_per_second"]
            lines.append(f"| {read['clients']} | {limit['per_second']:,} | {ms(limit['p50_us'])} | {ms(limit['p99_us'])} |"
                         f" {disk:,} | {disk / limit['per_second']:.2f} |")
    return lines


def ms(micros):
    return f"{micros / 1000:.2f}"
