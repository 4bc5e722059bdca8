"""A server on a directory of its own, loads on it, and figures of what they cost it."""

import contextlib
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# Seconds until a server must be ready, and until it must have ended.
READY, END = 120, 60
# A sample of a metric: name, labels, value.
SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$", re.M)


class Lab:
    """Runs servers and loads. Its directory is removed at the end."""

    def __init__(self, root, stele, bench, directory, fio=None):
        self.root, self.bench = root, bench
        self.stele = pathlib.Path(stele) if stele else build(root, "stele")
        self.fio_program = fio or shutil.which("fio")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="stele-experiment-", dir=directory))
        self.begin = self.mark()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def server(self, data, **settings):
        """Runs a server on the data set `data` with settings such as `cache_bytes_max="16MiB"`."""
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        command = [self.stele, "serve", f"--data-dir={self.directory / data}",
                   "--bigtable-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--sql-listen=off", *flags]
        log = open(self.directory / f"{data}.log", "w+", encoding="utf-8")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Server(self, process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
            log.close()

    def benchmark(self, *arguments):
        """Runs a benchmark of the engine, which is built first. Returns what it prints."""
        self.bench = self.bench or build(self.root, "bench")
        print("$ bench " + " ".join(arguments), file=sys.stderr)
        environment = {**os.environ, "TMPDIR": str(self.directory)}
        ended = subprocess.run([self.bench, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        if ended.returncode != 0:
            raise SystemExit(f"experiment: the benchmark failed: {ended.stdout[-2000:]}")
        return ended.stdout

    def copy(self, data, to):
        """Copies the data set `data` of a stopped server."""
        shutil.rmtree(self.directory / to, ignore_errors=True)
        shutil.copytree(self.directory / data, self.directory / to)

    def fio(self, size, block, depth, seconds):
        """Runs fio with random direct reads on the disk of the data: `depth` reads of `block` bytes at a time, of a
        file of `size` bytes. Returns reads a second and latencies, or None where there is no fio."""
        if self.fio_program is None:
            return None
        options = ["--name=limit", f"--filename={self.directory / 'fio-data'}", "--rw=randread", "--direct=1",
                   "--ioengine=io_uring", f"--bs={block}", f"--iodepth={depth}", f"--size={size}",
                   f"--runtime={seconds}", "--time_based", "--randrepeat=0", "--norandommap",
                   "--output-format=json"]
        print("$ fio " + " ".join(options), file=sys.stderr)
        ended = subprocess.run([self.fio_program, *options], stdout=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            raise SystemExit(f"experiment: fio failed: {ended.stdout[-2000:]}")
        # Notes may stand before the object.
        read = json.loads(ended.stdout[ended.stdout.index("{"):])["jobs"][0]["read"]
        micros = {name: round(read["clat_ns"]["percentile"][rank] / 1000)
                  for name, rank in (("p50_us", "50.000000"), ("p99_us", "99.000000"))}
        return {"per_second": round(read["iops"]), **micros}

    def mark(self):
        """Returns a moment for `others`; no program of the lab may run in it, but servers."""
        return busy_seconds(), own_seconds(), time.monotonic()

    def others(self, since=None, servers=0.0):
        """Returns the part of the machine's processor time that other programs took since a moment, or since the lab
        began. `servers` is the processor time of servers that still run."""
        busy, own, begin = since or self.begin
        there = (time.monotonic() - begin) * (os.cpu_count() or 1)
        taken = (busy_seconds() - busy) - (own_seconds() - own) - servers
        return max(0.0, min(taken / there, 1.0))

    def machine(self):
        """Says which machine this is, without its name."""
        model = platform.machine()
        with contextlib.suppress(OSError):
            text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
            found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
            model = found.group(1).strip() if found else model
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
        load = os.getloadavg()[0]
        return {"processor": model, "cores": os.cpu_count(), "memory_gib": round(memory, 1),
                "system": platform.system() + " " + platform.release(), "load_at_end": round(load, 1),
                "others_percent": round(100 * self.others())}


class Server:
    """A server that is ready."""

    def __init__(self, lab, process, log):
        self.lab, self.process, self.log = lab, process, log
        self.bigtable = self.http = None
        until = time.monotonic() + READY
        while self.http is None:
            line = process.stdout.readline()
            if not line or time.monotonic() > until:
                log.seek(0)
                raise SystemExit(f"experiment: the server did not start: {log.read()[-2000:]}")
            words = line.split()
            if words[:1] == ["Bigtable"]:
                self.bigtable = words[1]
            if words[:1] == ["HTTP"]:
                self.http = words[1].rstrip("/")

    def metrics(self):
        """Returns the sums of all samples by name."""
        with urllib.request.urlopen(self.http + "/metrics", timeout=30) as answer:
            text = answer.read().decode()
        sums = {}
        for name, _, value in SAMPLE.findall(text):
            sums[name] = sums.get(name, 0) + float(value)
        return sums

    def cpu_seconds(self):
        """Returns the processor time of the server so far."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def disk_bytes(self):
        """Returns the bytes that the kernel has read from the disk for the server."""
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{self.process.pid}/io").read_text(encoding="utf-8")
            return int(re.search(r"^read_bytes: (\d+)$", text, re.M).group(1))
        return 0

    def load(self, *arguments):
        """Runs a load to its end. Returns its report, and what it cost the server."""
        report = self.lab.directory / "report.json"
        command = [self.lab.stele, "load", *arguments, f"--endpoint={self.bigtable}", "--quiet",
                   f"--json={report}"]
        before, cpu, disk, mark = self.metrics(), self.cpu_seconds(), self.disk_bytes(), self.lab.mark()
        print("$ stele load " + " ".join(arguments), file=sys.stderr)
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            raise SystemExit(f"experiment: the load failed: {ended.stderr[-2000:]}")
        after = self.metrics()
        changes = {name: value - before.get(name, 0) for name, value in after.items()}
        changes["disk_bytes"] = self.disk_bytes() - disk
        cpu = self.cpu_seconds() - cpu
        changes["others"] = self.lab.others(mark, cpu)
        return json.loads(report.read_text(encoding="utf-8")), changes, cpu

    def rest(self):
        """Waits until nothing is left to flush or compact."""
        quiet = 0
        while quiet < 3:
            time.sleep(1)
            before = self.metrics().get("stele_compacted_bytes_total", 0)
            time.sleep(1)
            quiet = quiet + 1 if self.metrics().get("stele_compacted_bytes_total", 0) == before else 0


def busy_seconds():
    """Returns the time that the machine's processors have worked so far, in seconds of one of them."""
    with contextlib.suppress(OSError):
        fields = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()
        # user, nice, system, interrupts and soft interrupts; idle and waiting for the disk are left out.
        return sum(int(fields[at]) for at in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def own_seconds():
    """Returns the processor time of this process and of the programs that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def build(root, program):
    """Builds a program; returns its binary."""
    subprocess.run(["cargo", "build", "--release", "-p", program], cwd=root, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", root / "target")
    return pathlib.Path(target) / "release" / program
