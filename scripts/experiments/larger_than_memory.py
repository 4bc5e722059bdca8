"""Data twenty times as large as the cache: disk reads of a get, and latency by number of clients."""

CLAIM = "With data 20 times the cache, a read of a row takes about one read from disk (published: 0.85)."
TITLE = "Data much larger than memory"
VALUE = 1_000


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
    reads = []
    for off in ("", "filters"):
        extra = {"read_path_off": off} if off else {}
        with lab.server("rows", **settings, **extra) as server:
            for clients in (1, 10, 50, 150) if not off else (50,):
                report, changes, cpu = server.load(
                    "key-value", *keys, "--read-only", f"--num-threads-read={clients}", "--warm-up=3s",
                    f"--duration={seconds}s")
                read = summary(report, "read", changes, cpu)
                reads.append({"clients": clients, "filters": not off, **read})
    return {"rows": rows, "cache_mib": cache_mib, "seconds": seconds, "write": write, "reads": reads}


def summary(report, kind, changes, cpu):
    """Returns the figures of a load."""
    found = report["operations"][kind]
    points = changes.get("stele_point_reads_total", 0)
    disk = changes.get("stele_point_disk_reads_total", 0)
    return {
        "per_second": round(found["per_second"]), "p50_us": found["latency_us"]["p50"],
        "p99_us": found["latency_us"]["p99"], "errors": sum(found["errors"].values()),
        "disk_reads_a_get": round(disk / points, 3) if points else None,
        "kib_a_disk_read": round(changes.get("stele_point_disk_bytes_total", 0) / disk / 1024, 1) if disk else None,
        "verified": report["verification"]["values"], "wrong": report["verification"]["wrong"],
        "limit": [process["limit"] for process in report["processes"]],
        "server_cpu_seconds": round(cpu, 1),
    }


def page(figures):
    write, reads = figures["write"], figures["reads"]
    lines = [
        f"{figures['rows']:,} rows of a value of {VALUE:,} bytes, 20 times the block cache of {figures['cache_mib']} MiB.",
        "Files are read past the page cache (`--direct-reads`). 200 writers insert the rows, compactions come",
        f"to rest, and readers read random rows, {figures['seconds']} s for each number of clients. Every value is",
        "verified. Client and server share the machine.",
        "",
        f"**Writes**: {write['per_second']:,} rows a second, p50 {ms(write['p50_us'])} ms, p99 {ms(write['p99_us'])} ms.",
        "",
        "| clients | filters | reads a second | p50, ms | p99, ms | disk reads a get | KiB a disk read |",
        "|---|---|---|---|---|---|---|",
    ]
    for read in reads:
        state = "on" if read["filters"] else "off"
        lines.append(
            f"| {read['clients']} | {state} | {read['per_second']:,} | {ms(read['p50_us'])} | {ms(read['p99_us'])} |"
            f" {read['disk_reads_a_get']:.2f} | {read['kib_a_disk_read']} |")
    checked = sum(read["verified"] for read in reads)
    wrong = sum(sum(read["wrong"].values()) for read in reads)
    failed = sum(read["errors"] for read in reads)
    lines += ["", f"{checked:,} values were read and compared: {wrong} wrong, {failed} failed reads."]
    points = [(f"{read['clients']}", read["p99_us"] / 1000, "p99") for read in reads if read["filters"]]
    points += [(f"{read['clients']}", read["p50_us"] / 1000, "p50") for read in reads if read["filters"]]
    return lines, ("bars", "Latency of a read by number of clients, ms", sorted(points, key=lambda at: int(at[0])))


def ms(micros):
    return f"{micros / 1000:.2f}"
