"""The runtime inside a small web application: real HTTP in, real HTTP out, one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from statemachine_agent import Catalogue, Event, Identity, Reach, RefusedError, Runtime, ScriptedModel, SqliteStore
from statemachine_agent.sandbox import Sandbox, control
from support.refund import MACHINES, PEOPLE, SCRIPT, TOOLS


def application(runtime: Runtime) -> Starlette:
    """An application that knows who is asking; the runtime is told."""
    running: set[asyncio.Task[object]] = set()

    def go_on(task: str) -> None:
        work = asyncio.ensure_future(runtime.resume(task))
        running.add(work)
        work.add_done_callback(running.discard)

    async def start(request: Request) -> JSONResponse:
        who = Identity(request.headers["X-User"], "application")
        created = await runtime.start("refund", await request.json(), who)
        go_on(created.task.id)
        return JSONResponse({"task": created.task.id}, 202)

    async def show(request: Request) -> JSONResponse:
        found = await runtime.status(request.path_params["task"])
        return JSONResponse({"status": found.head.status, "version": found.head.version})

    async def inbox(_request: Request) -> JSONResponse:
        return JSONResponse([{"id": a.id, "task": t, "args": a.shown["args"]} for t, a in await runtime.pending()])

    async def decide(request: Request) -> JSONResponse:
        who = Identity(request.headers["X-User"], "application")
        body = await request.json()
        try:
            if body["yes"]:
                found = await runtime.approve(request.path_params["approval"], who)
            else:
                found = await runtime.reject(request.path_params["approval"], who, why=body["why"])
        except RefusedError as problem:
            return JSONResponse({"reason": problem.reason, "message": problem.message}, 403)
        go_on(found.task.id)
        return JSONResponse({"status": found.head.status})

    return Starlette(
        routes=[
            Route("/tasks", start, methods=["POST"]),
            Route("/tasks/{task}", show),
            Route("/approvals", inbox),
            Route("/approvals/{approval}", decide, methods=["POST"]),
        ]
    )


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await running


async def reaches(client: httpx.AsyncClient, task: str, status: str) -> dict:
    for _ in range(1000):
        found = (await client.get(f"/tasks/{task}")).json()
        if found["status"] == status:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"{found} never became {status}")


def test_many_tasks_in_one_web_application(services: Sandbox, tmp_path: Path) -> None:
    """Started, approved and finished over HTTP; refusals have their reason; events are seen as they happen."""

    async def main() -> list[Event]:
        seen: list[Event] = []
        reach = Reach(services.urls, frozenset({"127.0.0.1"}))
        with SqliteStore(tmp_path / "tasks.db") as store:
            catalogue = Catalogue.read([MACHINES], [TOOLS], PEOPLE)
            async with Runtime(catalogue, store, ScriptedModel.load(SCRIPT), reach=reach) as runtime:

                async def follow() -> None:
                    async for event in runtime.events():
                        seen.append(event)

                following = asyncio.ensure_future(follow())
                async with serving(application(runtime)) as url, httpx.AsyncClient(base_url=url) as client:
                    body = {"order_id": "8472", "message": "twice"}
                    started = await client.post("/tasks", json=body, headers={"X-User": "cust-3391"})
                    task = started.json()["task"]
                    await reaches(client, task, "AWAITING_APPROVAL")
                    (request,) = (await client.get("/approvals")).json()
                    own = await client.post(
                        f"/approvals/{request['id']}", json={"yes": True}, headers={"X-User": "cust-3391"}
                    )
                    assert (own.status_code, own.json()["reason"]) == (403, "own_task")
                    yes = await client.post(
                        f"/approvals/{request['id']}", json={"yes": True}, headers={"X-User": "lead@example.com"}
                    )
                    assert yes.status_code == 200
                    assert (await reaches(client, task, "SUCCEEDED"))["version"] == 11
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following
        return seen

    seen = asyncio.run(main())
    versions = [e.data["checkpoint"].head.version for e in seen if e.kind == "committed"]
    assert versions[-11:] == list(range(1, 12))
    assert len(control.refunds(services.urls["REFUNDS_URL"], "8472")) == 1


def test_a_runtime_that_is_stopped_goes_on_elsewhere(services: Sandbox, tmp_path: Path) -> None:
    """Shutting the application down cancels its work; another one resumes it at once."""

    async def main() -> None:
        reach = Reach(services.urls, frozenset({"127.0.0.1"}))
        catalogue = Catalogue.read([MACHINES], [TOOLS], PEOPLE)
        control.set_fault(services.urls["PAYMENTS_URL"], "slow", on="read", seconds=20)
        with SqliteStore(tmp_path / "tasks.db") as store:
            async with Runtime(catalogue, store, ScriptedModel.load(SCRIPT), reach=reach) as runtime:
                who = Identity("cust-3391", "application")
                created = await runtime.start("refund", {"order_id": "8472", "message": "twice"}, who)
                work = asyncio.ensure_future(runtime.resume(created.task.id))
                while not control.log(services.urls["PAYMENTS_URL"]):
                    await asyncio.sleep(0.01)
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
            control.clear_faults(services.urls["PAYMENTS_URL"])
            async with Runtime(catalogue, store, ScriptedModel.load(SCRIPT), reach=reach) as other:
                waiting = await other.resume(created.task.id)
        assert waiting.head.status == "AWAITING_APPROVAL"

    asyncio.run(main())
