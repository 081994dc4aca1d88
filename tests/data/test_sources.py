"""Published files: whatever a server sends, the right file is kept or one error says what came."""

import re
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import servers
import toys

import mtbench
from mtbench.builders import release
from mtbench.data import catalog, downloads, store
from mtbench.errors import DatasetError, DownloadError, UsageError
from mtbench.files.hashing import blob_hash

TRAIN = "/data/train.txt"
BODY = servers.text(toys.TRAIN)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("MTBENCH_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # Nothing outside this machine can be reached, even by mistake.
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "RETRY", downloads.RETRY.new(total=2, backoff_factor=0))
    monkeypatch.setattr(downloads, "_unreachable", {})
    # Small files come in several chunks too.
    monkeypatch.setattr(downloads, "CHUNK", 35)


@pytest.fixture
def server():
    with servers.serving(files={path: servers.text(rows) for path, rows in servers.FILES.items()}) as served:
        yield served


@pytest.fixture
def toy(monkeypatch, server):
    record = servers.release(server.address)
    toys.install(monkeypatch.setattr, record)
    return record


@pytest.fixture
def source(toy):
    return toy.sources[0]


def kept() -> list[str]:
    folder = store.cache_root() / "files"
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []


def test_the_first_load_downloads_and_the_next_ones_read(toy, server):
    loaded = mtbench.load("toy")
    toys.assert_same(loaded, toys.dataset(info=toy, parameters={}))
    assert [path for path, _ in server.asked] == list(servers.FILES)
    toys.assert_same(mtbench.load("Toy_v1"), loaded)
    toys.assert_same(mtbench.build("toy", force=True), loaded)
    assert len(server.asked) == 4
    assert kept() == sorted(source.sha256 for source in toy.sources)


@pytest.mark.parametrize("how", ["trickle", "503", "429", "hang up", "break off"])
def test_a_server_that_is_slow_or_busy_once_is_enough(source, server, how):
    server.behaviour[TRAIN] = [how]
    (path,) = downloads.fetch([source])
    assert path.read_bytes() == BODY
    assert kept() == [source.sha256]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("404", "answered 404 Not Found"),
        ("403", "answered 403 Forbidden"),
        ("page", "sent an HTML page instead of the file"),
        ("page as text", "sent an HTML page instead of the file"),
        ("wrong", r"sent other bytes than published \(SHA-256 [0-9a-f]{64} instead of [0-9a-f]{64}\)"),
        ("short", f"sent {len(BODY) // 2} of {len(BODY)} bytes"),
        ("long", f"sent more than the published {len(BODY)} bytes"),
    ],
)
def test_what_is_not_the_file_is_one_error_and_never_kept(toy, source, server, how, message):
    server.behaviour[TRAIN] = [how] * 9
    with pytest.raises(DownloadError, match=rf"^cannot get train/graph: {source.url} {message}\. .*copy the file to "):
        mtbench.load("toy")
    assert [path for path, _ in server.asked] == [TRAIN]
    assert kept() == []
    assert not store.cached(toy).exists()


def test_a_file_of_which_git_alone_tells_is_checked_by_its_hash(source, server):
    known = replace(source, bytes=0, sha256="", git_blob=blob_hash(BODY))
    server.behaviour[TRAIN] = ["wrong"]
    with pytest.raises(DownloadError, match=rf"\(git blob [0-9a-f]{{40}} instead of {known.git_blob}\)"):
        downloads.fetch([known])
    (path,) = downloads.fetch([known])
    assert (path.read_bytes(), kept()) == (BODY, [known.git_blob])
    assert blob_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("503", r"answered 503 Service Unavailable \(3 attempts\)"),
        ("hang up", r"cannot be reached \(ConnectionError\) \(3 attempts\)"),
        ("break off", rf"broke off after {len(BODY) // 2} of {len(BODY)} bytes \(.*\) \(3 attempts\)"),
    ],
)
def test_a_server_that_stays_down_is_asked_a_few_times(source, server, how, message):
    server.behaviour[TRAIN] = [how] * 9
    with pytest.raises(DownloadError, match=f"{source.url} {message}"):
        downloads.fetch([source])
    assert len(server.asked) == 3
    assert kept() == []


@pytest.mark.parametrize(("seconds", "asked"), [("2", 2), ("soon", 2), ("3600", 1)])
def test_a_busy_server_says_when_to_ask_again(monkeypatch, source, server, seconds, asked):
    waited = []
    # A clock of its own: the server's thread sleeps, too.
    monkeypatch.setattr(downloads, "time", SimpleNamespace(monotonic=time.monotonic, sleep=waited.append))
    server.behaviour[TRAIN] = [f"503 {seconds}"]
    if asked == 2:
        assert downloads.fetch([source])[0].read_bytes() == BODY
        assert waited == [2.0 if seconds == "2" else 0.0]
    else:
        with pytest.raises(DownloadError, match="answered 503 Service Unavailable, and wants to be asked in 3600 s"):
            downloads.fetch([source])
        assert not waited
    assert len(server.asked) == asked


def test_other_addresses_of_a_file_are_asked_in_turn_and_an_error_names_them_all(source, server):
    copy = f"{server.address}/copy/train.txt"
    elsewhere = replace(source, mirrors=(copy,))
    server.behaviour[TRAIN] = ["wrong", "404"]
    with pytest.raises(DownloadError, match=rf"{source.url} sent other.*; {copy} answered 404"):
        downloads.fetch([elsewhere])
    server.files["/copy/train.txt"] = BODY
    assert downloads.fetch([elsewhere])[0].read_bytes() == BODY
    assert [path for path, _ in server.asked] == [TRAIN, "/copy/train.txt"] * 2


def test_a_host_that_is_gone_is_not_asked_again_for_the_next_file(monkeypatch, source):
    gone = [replace(source, url=f"http://127.0.0.1:9/{name}.txt", sha256=name * 64) for name in "ab"]
    with pytest.raises(DownloadError, match=r"9/a\.txt cannot be reached .*MTBENCH_MIRROR=DIR .* metafam needs none"):
        downloads.fetch(gone[:1])
    with pytest.raises(DownloadError, match=r"9/b\.txt was not asked: its host could not be reached just now"):
        downloads.fetch(gone[1:])
    monkeypatch.setattr(downloads, "REMEMBERED", 0.0)
    with pytest.raises(DownloadError, match=r"9/b\.txt cannot be reached"):
        downloads.fetch(gone[1:])


def test_a_server_that_never_comes_to_an_end_is_left(monkeypatch, source, server):
    monkeypatch.setattr(downloads, "PATIENCE", 0.2)
    server.behaviour[TRAIN] = ["drip"]
    with pytest.raises(DownloadError, match=rf"is too slow: \d+ of {len(BODY)} bytes came in time"):
        downloads.fetch([source])
    assert len(server.asked) == 1


@pytest.mark.parametrize("how", ["to nowhere", "to no text"])
def test_an_answer_that_forwards_to_no_address_is_an_answer(source, server, how):
    server.files["/copy/train.txt"] = BODY
    elsewhere = replace(source, mirrors=(f"{server.address}/copy/train.txt",))
    server.behaviour[TRAIN] = [how] * 9
    assert downloads.fetch([elsewhere])[0].read_bytes() == BODY
    with pytest.raises(DownloadError, match=f"{source.url} cannot be asked"):
        downloads.fetch([replace(source, sha256="0" * 64)])


def test_what_a_server_says_does_not_move_the_cursor(source, server):
    server.behaviour[TRAIN] = ["loud"] * 9
    with pytest.raises(DownloadError, match=r"answered 404 \\u001b\[31mred"):
        downloads.fetch([source])


def test_an_address_that_makes_no_sense_is_asked_once(source):
    with pytest.raises(DownloadError, match=r"ftp://nowhere/x cannot be asked \(.*ftp"):
        downloads.fetch([replace(source, url="ftp://nowhere/x")])


def test_files_are_shared_by_their_hash(source, server):
    same = replace(source, url=f"{server.address}/copy/train.txt")
    first, second = downloads.fetch([source, same])
    assert first == second
    assert downloads.fetch([same]) == [first]
    assert len(server.asked) == 1


def test_a_mirror_address_is_asked_first(monkeypatch, source, server):
    server.files[f"/mirror/{downloads.place(source.url)}"] = BODY
    monkeypatch.setenv("MTBENCH_MIRROR", f"{server.address}/mirror/")
    assert downloads.fetch([source])[0].read_bytes() == BODY
    assert [path for path, _ in server.asked] == [f"/mirror/{downloads.place(source.url)}"]


def test_what_a_mirror_lacks_is_downloaded(monkeypatch, toy, tmp_path, server):
    (tmp_path / "mirror").mkdir()
    for mirror in (f"{server.address}/mirror", tmp_path / "mirror"):
        monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
        monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / f"cache of {Path(mirror).name}" / str(mirror).strip("/")))
        toys.assert_same(mtbench.load("toy"), toys.dataset(info=toy, parameters={}))


def fill(folder: Path, record) -> Path:
    for source, rows in zip(record.sources, servers.FILES.values(), strict=True):
        path = folder / downloads.place(source.url)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(servers.text(rows))
    return folder


def test_a_mirror_directory_serves_without_network(monkeypatch, toy, tmp_path, server):
    monkeypatch.setenv("MTBENCH_MIRROR", str(fill(tmp_path / "mirror", toy)))
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")
    toys.assert_same(mtbench.load("toy"), toys.dataset(info=toy, parameters={}))
    assert server.asked == []


def test_a_mirror_that_is_not_there_is_wrong_usage(monkeypatch, source, tmp_path):
    monkeypatch.setenv("MTBENCH_MIRROR", str(tmp_path / "mirorr"))
    with pytest.raises(UsageError, match="mirorr is neither a directory nor an http address"):
        downloads.fetch([source])


def test_offline_names_every_file_and_where_to_copy_it(monkeypatch, toy, server):
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")
    with pytest.raises(DownloadError, match=r"^MTBENCH_OFFLINE forbids the network") as failed:
        mtbench.load("toy")
    assert server.asked == []
    for source, rows in zip(toy.sources, servers.FILES.values(), strict=True):
        told = f"{source.url} ({source.bytes} bytes, SHA-256 {source.sha256}) to "
        place = Path(str(failed.value).partition(told)[2].split(", and ")[0])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(servers.text(rows))
    toys.assert_same(mtbench.load("toy"), toys.dataset(info=toy, parameters={}))


def test_offline_says_what_is_wrong_with_a_copied_file(monkeypatch, toy, tmp_path):
    folder = fill(tmp_path / "mirror", toy)
    broken = folder / downloads.place(toy.sources[1].url)
    broken.write_bytes(b"x")
    monkeypatch.setenv("MTBENCH_MIRROR", str(folder))
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")
    with pytest.raises(DownloadError, match=rf"copy \S*valid.txt .* to {broken}; {broken} has 1 bytes instead of"):
        mtbench.load("toy")
    broken.write_bytes(servers.text(toys.MASKED)[::-1])
    with pytest.raises(DownloadError, match=f"{broken} has other bytes than published"):
        mtbench.load("toy")


def test_what_is_stored_needs_neither_network_nor_files(monkeypatch, toy):
    mtbench.load("toy")
    for path in (store.cache_root() / "files").iterdir():
        path.unlink()
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")
    toys.assert_same(mtbench.load("toy"), toys.dataset(info=toy, parameters={}))


def test_a_damaged_kept_file_is_downloaded_again(source, server):
    downloads.fetch([source])
    downloads.kept(source).write_bytes(b"x")
    assert downloads.fetch([source])[0].read_bytes() == BODY
    assert len(server.asked) == 2


@pytest.mark.parametrize("value", ["", "0"])
def test_offline_can_be_switched_off_and_nothing_is_printed_off_a_terminal(monkeypatch, capfd, source, value):
    monkeypatch.setenv("MTBENCH_OFFLINE", value)
    assert downloads.fetch([source])[0].read_bytes() == BODY
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_bar(capsys, monkeypatch, source):
    monkeypatch.setattr(downloads.sys.stderr, "isatty", lambda: True)
    assert downloads.fetch([source])[0].read_bytes() == BODY
    said = capsys.readouterr().err
    assert said.startswith("asking 127.0.0.1:")
    assert "data/train.txt" in said


@pytest.fixture
def released(monkeypatch, server):
    """Return a function that releases the toy with another file; returns the record."""

    def release_with(path, content):
        server.files[path] = content
        record = servers.release(server.address, dict(server.files))
        toys.install(monkeypatch.setattr, record)
        return record

    return release_with


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"ann\tknows", r"is not three names between tabs: 'ann\\tknows'"),
        (b"ann knows bob", "is not three names between tabs: 'ann knows bob'"),
        (b"ann\tknows\tbob\tagain", "is not three names between tabs: "),
        (b"ann\t\tbob", "is not three names between tabs: "),
        (b"ann\tknows\tbob\r", "is not three names between tabs: "),
        (b"", "is not three names between tabs: ''"),
        (b"ann\tknows\t\xff", r"is not UTF-8: b'ann\\tknows\\t\\xff'"),
    ],
)
def test_a_malformed_line_is_reported_with_file_number_and_text(released, line, message):
    record = released(TRAIN, BODY + line + b"\n" + BODY)
    where = re.escape(f"{downloads.place(record.sources[0].url)} ({downloads.kept(record.sources[0])}), line 5 ")
    with pytest.raises(DatasetError, match=f"^{where}{message}"):
        mtbench.load("toy")


def test_files_are_read_between_tabs_or_spaces(tmp_path):
    file = tmp_path / "file.txt"
    for separator in "\t ":
        rows = [("a", "b", "\u4e2d"), ("é", "b", "a")]
        file.write_bytes(servers.text(rows, separator).removesuffix(b"\n"))
        assert release.read_triples(file) == rows
    file.write_bytes(b"")
    assert release.read_triples(file) == []


def test_a_member_of_an_archive_is_read_whatever_the_order_of_its_columns(tmp_path):
    for name, text in (("train.txt", "a\tb\tlikes\r\n"), ("test.txt", "b\tc\tlikes\n")):
        (tmp_path / name).write_text(text, newline="")
    with tarfile.open(tmp_path / "both.tar.gz", "w:gz") as archive:
        for name in ("train.txt", "test.txt"):
            archive.add(tmp_path / name, name)
    columns = ("head", "tail", "relation")
    for name, rows in (("train.txt", [("a", "likes", "b")]), ("test.txt", [("b", "likes", "c")])):
        assert release.read_triples(tmp_path / "both.tar.gz", "", columns, name) == rows
    with pytest.raises(DatasetError, match=r"both.tar.gz holds no valid.txt"):
        release.read_triples(tmp_path / "both.tar.gz", "", columns, "valid.txt")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (toys.MISSING[:1], "^toy: test/targets differ from the release"),
        ([("x 1", "eats", "stranger")], "toy test targets: 1 of 1 triples name an entity .*stranger"),
    ],
)
def test_right_bytes_with_other_triples_than_declared_are_not_stored(released, rows, message):
    record = released("/data/test.txt", servers.text(rows))
    with pytest.raises(DatasetError, match=message):
        mtbench.load("toy")
    assert not store.cached(record).exists()


AT_ONCE = """
import sys, mtbench
print("ready", flush=True)
sys.stdin.readline()
print(mtbench.load("fbnell").test.targets_sha256)
"""


def test_two_processes_downloading_at_once_ask_for_each_file_once(mirror):
    record = catalog.record("fbnell")
    with servers.serving(folder=mirror) as served:
        processes = [toys.python("-c", AT_ONCE, env={"MTBENCH_MIRROR": served.address}) for _ in range(2)]
        for process in processes:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            output, errors = process.communicate()
            assert output == f"{record.parts['test/targets'].content_sha256}\n", errors
    assert sorted(path for path, _ in served.asked) == sorted(f"/{downloads.place(s.url)}" for s in record.sources)
    assert kept() == sorted(source.sha256 for source in record.sources)


def test_a_killed_download_leaves_nothing_that_hinders_the_next(mirror):
    path = f"/{downloads.place(catalog.record('fbnell').sources[0].url)}"
    with servers.serving(folder=mirror, behaviour={path: ["stall"]}) as served:
        process = toys.python("-c", AT_ONCE, env={"MTBENCH_MIRROR": served.address})
        process.stdin.write("\n")
        process.stdin.flush()
        assert served.stalled.wait(60)
        process.kill()
        process.communicate()
        assert kept() == []
        process = toys.python("-c", AT_ONCE, env={"MTBENCH_MIRROR": served.address})
        output, errors = process.communicate("\n")
    assert output.endswith(f"{catalog.record('fbnell').parts['test/targets'].content_sha256}\n"), errors
    assert kept() == sorted(source.sha256 for source in catalog.record("fbnell").sources)


def test_a_file_that_cannot_be_read_is_named(monkeypatch, toy, tmp_path):
    monkeypatch.setenv("MTBENCH_MIRROR", str(fill(tmp_path / "mirror", toy)))
    monkeypatch.setenv("MTBENCH_OFFLINE", "1")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(downloads, "file_hash", refuse)
    with pytest.raises(DownloadError, match=r"mirror/\S*train\.txt cannot be read \(Permission denied\)"):
        mtbench.load("toy")
