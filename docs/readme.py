"""Draw the pictures of three pages and fill in the tables of `deviations.md`: ``python docs/readme.py``; tests compare.

The README's is the first of the leaderboard's first page, that of `foundation-models.md` has the means of its groups,
the tables are what ``mtbench leaderboard render --format deviations`` prints.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import fmean

from leaderboard.board import deviations, ranking, reported
from leaderboard.board.board import PESSIMISTIC, Board, Figure
from leaderboard.board.groups import FIELD, SUITE, Member, group_board
from leaderboard.board.tables import short
from leaderboard.entries import checks
from leaderboard.site import front, groups, pictures
from leaderboard.site.facts import Data

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "deviations.md"
PICTURE = ROOT / "docs" / "pictures" / "board.svg"
SEEN = ROOT / "docs" / "pictures" / "replication.svg"
MODELS = ROOT / "docs" / "pictures" / "foundation-models.svg"
ENTRIES = ROOT / "leaderboard" / "results"
MEASURED = ("ultra-3g", "motif", "kg-icl-6l", "trix")


@cache
def board() -> Board:
    """Return the leaderboard."""
    return ranking.rank(*checks.gather(ENTRIES))


def picture() -> str:
    """Return the best trained model of each dataset against the best heuristic baseline, as SVG."""
    return pictures.alone(*front.drawing(board()))


def seen() -> str:
    """Return ISDEA by the paper's text and as run, no training, and the paper's figure on every dataset, as SVG."""
    figures = deviations.pictured(board().entries, deviations.replication(ENTRIES), "isdea")
    rows = [pictures.Row(short(dataset), means) for dataset, means in figures.items()]
    said = "; ".join(
        f"{row.label}: {', '.join(f'{mean.mean:.3f}' if mean else 'not run' for mean in row.means)}" for row in rows
    )
    drawn = pictures.draw_panels({"ISDEA, dual MRR in the setting of its row": rows}, deviations.SHOWN, height=36)
    return pictures.alone(drawn, f"Dual MRR of ISDEA: {', '.join(deviations.SHOWN)}. {said}.")


def models() -> str:
    """Return the means of the field's foundation models over its groups, ours and published, and by half-link, as SVG.

    Every tie counts against the true triple, but in the strata, where ties are averaged.
    """
    by_group = [[_members(group)[model] for model in MEASURED] for group in FIELD[:2]]
    data = Data()
    strata = [groups.by_half_link(member, data) or {} for member in by_group[0]]
    means = [pictures.Row(*row) for members in by_group for row in _means(members)]
    rows = [
        pictures.Row(label, [Figure(of_model[key]) for of_model in strata]) for key, (label, _) in groups.STRATA.items()
    ]
    panels = {"Mean MRR": means, f"MRR by the halves of the triple seen, {len(by_group[0][0].graphs)} graphs": rows}
    drawn = pictures.draw_panels(panels, [member.entry.card.name for member in by_group[0]])
    for axes in drawn.axes:
        axes.set_xlim(0, 0.65)
    said = "; ".join(
        f"{row.label}: {', '.join(f'{mean.mean:.3f}' for mean in row.means if mean)}" for row in (*means, *rows)
    )
    return pictures.alone(drawn, f"Full ranking, MRR of {', '.join(m.entry.card.name for m in by_group[0])}. {said}.")


def _members(group: str) -> dict[str, Member]:
    return {member.entry.card.model: member for member in group_board(board(), SUITE, group).members}


def _means(members: list[Member]) -> list[tuple[str, list[Figure]]]:
    graphs = members[0].graphs
    printed = [reported.elsewhere()[member.entry.card.model].figures for member in members]
    ours = [Figure(member.mean(view=PESSIMISTIC).mean) for member in members]
    theirs = [Figure(fmean(figures[graph][0] for graph in graphs)) for figures in printed]
    return [(f"{len(graphs)} graphs, ours", ours), (f"{len(graphs)} graphs, published", theirs)]


def filled(text: str) -> str:
    """Return the page with every figure of the paper beside ours."""
    before, mark, rest = text.partition("<!-- deviations -->")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{mark}\n\n{deviations.markdown(board().entries, deviations.replication(ENTRIES))}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
    SEEN.write_text(seen(), encoding="utf-8")
    MODELS.write_text(models(), encoding="utf-8")
