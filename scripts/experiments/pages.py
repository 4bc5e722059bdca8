"""Pages of the experiments, made from the results that are committed beside them."""

import datetime
import html
import json
import math

STYLE = """
svg { --bg: #ffffff; --text: #1f2328; --soft: #59636e; --line: #d0d7de; --first: #2563eb; --second: #c77d12; }
@media (prefers-color-scheme: dark) {
svg { --bg: #0d1117; --text: #e6edf3; --soft: #9da7b3; --line: #30363d; --first: #4c8dff; --second: #d99a2b; } }
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--text); }
.title { font-size: 14px; font-weight: 600; }
.soft { fill: var(--soft); }
.bg { fill: var(--bg); }
.line { stroke: var(--line); }
.first { fill: var(--first); }
.second { fill: var(--second); }
"""


class Pages:
    """The folder docs/experiments."""

    def __init__(self, root, experiments):
        self.root, self.experiments = root, experiments
        self.folder = root / "docs" / "experiments"

    def keep(self, name, command, machine, figures):
        """Writes the results of a run."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        results = {"experiment": name, "date": today, "command": command, "machine": machine, "figures": figures}
        text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
        (self.folder / f"{name}.json").write_text(text, encoding="utf-8")

    def make(self, check=False, only=None):
        """Writes the pages, or compares them."""
        stale = []
        for name in [only] if only else self.experiments:
            results = self.folder / f"{name}.json"
            if not results.exists():
                continue
            made = self.page(name, json.loads(results.read_text(encoding="utf-8")))
            for path, text in made.items():
                if not check:
                    path.write_text(text, encoding="utf-8")
                elif not path.exists() or path.read_text(encoding="utf-8") != text:
                    stale.append(str(path.relative_to(self.root)))
        if stale:
            raise SystemExit(f"experiment: not what scripts/experiment --pages makes: {', '.join(stale)}")

    def page(self, name, results):
        """Returns the files of a page with their texts."""
        experiment, machine = self.experiments[name], results["machine"]
        body, (_, title, bars) = experiment.page(results["figures"])
        lines = [
            f"# {experiment.TITLE}", "", f"{experiment.CLAIM}", "", *body, "",
            f"![{title}: {', '.join(f'{at} {kind} {value:.2f}' for at, value, kind in bars)}.]({name}.svg)", "",
            f"**Command.** `{results['command']}`, {results['date']}.{size(results['command'])}", "",
            f"**Machine.** {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
            f"{machine['system']}. {noise(machine)}", "",
            *([f"**Remark.** {results['remark']}", ""] if "remark" in results else []),
            f"[All figures]({name}.json)", "",
        ]
        return {
            self.folder / f"{name}.md": "\n".join(lines),
            self.folder / f"{name}.svg": chart(title, bars),
        }


def size(command):
    """Returns what a reader must know of a small run."""
    if "--small" not in command:
        return ""
    return " This is the small run, for machines with two cores and ten minutes. The full run has more data and longer rounds."


def noise(machine):
    """Returns how far other programs disturbed the run."""
    waited = f"Threads that ran or waited for a processor at the end of the run: {machine['load_at_end']}."
    others = machine.get("others_percent")
    if "others" in machine:
        shared = f"The machine was not quiet: {machine['others']} shared it during the run; their part was not measured."
    elif others is None:
        shared = "Other programs, such as builds, may have shared the machine during this run; their part was not measured."
    elif others < 5:
        shared = f"Other programs took {others} % of the processor time during the run."
    else:
        shared = (f"The machine was not quiet: other programs, such as builds, took {others} % of its processor time during"
                  " the run.")
    return f"{shared} {waited} Compare ratios; absolute times belong to this machine and this hour."


def chart(title, bars):
    """Returns bars as SVG: pairs of a name and a value, coloured by kind."""
    kinds = list(dict.fromkeys(kind for _, _, kind in bars))
    left, width, top, step = max(150, 7 * max(len(name) for name, _, _ in bars) + 30), 0, 64, 24
    width = 620 - left
    most = scale_end(max(value for _, value, _ in bars))
    height = top + step * len(bars) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}" role="img">',
        f"<title>{html.escape(title)}</title>", f"<style>{STYLE}</style>",
        f'<rect class="bg" width="720" height="{height}" rx="8"/>',
        f'<text class="title" x="20" y="26">{html.escape(title)}</text>',
    ]
    for number, kind in enumerate(kinds):
        x, colour = left + 110 * number, ("first", "second")[number % 2]
        parts.append(f'<rect class="{colour}" x="{x}" y="38" width="12" height="12" rx="2"/>')
        parts.append(f'<text class="soft" x="{x + 18}" y="48">{html.escape(kind)}</text>')
    for number, (name, value, kind) in enumerate(bars):
        y, colour = top + step * number, ("first", "second")[kinds.index(kind) % 2]
        size = max(width * value / most, 1)
        parts.append(f'<text x="{left - 10}" y="{y + 14}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<rect class="{colour}" x="{left}" y="{y + 2}" width="{size:.1f}" height="16" rx="2"/>')
        parts.append(f'<text class="soft" x="{left + size + 8:.1f}" y="{y + 14}">{value:.2f}</text>')
    bottom = top + step * len(bars)
    parts.append(f'<line class="line" x1="{left}" x2="{left}" y1="{top - 4}" y2="{bottom}"/>')
    return "\n".join([*parts, "</svg>", ""])


def scale_end(most):
    """Returns a round number that is no smaller."""
    if most <= 0:
        return 1
    power = 10 ** math.floor(math.log10(most))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= most)
