"""What was evaluated and what came out: the protocol in words, a table with intervals, and who is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samespot.errors import InputError
from samespot.evaluation.compare import Comparison, Difference, compare
from samespot.evaluation.results import Evaluation, Variant
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import (
    DASHES,
    colours,
    evaluated,
    main_variants,
    rule_of,
)
from samespot.figures.report_sections.markup import (
    Section,
    details,
    esc,
    measured,
    percent,
    remark,
    several,
    table,
)

SHOWN = ("R@1", "R@5", "R@10", "overlap@1", "nDCG@10")
MEANING = {
    "R@k": "share of the queries with a right photo among the first k matches",
    "overlap@1": "mean true overlap ψ of a query with its best match, 0 to 100 %",
    "nDCG@10": "how well the first ten matches are ordered by true overlap; 100 is the best possible order",
    "localised": "share of the queries whose best match lies within the given distance and angle of the query",
    "[low, high]": "95 % interval: another draw of as many queries might well have given any value in it",
    "better, worse": "the 95 % interval of the difference, query by query, does not contain 0",
    "inconclusive": "the interval contains 0, so chance alone can explain the difference",
}
Runs = list[tuple[ReportRun, Evaluation]]


def summary(runs: Sequence[ReportRun]) -> Section | None:
    groups = _groups(evaluated(runs))
    if not groups:
        return None
    shown = colours(runs)
    body = "".join(_group(group, shown, alone=len(groups) == 1) for group in groups)
    return Section("summary", "Summary", body)


def _groups(runs: Runs) -> list[Runs]:
    """Runs of one protocol together: only their numbers can be compared."""
    groups: dict[tuple[str, ...], Runs] = {}
    for run, evaluation in runs:
        groups.setdefault(rule_of(evaluation), []).append((run, evaluation))
    return list(groups.values())


def _group(group: Runs, shown: dict[str, str], alone: bool) -> str:
    evaluation = group[0][1]
    metrics = _metrics(evaluation)
    comparisons = _comparisons(group)
    title = (
        "" if alone else f"<h3>{esc(evaluation.protocol.get('title') or evaluation.protocol['name'])}</h3>"
    )
    return "".join(
        [
            title,
            _headline(group, comparisons, metrics[:1]),
            _protocol(evaluation),
            _cards(group, comparisons, metrics[:1], shown),
            _scores(group, metrics, shown),
            _differences(comparisons, group, metrics),
            _all_sizes(group, metrics, shown),
            details("What the numbers mean", _meaning(metrics)),
        ]
    )


def _metrics(evaluation: Evaluation) -> list[str]:
    """The ones everyone asks for; shares of localised queries where there is no recall."""
    there = evaluation.variant().metrics
    chosen = [name for name in SHOWN if name in there]
    poses = [name for name in there if name.endswith("°")]
    return [*poses, *chosen] if poses else chosen or list(there)[:5]


def _protocol(evaluation: Evaluation) -> str:
    said = evaluation.protocol
    counted = sum(int(case["counted"]) for case in evaluation.cases)
    asked = sum(int(case["queries"]) for case in evaluation.cases)
    photos = sum(int(case["map images"]) for case in evaluation.cases)
    where = f" in {len(evaluation.cases)} maps" if len(evaluation.cases) > 1 else ""
    counts = f"{counted:,} of {asked:,} queries count" if counted < asked else f"{asked:,} queries"
    rows = [
        ("Protocol", f"{esc(said.get('title') or said['name'])} <code>{esc(said['name'])}</code>"),
        ("Queries", f"{counts}: {esc(said.get('queries') or '')}" if said.get("queries") else counts),
        ("Map", f"{photos:,} photos{where}"),
        ("Found means", esc(said.get("positive") or "")),
        ("Never returned", esc(said.get("exclusions") or "")),
    ]
    items = "".join(f"<div><dt>{name}</dt><dd>{words}</dd></div>" for name, words in rows if words)
    return f'<dl class="facts">{items}</dl>'


def _comparisons(group: Runs) -> list[tuple[ReportRun, ReportRun, Variant, Comparison]]:
    """The first run against each other one, for every main kind of descriptor that both have."""
    found = []
    first, mine = group[0]
    for other, theirs in group[1:]:
        for variant in main_variants(mine, _kinds(group)):
            if variant.name not in {one.name for one in theirs.variants}:
                continue
            try:
                made = compare([mine], [theirs], variants=(variant.name, variant.name))
            except InputError:  # other queries: there is nothing to pair
                continue
            found.append((first, other, variant, made))
    return found


def _kinds(group: Runs) -> int:
    """How many descriptors of each run the tables show: of many runs only the one the network gives."""
    return len(DASHES) if len(group) <= 3 else 1


def _as_it_comes(variant: Variant) -> bool:
    return variant.whitening is None and variant.as_found


def _headline(
    group: Runs, comparisons: Sequence[tuple[ReportRun, ReportRun, Variant, Comparison]], metric: list[str]
) -> str:
    """The result in one sentence."""
    if not metric or metric[0] != "R@1":
        return ""
    first, evaluation = group[0]
    score = evaluation.variant().metrics["R@1"]
    if math.isnan(score.value):
        return ""
    told = (
        f"<strong>{esc(first.name)}</strong> ranks a right photo first for"
        f" {percent(score.value)}\u00a0% of {score.n:,} queries"
    )
    plain = [one for one in comparisons if _as_it_comes(one[2])]
    if not plain:
        return f'<p class="headline">{told}.</p>'
    _, other, _, made = plain[0]
    difference = _difference(made, "R@1")
    if difference is None:
        return f'<p class="headline">{told}.</p>'
    apart = difference.difference
    value, low, high = (percent(x, signed=True) for x in (apart.value, apart.low, apart.high))
    points = f"{value} points [{low}, {high}]"
    verdict = (
        f"a difference of {points}."
        if difference.significant
        else f"the difference, {points}, is inconclusive."
    )
    return (
        f'<p class="headline">{told}, <strong>{esc(other.name)}</strong> for'
        f" {percent(difference.second)}\u00a0%: {verdict}</p>"
    )


def _difference(made: Comparison, metric: str) -> Difference | None:
    return next((one for one in made.differences if one.metric == metric), None)


def _cards(
    group: Runs,
    comparisons: Sequence[tuple[ReportRun, ReportRun, Variant, Comparison]],
    metric: list[str],
    shown: dict[str, str],
) -> str:
    """The first metric of each run in large figures; with two runs their difference, too."""
    if not metric or len(group) > 4:
        return ""
    name = metric[0]
    cards = [
        f'<div class="card" style="--swatch:var(--{shown[run.name]})"><span class="card-name">{esc(run.name)}</span>'
        f'{measured(one.variant().metrics.get(name))}<span class="card-unit">{esc(name)}, %</span></div>'
        for run, one in group
    ]
    plain = [made for _, _, variant, made in comparisons if _as_it_comes(variant)]
    if len(group) == 2 and plain and (difference := _difference(plain[0], name)) is not None:
        cards.append(
            f'<div class="card difference"><span class="card-name">difference</span>'
            f"{measured(difference.difference, signed=True)}"
            f'<span class="card-unit">points, {_verdict(difference)}</span></div>'
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _verdict(difference: Difference) -> str:
    """What the interval says of the first run."""
    if not difference.significant:
        return '<span class="verdict open">inconclusive</span>'
    word = "better" if difference.difference.value > 0 else "worse"
    return f'<span class="verdict {word}">{word}</span>'


def _scores(group: Runs, metrics: Sequence[str], shown: dict[str, str]) -> str:
    rows = [
        _row(run, variant, metrics, shown)
        for run, one in group
        for variant in main_variants(one, _kinds(group))
    ]
    head = ["Run and descriptor", *(esc(name) for name in metrics)]
    words = "All values in percent with their 95 % intervals, over the queries that count."
    if _kinds(group) > 1 and any(variant.whitening for _, one in group for variant in one.variants):
        words += " For whitened descriptors, the largest size is shown."
    return table(head, rows, words="Scores of each run and descriptor", kind="scores") + remark(words)


def _row(run: ReportRun, variant: Variant, metrics: Sequence[str], shown: dict[str, str]) -> list[str]:
    name = (
        f'<span class="run" style="--swatch:var(--{shown[run.name]})">{esc(run.name)}</span>'
        f'<span class="variant">{esc(variant.title)}</span>'
    )
    return [name, *(measured(variant.metrics.get(metric)) for metric in metrics)]


def _all_sizes(group: Runs, metrics: Sequence[str], shown: dict[str, str]) -> str:
    if all(len(one.variants) == len(main_variants(one, _kinds(group))) for _, one in group):
        return ""
    rows = [_row(run, variant, metrics, shown) for run, one in group for variant in one.variants]
    head = ["Run and descriptor", *(esc(name) for name in metrics)]
    return details(
        "All descriptors, in every size",
        table(head, rows, words="Scores of all descriptors", kind="scores"),
    )


def _differences(
    comparisons: Sequence[tuple[ReportRun, ReportRun, Variant, Comparison]],
    group: Runs,
    metrics: Sequence[str],
) -> str:
    if not comparisons:
        return ""
    rows = []
    for first, other, variant, made in comparisons:
        name = (
            f'<span class="run plain">{esc(first.name)} − {esc(other.name)}</span>'
            f'<span class="variant">{esc(variant.title)}</span>'
        )
        cells = []
        for metric in metrics:
            one = _difference(made, metric)
            cells.append(
                measured(None) if one is None else f"{measured(one.difference, signed=True)}{_verdict(one)}"
            )
        rows.append([name, *cells])
    others = several([esc(run.name) for run, _ in group[1:]])
    below = remark(
        f"{esc(group[0][0].name)} minus {others}, in percentage points: a paired bootstrap over the same queries."
        " The interval covers the choice of queries, not the randomness of training; for that, compare several"
        " seeds with <code>samespot compare</code>."
    )
    head = ["Difference", *(esc(name) for name in metrics)]
    return (
        "<h3>Which is better?</h3>"
        + table(head, rows, words="Differences of the runs", kind="scores")
        + below
    )


def _meaning(metrics: Sequence[str]) -> str:
    wanted = {
        "R@k": any(name.startswith("R@") for name in metrics),
        "overlap@1": "overlap@1" in metrics,
        "nDCG@10": "nDCG@10" in metrics,
        "localised": any(name.endswith("°") for name in metrics),
    }
    items = "".join(
        f"<div><dt>{esc(name)}</dt><dd>{esc(words)}</dd></div>"
        for name, words in MEANING.items()
        if wanted.get(name, True)
    )
    return f'<dl class="facts">{items}</dl>'
