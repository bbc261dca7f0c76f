"""What the server says, and to whom."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection
from io import BytesIO
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

from play.files import write_own

pytest.importorskip("starlette", reason="the playground needs featureprism[play]")


def asked(address, path, *, method="GET", body=None, headers=None):
    """Status, headers and text of an answer."""
    with closing(HTTPConnection(urlsplit(address).netloc, timeout=300)) as connection:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def give(address, kind, name, content, headers=(("x-featureprism", "test"),)):
    path = f"/own/{kind}?" + urlencode({"name": name})
    status, _, text = asked(address, path, method="PUT", body=content, headers=dict(headers))
    return status, json.loads(text)


def test_the_page_loads_nothing_from_elsewhere(address):
    status, headers, text = asked(address, "/")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    for source in (part.split('"')[0] for part in text.split('src="')[1:]):
        assert not source.startswith(("http", "//"))
        assert asked(address, "/" + source)[0] == 200


def test_another_host_name_is_refused(address):
    assert asked(address, "/", headers={"Host": "evil.example"})[0] == 400


def test_a_film_and_a_question_about_it(address):
    scene = urlencode({"classes": "+-", "start": "-1"})
    opening, *frames = rows(asked(address, f"/film?{scene}")[2])
    assert opening["labels"] == [1, -1]
    assert frames[0]["time"] == 0
    assert frames[-1]["accuracy"] == 1
    found = json.loads(asked(address, f"/nearest?{scene}&frame=9999&s=1&t=0")[2])
    assert 0 < found["certified"] <= found["attacked"]


@pytest.mark.parametrize(
    "path",
    ["/film?p=x", "/brackets?classes=5", "/sparse?radius=9", "/nearest?s=1", "/nearest?s=a&t=0&frame=0"],
)
def test_a_bad_question_has_one_sentence_for_an_answer(address, path):
    (row,) = rows(asked(address, path)[2])
    assert list(row) == ["error"]
    assert row["error"].endswith(".")


def test_own_files_are_read_safely(address, tmp_path):
    model, data = write_own(tmp_path)
    assert give(address, "model", "mine.npz", model.read_bytes(), headers=())[0] == 403
    assert give(address, "model", "mine.pkl", b"")[0] == 400
    assert give(address, "data", "../../points.csv", data.read_bytes())[1]["name"] == "points.csv"
    assert give(address, "model", "mine.npz", b"\x80\x04pickle")[0] == 200
    (bad,) = rows(asked(address, "/own")[2])
    assert bad["error"].startswith("Cannot read mine.npz: it is a pickle, which is never loaded")
    assert give(address, "model", "mine.npz", model.read_bytes())[0] == 200
    opening, cards, *batches = rows(asked(address, "/own")[2])
    assert opening["points"] == 8
    assert cards["kind"] == "cards"
    assert np.concatenate([[row["attacked"] for row in batch["rows"]] for batch in batches]).min() > 0


def test_a_file_that_is_too_large_is_refused_while_it_comes(address):
    from featureprism.play.server import MOST_BYTES

    status, answer = give(address, "data", "huge.csv", bytes(MOST_BYTES + 1))
    assert status == 413
    assert "larger than 64 MB" in answer["error"]


def test_an_archive_says_what_it_unpacks_to():
    from featureprism.play.server import _unpacked

    content = BytesIO()
    np.savez_compressed(content, x=np.zeros(100_000))
    assert len(content.getvalue()) < 10_000
    assert _unpacked(bytearray(content.getvalue())) > 800_000
    assert _unpacked(bytearray(b"no archive")) == 0


def lines_of(folder, paths, most=99):
    """What is told of two files; the stream is closed after so many lines."""
    from featureprism.play.server import OwnFiles

    async def taken():
        files = OwnFiles(folder)
        files.paths = paths
        lines = files.lines()
        found = []
        async for line in lines:
            found.append(json.loads(line))
            if len(found) == most:
                break
        await lines.aclose()
        return found

    return asyncio.run(taken())


def test_both_files_are_needed(tmp_path):
    assert lines_of(tmp_path, {}) == [{"error": "Choose a model and a data file first."}]


def test_whoever_reads_files_is_ended_when_nobody_listens(tmp_path, monkeypatch):
    """A reader that says its number and then never ends."""
    (tmp_path / "endless.py").write_text(
        "import json, os, time\nprint(json.dumps({'process': os.getpid()}), flush=True)\ntime.sleep(600)\n"
    )
    monkeypatch.setattr("featureprism.play.server.READER", "endless")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    paths = {"model": tmp_path / "m.npz", "data": tmp_path / "d.csv"}
    (row,) = lines_of(tmp_path, paths, most=1)
    for _ in range(500):  # it is killed, and then taken from the list of processes
        try:
            os.kill(row["process"], 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("the reader is still there")


def test_a_reader_that_dies_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "dying.py").write_text("import os\nos.abort()\n")
    monkeypatch.setattr("featureprism.play.server.READER", "dying")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (row,) = lines_of(tmp_path, {"model": tmp_path / "m.npz", "data": tmp_path / "d.csv"})
    assert "too much for the playground" in row["error"]


@pytest.mark.parametrize("name", ["x" * 300 + ".npz", "a\0b.npz", "a\nb.npz", "\x1b[31m.npz"])
def test_odd_names_are_one_sentence(address, name):
    status, answer = give(address, "model", name, b"PK")
    assert status == 400
    assert "printable characters" in answer["error"]


def test_ctrl_c_ends_the_server_whatever_it_is_doing():
    command = [sys.executable, "-m", "featureprism", "play", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        netloc = urlsplit(server.stdout.readline().split()[4]).netloc
        with closing(HTTPConnection(netloc, timeout=300)) as connection:
            connection.request("GET", "/brackets")
            connection.getresponse().read(1)
            server.send_signal(signal.SIGINT)
            _, said = server.communicate(timeout=120)
    assert server.returncode == 130
    assert "Traceback" not in said
