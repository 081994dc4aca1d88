"""Files of named triples in whatever form they come: the one reader, which says what it read or which line is wrong.

Every form of text ends in `Form.names`, which reads one line, and `problem`, which says what a name may not be. What is
plain is parsed by the block instead; whatever looks odd in a block is read line by line.
"""

from __future__ import annotations

import re
import tarfile
import unicodedata
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from mtbench.errors import DatasetError, UsageError, shown
from mtbench.files.reading import irregular
from mtbench.names import COLUMNS

BLOCK_BYTES = 1 << 19
"""Large enough to make the cost of a call vanish, small enough that its temporaries stay in the processor's cache."""

LONGEST_LINE = 1 << 20
"""Bytes: three names of a triple are far shorter, and a longer line would be copied again and again."""

ROWS_PER_BATCH = 1 << 15
MOST_ROWS = 100_000_000
"""Of a Parquet file, whose few bytes may stand for any number of rows: five times the largest dump there is."""

LARGE, LARGE_NAME = 1 << 26, 1 << 12
"""Bytes of a Parquet column that are no concern, and of a name on average where there are more."""

FORMS = (
    "a text file of head TAB relation TAB tail, plain or .gz, a .csv file, N-Triples, a .tar.gz of train/valid/test "
    "files, or a .parquet file"
)
ARCHIVES = (".tar.gz", ".tgz", ".tar")
WORDS: Mapping[str, str] = {
    word: column
    for column, words in {
        "head": "head h subject subj s source src from head_entity entity1",
        "relation": "relation r rel predicate pred p property edge type relation_type edge_type",
        "tail": "tail t object obj o target tgt destination dst to tail_entity entity2",
    }.items()
    for word in words.split()
}
"""What the columns of a triple are called in headings."""

BOM = "\ufeff".encode()
Spelling: TypeAlias = Literal["tabs", "commas", "N-Triples", "ids"]
SPELLINGS: Mapping[Spelling, str] = {
    "tabs": "head TAB relation TAB tail",
    "commas": "head,relation,tail",
    "N-Triples": "<head> <relation> <tail> .",
    "ids": "three ids",
}
_NTRIPLE = re.compile(
    rb"[ \t]*(<[^>]*>|_:\S+)[ \t]+(<[^>]*>)[ \t]+"
    rb'(<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:@[\w-]+|\^\^<[^>]*>)?)[ \t]*\.[ \t]*(?:#.*)?'
)
_ESCAPED = re.compile(rb"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_CELL = re.compile(rb' *(?:"((?:[^"]++|"")*+)" *(?=,|\Z)|([^,]*))')
_QUOTED = re.compile(rb'(?:(?:"(?:[^"\n]++|"")*+"|(?! )[^",\n]*+)[,\n])*+')
"""Lines whose cells are quoted whole or hold no quote, and begin with no space: what Arrow reads as `_CELL` does."""

_ODD = re.compile(  # controls, turns and breaks of lines; and spaces where a name begins, which may be all of it
    rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
    rb"|(?:^|[\t,\"])(?:\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80)",
    re.MULTILINE,
)
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Readable(Protocol):
    """Anything bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes: ...


def problem(name: str) -> str:
    """Return what forbids a name, empty for one that may be: it must be seen, on one line, as it is written."""
    if not name or name.isspace():
        return "an empty name" if not name else "a name of spaces alone"
    if name.isascii() and name.isprintable():
        return ""
    for sign in name:
        if sign in _TURNING or unicodedata.category(sign) in ("Cc", "Zl", "Zp"):
            what = "turns the direction of text" if sign in _TURNING else "is a control character"
            return f"a name with U+{ord(sign):04X}, which {what}"
    return ""


def places_of(words: Sequence[str]) -> tuple[int, int, int] | None:
    """Return where head, relation and tail stand under a heading, None for what is none.

    A heading has one word for each of the three (`WORDS`), in any case; beside them it may name further columns.
    """
    plain = [word.strip(' "').casefold() for word in words]
    roles: list[str | None] = list(plain) if set(COLUMNS) <= set(plain) else [WORDS.get(word) for word in plain]
    if any(roles.count(column) != 1 for column in COLUMNS):
        return None
    head, relation, tail = map(roles.index, COLUMNS)
    return head, relation, tail


def order_of(columns: Sequence[str]) -> tuple[int, int, int]:
    """Return where head, relation and tail stand among three columns; raises `UsageError` for other columns."""
    if sorted(columns) != sorted(COLUMNS):
        raise UsageError(f"columns are {', '.join(COLUMNS)} in some order, as in head,tail,relation, not {columns}")
    head, relation, tail = map(list(columns).index, COLUMNS)
    return head, relation, tail


@dataclass(frozen=True)
class Form:
    """How a line of text is read: how it is spelled, how many columns it has, and where head, relation and tail stand.

    ``vocabularies`` are the names of entities and relations where lines are ``ids``.
    """

    spelling: Spelling = "tabs"
    width: int = 3
    columns: tuple[int, int, int] = (0, 1, 2)
    vocabularies: tuple[pa.Array, pa.Array] = field(default=(), compare=False)  # type: ignore[assignment]

    def names(self, line: bytes) -> list[bytes] | None:
        """Return head, relation and tail of a line, None for a line of another form."""
        if self.spelling == "commas":
            fields = _cells(line)
        elif self.spelling == "N-Triples":
            triple = _NTRIPLE.fullmatch(line)
            fields = [] if triple is None else [_term(term) for term in triple.groups()]
        else:
            fields = line.split(b"\t") if self.spelling == "tabs" else line.split()
        if len(fields) != self.width:
            return None
        names = [fields[column] for column in self.columns]
        if self.spelling == "ids":
            entities, relations = self.vocabularies
            known = zip(names, (entities, relations, entities), strict=True)
            if not all(name.isdigit() and int(name) < len(words) for name, words in known):
                return None
            return [words[int(name)].as_py().encode() for name, words in known]
        return names

    def table(self, data: bytes) -> pa.Table | None:
        """Return lines as three columns of text, None where they have to be read one by one."""
        if self.spelling == "ids":
            return self._of_ids(data)
        if self.spelling == "N-Triples":
            return None
        quoted = self.spelling == "commas" and b'"' in data
        if quoted and (b'" ' in data or _QUOTED.fullmatch(data) is None):
            return None
        if self.spelling == "commas" and not quoted:
            while b", " in data:
                data = data.replace(b", ", b",")
        table = parse(data, pa.string(), self.width, "\t" if self.spelling == "tabs" else ",", quoted=quoted)
        if table is None:
            return None
        table = table.select(self.columns).rename_columns(list(COLUMNS))
        # A tab is no control where it stands between names.
        tabs = (self.width - 1) * len(table) if self.spelling == "tabs" else 0
        return None if _is_odd(table, data, controls=len(table) + tabs) else table

    def _of_ids(self, data: bytes) -> pa.Table | None:
        ids = parse(data.replace(b" ", b"\t"), pa.int64(), self.width, "\t")
        if ids is None or len(ids) != data.count(b"\n"):
            return None
        entities, relations = self.vocabularies
        words = dict(zip(COLUMNS, (entities, relations, entities), strict=True))
        columns = dict(zip(COLUMNS, ids.select(self.columns).columns, strict=True))
        for name, column in columns.items():
            if pc.min(column).as_py() < 0 or pc.max(column).as_py() >= len(words[name]):
                return None
        return pa.table({name: words[name].take(column) for name, column in columns.items()})


def _instead(text: str, spelling: Spelling) -> str:
    """Return what to do where a line would be three names if another sign stood between them, empty where not."""
    advice = {"\t": "call the file .tsv", ",": "call the file .csv", ";": "put tabs for its semicolons"}
    advice[" "] = "put tabs for its spaces"
    if spelling in ("ids", "N-Triples"):
        return ""
    return next((f": {what}" for sign, what in advice.items() if len(text.strip().split(sign)) == len(COLUMNS)), "")


def _cells(line: bytes) -> list[bytes]:
    """Return the cells of a line of CSV: quotes are those of a cell that ends in one, spaces after commas no name's."""
    cells, place = [], 0
    while place <= len(line):
        cell = _CELL.match(line, place)
        assert cell is not None  # as both of its parts may be empty
        if cell[1] is None and cell[2].startswith(b'"') and cell[2].count(b'"') % 2:
            return []  # a quote that does not end
        cells.append(cell[2] if cell[1] is None else cell[1].replace(b'""', b'"'))
        place = cell.end() + 1
    return cells


def _term(term: bytes) -> bytes:
    plain = term[1:-1] if term.startswith(b"<") else term
    if b"\\" not in plain:
        return plain
    return _ESCAPED.sub(lambda code: chr(int(code[1] or code[2], 16)).encode(errors="surrogatepass"), plain)


def _joined(table: pa.Table) -> bytes:
    ended = pc.binary_join_element_wise(table["tail"], "\n", "")
    lines = pc.binary_join_element_wise(table["head"], table["relation"], ended, "\t").combine_chunks()
    return b"" if lines.buffers()[2] is None else bytes(lines.buffers()[2].to_pybytes())


def _is_odd(table: pa.Table, data: bytes, controls: int) -> bool:
    """Tell whether lines may hold a name that `problem` forbids; ``controls`` is how many controls are no name's."""
    # A single CR would end a line for Arrow, and so be a control that is no name's.
    if np.count_nonzero(np.frombuffer(data, np.uint8) < ord(" ")) != controls or b"\r" in data or b"\x7f" in data:
        return True
    if b" " in data and (data.startswith(b" ") or b"\n " in data or b"\t " in data):
        return True
    if any(pc.min(pc.binary_length(column)).as_py() == 0 for column in table.columns):
        return True
    return not data.isascii() and _ODD.search(data) is not None


@dataclass(frozen=True, eq=False)
class Block:
    """Some whole lines of a file, each ended by LF, or rows of a Parquet file, and the number of the first."""

    lines: bytes
    file: str
    first: int
    form: Form = field(default_factory=Form)
    rows: pa.Table | None = None

    def data(self, *, checked: bool = False) -> bytes:
        """Return the lines ``head TAB relation TAB tail LF``, those that are written so unless they are to be checked.

        Raises the error of `table` for lines that are checked, or are written otherwise.
        """
        return self.lines if self.rows is None and self.form == Form() and not checked else _joined(self.table)

    @cached_property
    def table(self) -> pa.Table:
        """Heads, relations and tails, three columns of text; raises `DatasetError` naming the first line of none."""
        if self.rows is None:
            table = self.form.table(self.lines)
        else:
            table = None if _is_odd(self.rows, _joined(self.rows), controls=3 * len(self.rows)) else self.rows
        if table is None:
            columns = zip(*(names for _, names in self.named()), strict=True)
            empty = dict.fromkeys(COLUMNS, pa.array([], pa.string()))
            table = pa.table(empty | {name: pa.array(column) for name, column in zip(COLUMNS, columns, strict=False)})
        return table

    def named(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the number of each line that is not blank, and its names; raises `DatasetError` for what is no triple.

        It is what `table` holds, read one by one.
        """
        if self.rows is not None:
            columns = (column.to_pylist() for column in self.rows.columns)
            for number, names in enumerate(zip(*columns, strict=True), self.first):
                self._expect_names(f"row {number}", names)
                yield number, names
            return
        for number, line in enumerate(self.lines.split(b"\n")[:-1], self.first):
            comment = self.form.spelling == "N-Triples" and line.lstrip().startswith(b"#")
            if comment or not line.strip(b" "):
                continue
            try:
                text, found = line.decode(), self.form.names(line)
                names = tuple(name.decode() for name in found or ())
            except UnicodeDecodeError as error:
                raise DatasetError(f"{self.file}, line {number}: {line[:200]!r} is not UTF-8 text") from error
            if not names:
                spelled = SPELLINGS[self.form.spelling]
                raise DatasetError(
                    f"{self.file}, line {number}: {text[:200]!r} is not {spelled}{_instead(text, self.form.spelling)}"
                )
            self._expect_names(f"line {number}", names)
            yield number, names

    def _expect_names(self, place: str, names: tuple[str, ...]) -> None:
        for column, name in zip(COLUMNS, names, strict=True):
            if wrong := problem(name):
                raise DatasetError(f"{self.file}, {place}: the {column} {name[:200]!r} is {wrong}")

    def unlike(self, pattern: re.Pattern[str], reason: str) -> DatasetError:
        """Return the error for the first line that does not match, with its number and text."""
        for number, names in self.named():
            text = "\t".join(names)
            if pattern.fullmatch(text) is None:
                return DatasetError(f"{self.file}, line {number}: {text[:200]!r} {reason}")
        return DatasetError(f"{self.file}, from line {self.first}: a line {reason}")


def read_blocks(
    paths: Sequence[Path], block_bytes: int = BLOCK_BYTES, columns: Sequence[str] = COLUMNS
) -> Iterator[Block]:
    """Yield the lines of raw files, file after file, in blocks of about ``block_bytes``.

    A thread reads and unpacks the next block while the caller works on the last one: unpacking takes
    as long as parsing does. What a file is, is told by its name: ``.tar.gz`` or ``.tgz`` (the members
    whose names end in train, valid or test), ``.gz``, ``.parquet``, ``.csv``, ``2id.txt`` (OpenKE's ids); anything else
    is text with tabs, or N-Triples. The first line may be a heading (`places_of`); without one, ``columns`` says what
    stands where. Lines may end in LF or CR LF, the last one may lack its end, blank ones are none; a byte-order mark is
    dropped at the beginning of a file.

    Raises `DatasetError` for a file that is missing, damaged or of another form, and for what is no file.
    """
    with closing(_blocks(paths, block_bytes, columns)) as source, ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(next, source, None)
        while (block := ahead.result()) is not None:
            ahead = reader.submit(next, source, None)
            yield block


def read_tables(path: Path, columns: Sequence[str] = COLUMNS) -> Iterator[pa.Table]:
    """Yield the triples of a file as tables of the columns head, relation and tail, so that memory need not hold it.

    It is what `read_blocks` reads. A file without a triple has no tables.
    """
    for block in read_blocks([path], columns=columns):
        yield block.table


def holds_triples(path: Path) -> bool:
    """Tell whether the first line of a file, below its heading, reads as a triple."""
    try:
        with closing(_blocks([path], BLOCK_BYTES, COLUMNS)) as blocks:
            return any(True for block in islice(blocks, 1) for _ in islice(block.named(), 1))
    except DatasetError:
        return False


def expect_file(path: Path) -> None:
    """Raise `DatasetError` for a pipe, a socket, a device or a directory, without opening it: a pipe may never end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink():
            raise DatasetError(f"{path} is a link to {path.readlink()}, which is missing: fetch it") from error
        raise DatasetError(
            f"{path} {'is missing' if isinstance(error, FileNotFoundError) else f'cannot be read ({error.strerror})'}: "
            f"name {FORMS}"
        ) from error
    if kind := irregular(mode):
        raise DatasetError(f"{path} cannot be read, as it is {kind}: name {FORMS}")


def _blocks(paths: Sequence[Path], block_bytes: int, columns: Sequence[str]) -> Generator[Block, None, None]:
    order = order_of(columns)
    for path in paths:
        expect_file(path)
        try:
            name = path.name.lower()
            if name.endswith(".parquet"):
                yield from _parquet(path)
            elif name.endswith(ARCHIVES):
                yield from _members(path, block_bytes, order)
            elif name.endswith(".gz"):
                # Python's own gzip unpacks a few kilobytes a call, and so waits at every one for the caller's thread.
                with pa.OSFile(str(path)) as packed, pa.CompressedInputStream(packed, "gzip") as stream:
                    yield from _formed(stream, str(path), path, block_bytes, order)
            else:
                with path.open("rb") as stream:
                    yield from _formed(stream, str(path), path, block_bytes, order)
        except (OSError, EOFError, zlib.error, tarfile.TarError, pa.ArrowException, UnicodeDecodeError) as error:
            raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}") from error


def _formed(
    stream: Readable, file: str, path: PurePosixPath | Path, block_bytes: int, order: tuple[int, int, int]
) -> Iterator[Block]:
    """Yield the blocks of one text, without its heading."""
    form, promised, lines = None, 0, 0
    for block in _lines(stream, file, block_bytes):
        if form is None:
            if (beginning := _beginning(block.lines, path, order)) is None:
                continue
            form, cut, promised = beginning
            block = Block(block.lines.split(b"\n", cut)[cut], file, block.first + cut)
        if block.lines:
            lines += block.lines.count(b"\n") if promised else 0
            yield replace(block, form=form)
    if lines < promised:
        raise DatasetError(f"{file} has {lines:,} lines of the {promised:,} that its first one promises: fetch it")


def _beginning(data: bytes, path: PurePosixPath | Path, order: tuple[int, int, int]) -> tuple[Form, int, int] | None:
    """Return the form of a text by its first lines, how many of them to cut off, and how many lines it promises.

    Lines that are blank, and remarks without a tab, do not tell: None where there is nothing else.
    """
    name = path.name.lower().removesuffix(".gz")
    spelling: Spelling = "commas" if name.endswith(".csv") else "tabs"
    for number, line in enumerate(data.split(b"\n")[:-1]):
        if not line.strip():
            continue
        if PurePosixPath(name).stem.endswith("2id") and line.strip().isdigit():
            beside = (path.parent / f"{kind}2id{''.join(path.suffixes)}" for kind in ("entity", "relation"))
            entities, relations = (_vocabulary(Path(place), path) for place in beside)
            columns = order if order != (0, 1, 2) else (0, 2, 1)
            return Form("ids", 3, columns, (entities, relations)), number + 1, int(line)
        text = line.lstrip(b"# ").decode(errors="replace")
        cells = [cell.decode() for cell in _cells(text.encode())] if spelling == "commas" else text.split("\t")
        for words in (cells, re.split(r"[\s,]+", text.strip())):
            if (places := places_of(words)) is not None:
                return Form(spelling, len(words), places), number + 1, 0
        if line.startswith(b"#") and spelling == "tabs" and b"\t" not in line:
            continue
        is_ntriple = spelling == "tabs" and _NTRIPLE.fullmatch(line)
        return Form("N-Triples" if is_ntriple else spelling, 3, (0, 1, 2) if is_ntriple else order), number, 0
    return None


def _vocabulary(path: Path, of: PurePosixPath | Path) -> pa.Array:
    """Return the names of a file ``name TAB id`` below a line that says how many there are, by id."""
    try:
        expect_file(path)
        _, *lines = path.read_text(encoding="utf-8-sig").splitlines()
        named = {int(number): name for name, _, number in (line.rpartition("\t") for line in lines if line)}
        if sorted(named) != list(range(len(named))):
            raise ValueError("its ids are not 0, 1, 2 and so on")
    except (DatasetError, ValueError) as error:
        raise DatasetError(f"{of} holds ids, and {path}, which is to name them, cannot be used ({error})") from error
    return pa.array([named[number] for number in range(len(named))], pa.string())


def _lines(stream: Readable, file: str, block_bytes: int) -> Iterator[Block]:
    line, rest = 1, b""
    while chunk := stream.read(block_bytes):
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            rest += chunk
            if len(rest) > LONGEST_LINE:
                raise DatasetError(
                    f"{file}, line {line}: more than {LONGEST_LINE:,} bytes without an end: name {FORMS}"
                )
            continue
        block = _block(rest + chunk[:end], file, line)
        rest = chunk[end:]
        line += block.lines.count(b"\n")
        yield block
    if rest:
        yield _block(rest + b"\n", file, line)


def _block(data: bytes, file: str, line: int) -> Block:
    if line == 1:
        data = data.removeprefix(BOM)
    return Block(data.replace(b"\r\n", b"\n") if b"\r" in data else data, file, line)


def _members(path: Path, block_bytes: int, order: tuple[int, int, int]) -> Iterator[Block]:
    found = False
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            place = PurePosixPath(member.name)
            stream = (
                archive.extractfile(member) if place.name.split(".")[0].endswith(("train", "valid", "test")) else None
            )
            if stream is not None:
                found = True
                yield from _formed(stream, f"{path}:{member.name}", place, block_bytes, order)
    if not found:
        raise DatasetError(f"{path} holds no train, valid or test file: name {FORMS}")


def _parquet(path: Path) -> Iterator[Block]:
    first = 1
    with pq.ParquetFile(path) as file:
        columns = _columns(file, path)
        for batch in file.iter_batches(ROWS_PER_BATCH, columns=columns):
            rows = pa.table([batch.column(name).cast(pa.string()) for name in columns], names=list(COLUMNS))
            if any(column.null_count for column in rows.columns):
                empty = min(pc.index(column.is_null(), True).as_py() % len(rows) for column in rows.columns)
                raise DatasetError(f"{path}, row {first + empty}: an empty cell")
            rows.validate(full=True)
            yield Block(b"", str(path), first, rows=rows)
            first += len(rows)


def _columns(file: pq.ParquetFile, path: Path) -> list[str]:
    """Return the names of the three columns of a Parquet file, once its footer says that they can be read."""
    schema, footer = file.schema_arrow, file.metadata
    for name in schema.names:
        if schema.names.count(name) > 1 and name.casefold() in WORDS:
            raise DatasetError(f"{path} has the column {name} {schema.names.count(name)} times: keep one")
    places = places_of(schema.names)
    if places is None:
        raise DatasetError(
            f"{path} has the columns {shown(schema.names) or 'of nothing'}, which are not one each of "
            f"{', '.join(COLUMNS)} (or subject, predicate, object): rename them"
        )
    columns = [schema.names[place] for place in places]
    for name in columns:
        kind = schema.field(name).type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(
            is_text(inner)
            for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_integer)
        ):
            raise DatasetError(f"{path}: the column {name} has the type {kind}, expected text")
    if footer.num_rows > MOST_ROWS:
        raise DatasetError(f"{path} has {footer.num_rows:,} rows, and more than {MOST_ROWS:,} are not read: cut it")
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            size = chunk.total_uncompressed_size
            if chunk.path_in_schema in columns and size > max(LARGE, LARGE_NAME * group.num_rows):
                raise DatasetError(
                    f"{path}: the column {chunk.path_in_schema} has {size:,} bytes for {group.num_rows:,} names: no "
                    f"name is so long"
                )
    return columns


def parse(
    data: bytes, kind: pa.DataType, width: int = 3, delimiter: str = "\t", *, quoted: bool = False
) -> pa.Table | None:
    """Return lines of some fields as columns of a type, None where any line is another."""
    if data.startswith(BOM):
        data = BOM + data  # as Arrow drops one wherever a text begins, and this one belongs to a name
    names = [str(number) for number in range(width)]
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            arrow_csv.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, kind), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None


def ids_of(column: pa.ChunkedArray, ids: dict[str, int]) -> npt.NDArray[np.int32]:
    """Return the ids of names ``(n,)`` by a dictionary, to which those are added that it lacks."""
    encoded = column.combine_chunks().dictionary_encode()
    table = [ids.setdefault(name, len(ids)) for name in encoded.dictionary.to_pylist()]
    return np.array(table, dtype=np.int32)[plain_numbers(encoded.indices)]


def plain_numbers(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return the memory of a column of int32 as it is: Arrow's own conversion imports pandas first."""
    if not len(column):
        return np.empty(0, dtype=np.int32)
    return np.frombuffer(column.buffers()[1], dtype=np.int32, count=len(column), offset=4 * column.offset)
