"""The page served on this machine alone: a stream of pictures and answers as lines of JSON, and uploads of people's own files.

The library itself is imported in the background while the page loads; nothing here needs it before the first question.
"""

import asyncio
import socket
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile, ZipFile

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from featureprism._files import as_json

HOST = "127.0.0.1"
PAGE = Path(__file__).parent / "page"
KINDS = {"model": (".npz", ".onnx"), "data": (".npz", ".csv")}
MOST_BYTES, MOST_UNPACKED = 64 * 2**20, 256 * 2**20  # of one file
LONGEST_NAME = 100
READER = "featureprism.play.own"
FROM_PAGE = "x-featureprism"  # only a page of the same origin can send it without asking first


def library(name: str) -> Any:
    """A module of the playground that needs the library."""
    return import_module(f"featureprism.play.{name}")


class OnlyHere:
    """Nothing is loaded from elsewhere, sent elsewhere or kept: the headers that make the browser hold this."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, adding headers to every answer."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["content-security-policy"] = (
                    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
                )
                headers["x-content-type-options"] = "nosniff"
                headers["cache-control"] = "no-store"
            await send(message)

        await self.app(scope, receive, with_headers)


def stream(rows: Callable[[], Iterator[dict[str, Any]]]) -> StreamingResponse:
    """Rows as lines of JSON while they are made; what is wrong is one last line, {"error": a sentence}."""

    def lines() -> Iterator[str]:
        try:
            for row in rows():
                yield as_json(row) + "\n"
        except (ValueError, OSError, RuntimeError, ImportError, MemoryError) as error:
            yield as_json({"error": _sentence(error)}) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__


def _json(content: Any, status: int = 200) -> Response:
    return Response(as_json(content), status, media_type="application/json")


async def film(request: Request) -> Response:
    """The pictures of a scene."""
    words = dict(request.query_params)
    return stream(lambda: library("frames").frames(library("scene").Scene.of(words)))


async def brackets(request: Request) -> Response:
    """The radii of a scene's test points, and the summary."""
    words = dict(request.query_params)
    return stream(lambda: library("answers").brackets(library("scene").Scene.of(words)))


async def sparse(request: Request) -> Response:
    """Purification: progress, pictures, curves."""
    words = dict(request.query_params)
    return stream(lambda: library("sparse").purification(library("sparse").Sparse.of(words)))


async def drawn(request: Request) -> Response:
    """A network trained on points that a person drew."""
    words = dict(request.query_params)
    return stream(lambda: library("drawn").training(library("drawn").Drawing.of(words)))


async def of_paper(request: Request) -> Response:
    """A scene of one of the other papers."""
    name, words = request.path_params["name"], dict(request.query_params)

    def rows() -> Iterator[dict[str, Any]]:
        scenes = library("papers").SCENES
        if name not in scenes:
            raise ValueError(f"There is no scene '{name}'; there are {', '.join(scenes)}.")
        return scenes[name](words)

    return stream(rows)


async def nearest(request: Request) -> Response:
    """The nearest point of another decision to one place in the plane of a scene."""
    words = dict(request.query_params)

    def answer() -> Any:
        try:
            place, frame = (float(words["s"]), float(words["t"])), int(words["frame"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"A place needs the numbers s and t, and a frame; got {words}.") from error
        return library("answers").nearest(library("scene").Scene.of(words), max(0, frame), place)

    try:
        return _json(await run_in_threadpool(answer))
    except (ValueError, RuntimeError) as error:
        return _json({"error": _sentence(error)}, 400)


class OwnFiles:
    """The model and the data that a person gave, kept in a folder that goes when the server goes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.paths = folder, {}

    async def take(self, request: Request) -> Response:
        """Keep one file; its name decides how it is read."""
        kind, name = request.path_params["kind"], Path(request.query_params.get("name", "")).name
        if FROM_PAGE not in request.headers:
            return _json({"error": "Files are taken from the page alone."}, 403)
        if kind not in KINDS or Path(name).suffix.lower() not in KINDS[kind]:
            wanted = " or ".join(KINDS.get(kind, ("model", "data")))
            return _json(
                {"error": f"A {kind} file must be {wanted}, got {name or 'a file without a name'}."}, 400
            )
        if len(name) > LONGEST_NAME or not name.isprintable():
            wanted = f"at most {LONGEST_NAME} printable characters"
            return _json({"error": f"The name of a file may have {wanted}; rename it and try again."}, 400)
        content = bytearray()
        async for piece in request.stream():
            content += piece
            if len(content) > MOST_BYTES:
                return _json(
                    {"error": f"{name} is larger than {MOST_BYTES // 2**20} MB; use `featureprism radius`."},
                    413,
                )
        if _unpacked(content) > MOST_UNPACKED:
            return _json({"error": f"{name} unpacks to more than {MOST_UNPACKED // 2**20} MB."}, 413)
        path = self.folder / kind / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        self.paths[kind] = path
        return _json({"name": name, "bytes": len(content)})

    async def story(self, _request: Request) -> Response:
        """Brackets, cards and worst points of both files."""
        return StreamingResponse(self.lines(), media_type="application/x-ndjson")

    async def lines(self) -> AsyncIterator[str]:
        """Lines of JSON from a process that reads the files: it is ended when nobody listens any more, whatever it is doing."""
        if missing := [kind for kind in KINDS if kind not in self.paths]:
            yield as_json({"error": f"Choose a {' and a '.join(missing)} file first."}) + "\n"
            return
        paths = [str(self.paths[kind]) for kind in ("model", "data")]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", READER, *paths, stdout=PIPE, stderr=DEVNULL, limit=MOST_UNPACKED
        )
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                yield _without(line.decode(), self.folder)  # the file's name is enough; the folder is ours
            if await process.wait():
                yield (
                    as_json(
                        {"error": "These files are too much for the playground; use `featureprism radius`."}
                    )
                    + "\n"
                )
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()  # and its pipe is closed with it


def _unpacked(content: bytearray) -> int:
    """How many bytes an archive says it holds; 0 for what is no archive, which its loader will say."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            return sum(part.file_size for part in archive.infolist())
    except BadZipFile:
        return 0


def _without(text: str, folder: Path) -> str:
    for kind in KINDS:
        text = text.replace(f"{folder / kind}/", "")
    return text


def _warm_up() -> None:
    """Import the library, and make the first pictures of the first scene, before they are asked for."""
    import_module("featureprism._threads").one_thread_for_good()
    scene = library("scene").Scene()
    library("frames").opening(scene)
    library("film").film(scene).at(0)


def application(folder: Path) -> Starlette:
    """The whole server; `folder` takes the files that people give."""
    own = OwnFiles(folder)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=_warm_up, daemon=True).start()
        yield

    return Starlette(
        routes=[
            Route("/film", film),
            Route("/brackets", brackets),
            Route("/nearest", nearest),
            Route("/sparse", sparse),
            Route("/papers/{name}", of_paper),
            Route("/drawn", drawn),
            Route("/own/{kind}", own.take, methods=["PUT"]),
            Route("/own", own.story),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
            Middleware(OnlyHere),
        ],
        lifespan=lifespan,
    )


def serve(port: int, ready: Callable[[str], None]) -> None:
    """Serve on 127.0.0.1 until interrupted; `ready` receives the address once the port is open."""
    with TemporaryDirectory(prefix="featureprism-") as folder:
        app = application(Path(folder))
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=1)
        with _listening(port) as listener:
            ready(f"http://{HOST}:{listener.getsockname()[1]}/")
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    """A socket on this machine alone; port 0 is any that is free."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise ValueError(
            f"Port {port} cannot be used: {error.strerror}; choose another with --port."
        ) from error
    listener.listen()
    return listener
