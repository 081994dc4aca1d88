"""Score files: the triples of a task written for any language, and the scores that it returns, checked row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtbench.data import graphs
from mtbench.data.splits import Split, unique
from mtbench.errors import ScoreError, nearest
from mtbench.evaluation.cautions import Caution
from mtbench.files import formats
from mtbench.names import COLUMNS, DIRECTIONS, RELATION, BoolArray, Direction, IntArray, ScoreArray
from mtbench.ranking.scorers import SHOWN, accept

SCORE, DIRECTION = "score", "direction"
ID_COLUMNS = ("head_id", "relation_id", "tail_id")
TASK, CONTENT, CANDIDATES = "mtbench.task", "mtbench.content_sha256", "mtbench.candidates_sha256"
"""Metadata of a written file: the task's name, and the hashes of the split and the candidates it was drawn from."""

KEEP, AS_TEXT = "keep_default_na=False", "frame.astype({'head': str, 'tail': str}) or read_csv(FILE, dtype=str)"
"""What to type in pandas for names that it would take for something else."""

ROW = "row"
"""A column beside those of a file: which row of it each one is, from 0."""

NOTHING = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Texts that pandas reads as an empty cell, unless it is told not to."""

SEARCHED = 10_000
"""Vocabularies larger than this are not searched for the nearest name, which takes seconds."""

Kind: TypeAlias = Literal["ids", "names"]


@dataclass(frozen=True, eq=False)
class Questions:
    """The distinct triples ``(k, 3)`` of a task, sorted; its name, its split and its candidates' hash.

    ``rows`` are those that each direction asks for; ``direction`` is set where these are the triples of one alone.
    """

    name: str
    split: Split
    triples: IntArray
    candidates_sha256: str
    rows: Mapping[Direction, IntArray]
    direction: str = ""

    @property
    def where(self) -> str:
        """Dataset and split, as messages begin."""
        return f"{self.split.dataset} {self.split.name}" + (f", direction {self.direction}" if self.direction else "")

    def of(self, direction: Direction) -> Questions:
        """Return what a direction asks for."""
        return replace(self, triples=self.triples[self.rows[direction]], direction=direction)

    def shown(self, rows: IntArray) -> str:
        """Return the first few of the triples in ``rows`` by name, and how many more there are."""
        names = "; ".join(f"({', '.join(name)})" for name in self.split.named(self.triples[rows[:SHOWN]]))
        return names + (f"; and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")

    def write(self, path: Path, *, by_direction: bool = False, force: bool = False) -> Path:
        """Write the triples, a row each, by name and by id, and return the file.

        The columns are head, relation, tail (names) and head_id, relation_id, tail_id (int64); add a column
        score and pass the file to ``evaluate_file``. With ``by_direction`` a column direction says whether the tail
        or the head is asked for, and a triple that both ask for has two rows. Parquet and Arrow files carry the
        task's name and the hashes of its split and candidates as metadata. Errors are those of
        `mtbench.files.formats.write`.
        """
        rows = np.concatenate(list(self.rows.values())) if by_direction else np.arange(len(self.triples))
        triples = self.triples[rows]
        columns = {
            name: known.take(pa.array(triples[:, column]))
            for column, (name, known) in enumerate(zip(COLUMNS, _vocabularies(self.split), strict=True))
        }
        columns |= {name: pa.array(triples[:, column]) for column, name in enumerate(ID_COLUMNS)}
        if by_direction:
            directions = np.repeat(list(self.rows), list(map(len, self.rows.values())))
            columns[DIRECTION] = pa.array(directions.tolist(), pa.string())
        about = {TASK: self.name} | _hashes(self)
        formats.write(path, pa.table(columns).replace_schema_metadata(about), force=force)
        return path

    def read(self, path: Path) -> tuple[ScoreArray | Mapping[Direction, ScoreArray], tuple[Caution, ...]]:
        """Read scores from a file with the columns head, relation, tail and score, rows in any order.

        They are returned aligned with the triples, ``(k,)``, or, where a column direction (tail or head) says what was
        asked, with the triples of each direction; beside them, cautions about rows that were ignored.

        Triples are by id where the first three columns are integers and by name where they are text. In CSV
        and TSV, which know no types, they are by id where every cell is a whole number, unless a relation of
        the dataset has a number for a name. Rows the task does not ask for are ignored and noted. Raises
        `ScoreError` that names the file for everything else, and `UsageError` where there is none.
        """
        try:
            stored = formats.read(path, COLUMNS, SCORE, DIRECTION)
            text, metadata = stored.text, stored.metadata
            table = stored.table.append_column(ROW, pa.array(np.arange(len(stored.table))))
            for key, expected in _hashes(self).items():
                written = metadata.get(key)
                if written is not None and written != expected:
                    what = "for another version of the dataset" if key == CONTENT else "with other candidates"
                    raise ScoreError(
                        f"was written {what}, task {metadata.get(TASK, 'of an unknown name')} "
                        f"({key} {written[:12]}), not for {self.name} ({expected[:12]}): score the triples of this "
                        f"task (mtbench score --template FILE --task {self.name})"
                    )
            if DIRECTION not in table.column_names:
                scores, note = _undirected(table, self, text=text)
                return scores, (Caution("ignored", note),) if note else ()
            asked = table.column(DIRECTION).to_pylist()
            if wrong := set(asked) - set(DIRECTIONS):
                first = next(row for row, way in enumerate(asked) if way in wrong)
                raise ScoreError(
                    f"{self.where}: column direction must be tail or head in every row, not "
                    f"{', '.join(sorted(map(repr, wrong)))}, first in row {first}"
                )
            directed: dict[Direction, ScoreArray] = {}
            notes: dict[str, None] = {}
            # A direction is read like a file of its own, so that its errors count its rows and name it.
            for direction in self.rows:
                own = table.filter(pa.array([row == direction for row in asked], pa.bool_()))
                directed[direction], note = _undirected(own, self.of(direction), text=text)
                notes |= {note: None} if note else {}
            if extra := sum(row not in self.rows for row in asked):
                notes[f"rows of a direction the task does not ask for were ignored: {extra} of {len(asked)}"] = None
            return directed, tuple(Caution("ignored", note) for note in notes)
        except ScoreError as error:
            raise ScoreError(f"{path}: {error}") from error


def _hashes(asked: Questions) -> dict[str, str]:
    return {CONTENT: asked.split.content_sha256, CANDIDATES: asked.candidates_sha256}


def _undirected(table: pa.Table, asked: Questions, *, text: bool) -> tuple[ScoreArray, str]:
    """Return the scores aligned with the triples, and a sentence on the rows that were ignored, if any."""
    where, split, triples = asked.where, asked.split, asked.triples
    places = table.column(ROW).to_numpy()
    ids, values, empty = _ids(table, split, where, text), *_numbers(table.column(SCORE), where)
    keys, expected = (graphs.keys(split, part) for part in (ids, triples))
    # The triples are sorted, so their keys are; the search also gives a place to triples that nobody asks for.
    rows = np.searchsorted(expected, keys)
    wanted = expected[np.minimum(rows, len(expected) - 1)] == keys
    rows, values, empty, places = rows[wanted], values[wanted], empty[wanted], places[wanted]
    extra = len(keys) - len(rows)
    if problems := [*_missing(rows, extra, asked), *_repeated(rows, values, places, asked)]:
        hint = _of_numbers(split) if pa.types.is_integer(table.column(COLUMNS[0]).type) else ""
        raise ScoreError(f"{where}: {' '.join(problems)}{hint}")
    if empty.any():
        raise ScoreError(
            f"{where}: {int(empty.sum())} of {len(rows)} scores are empty (null or NaN), first in row "
            f"{places[empty].min()}: {asked.shown(np.sort(rows[empty]))}. Such a score has no rank"
        )
    aligned = np.empty(len(triples), dtype=values.dtype)
    aligned[rows] = values  # fills all: rows are as many as the triples, each once
    accepted, _ = accept(aligned, triples, split, len(triples))
    note = f"rows that score triples the task does not ask for were ignored: {extra} of {len(keys)}"
    return accepted, note if extra else ""


def _missing(rows: IntArray, extra: int, asked: Questions) -> Iterator[str]:
    missing = np.bincount(rows, minlength=len(asked.triples)) == 0
    if missing.any():
        foreign = f" {extra} rows score triples the task does not ask for: is it another task's file?" if extra else ""
        yield (
            f"{int(missing.sum())} of {len(asked.triples)} triples have no score: "
            f"{asked.shown(np.flatnonzero(missing))}. Score every one of task.triples, which "
            f"mtbench score --template FILE writes to a file.{foreign}"
        )


def _repeated(rows: IntArray, values: ScoreArray, places: IntArray, asked: Questions) -> Iterator[str]:
    if len(unique(rows)) == len(rows):
        return
    order = np.argsort(rows, kind="stable")
    rows, values, places = rows[order], values[order], places[order]
    again = rows[1:] == rows[:-1]
    # Shown first are triples with different scores, which say most about what went wrong.
    repeated, differing = unique(rows[1:][again]), unique(rows[1:][again & (values[1:] != values[:-1])])
    first = np.concatenate((differing, np.setdiff1d(repeated, differing)))[:SHOWN]
    shown = "; ".join(
        f"({', '.join(name)}) scored {' and '.join(map(str, values[rows == row][:SHOWN].tolist()))} in rows "
        f"{' and '.join(map(str, places[rows == row][:SHOWN].tolist()))}"
        for row, name in zip(first.tolist(), asked.split.named(asked.triples[first]), strict=True)
    )
    rest = f"; and {len(repeated) - len(first)} more" if len(repeated) > len(first) else ""
    yield (
        f"{len(repeated)} triples are scored more than once, {len(differing)} of them with different scores: "
        f"{shown}{rest}. Keep one row per triple: repeats, equal ones too, are the mark of files joined by mistake."
    )


def _numbers(column: pa.ChunkedArray, where: str) -> tuple[ScoreArray, BoolArray]:
    """Return the scores and which of them are empty."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ScoreError(f"{where}: column score has the type {column.type}, expected integers or floats")
    empty = column.is_null().to_numpy()
    # Integers with gaps would become float64, which rounds those beyond 2**53; the 0 is refused before it counts.
    filled = pc.fill_null(column, 0) if empty.any() and pa.types.is_integer(column.type) else column
    return filled.to_numpy(), empty


def _ids(table: pa.Table, split: Split, where: str, text: bool) -> IntArray:
    columns = [table.column(name) for name in COLUMNS]
    places, vocabularies = table.column(ROW).to_numpy(), _vocabularies(split)
    for name, column, known in zip(COLUMNS, columns, vocabularies, strict=True):
        empty = column.is_null().to_numpy()
        if pa.types.is_string(column.type) and "" not in known.to_pylist():
            empty = empty | pc.fill_null(pc.equal(column, ""), False).to_numpy()
        if empty.any():
            meant = sorted(NOTHING & set(known.to_pylist()))
            hint = (
                f"; pandas reads {meant[0]!r}, which is a name here, as empty: read_csv(FILE, {KEEP})" if meant else ""
            )
            raise ScoreError(
                f"{where}: column {name} has {int(empty.sum())} empty cells, first at row {places[empty][0]}{hint}"
            )
    kinds = [_kind(column.type, name, where) for name, column in zip(COLUMNS, columns, strict=True)]
    # In a text file 7 may be an id or a name; if a relation is called 7, only names are certain.
    if text and not any(name.isdecimal() for name in split.relations.tolist()) and all(map(_decimal, columns)):
        kinds = ["ids"] * 3
    if len(set(kinds)) > 1:
        types = ", ".join(f"{name} {column.type}" for name, column in zip(COLUMNS, columns, strict=True))
        raise ScoreError(
            f"{where}: ids and names are mixed ({types}); give all three columns as integers or as text"
            f"{_of_numbers(split)}"
        )
    if kinds[0] == "ids":
        limits = [len(known) for known in vocabularies]
        parts = [
            _checked(*part, places, where, _of_numbers(split)) for part in zip(COLUMNS, columns, limits, strict=True)
        ]
        return np.stack(parts, axis=1)
    numbers = [
        pc.index_in(_plain(column), value_set=known) for column, known in zip(columns, vocabularies, strict=True)
    ]
    unknown = [
        _unknown(name, _plain(column).filter(ids.is_null()), known, places[ids.is_null().to_numpy()])
        for name, column, ids, known in zip(COLUMNS, columns, numbers, vocabularies, strict=True)
        if ids.null_count
    ]
    if unknown:
        raise ScoreError(f"{where}: {'; '.join(unknown)}. Names are those of {where}, spelt as in task.triples")
    return np.stack([ids.to_numpy().astype(np.int64) for ids in numbers], axis=1)


def _of_numbers(split: Split) -> str:
    """Return what to do where integers may have been meant as names, empty where no entity has a number for a name."""
    number = next((name for name in split.entities.tolist() if name.isdecimal()), None)
    if number is None:
        return ""
    return f"; {number!r} is a name here: integers that are names have to be text, {AS_TEXT}"


def _vocabularies(split: Split) -> tuple[pa.StringArray, pa.StringArray, pa.StringArray]:
    entities = pa.array(split.entities.tolist(), pa.string())
    relations = pa.array([split.relation_name(relation) for relation in range(split.relation_slots)], pa.string())
    return entities, relations, entities


def _kind(column_type: pa.DataType, name: str, where: str) -> Kind:
    inner = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    if pa.types.is_integer(column_type):
        return "ids"
    if pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner):
        return "names"
    raise ScoreError(f"{where}: column {name} has the type {column_type}, expected names (text) or ids (integers)")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # index_in needs the very type of its value set; R and polars write dictionaries and large strings.
    inner = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(inner).cast(pa.string())


def _decimal(column: pa.ChunkedArray) -> bool:
    return bool(len(column)) and bool(pc.all(pc.match_substring_regex(column, "^[0-9]{1,18}$")).as_py())


def _checked(name: str, column: pa.ChunkedArray, limit: int, places: IntArray, where: str, hint: str) -> IntArray:
    try:
        ids: IntArray = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise ScoreError(f"{where}: column {name} has ids beyond int64 ({error}){hint}") from error
    wrong = (ids < 0) | (ids >= limit)
    if wrong.any():
        inverse = "; inverse relations are not scored" if name == COLUMNS[RELATION] else ""
        raise ScoreError(
            f"{where}: {int(wrong.sum())} rows have a {name} id outside 0 to {limit - 1}, first at row "
            f"{places[wrong][0]}: {ids[wrong][0]}{inverse}{hint}"
        )
    return ids


def _unknown(name: str, cells: pa.ChunkedArray, known: pa.StringArray, places: IntArray) -> str:
    names = pc.unique(cells).to_pylist()
    near = nearest(names[0], known.to_pylist()) if len(known) <= SEARCHED else []
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    shown = f"{names[0]!r}{hint}" + "".join(f", {unknown!r}" for unknown in names[1:SHOWN])
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    where = f"{len(names)} in {len(cells)} of its rows, first in row {places[0]}"
    return f"column {name} has unknown names ({where}): {shown}{rest}"
