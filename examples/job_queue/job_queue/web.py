"""The page: `GET /` shows the jobs, `GET /jobs` gives them as JSON, `POST /jobs` takes a new one (`text=`)."""

from __future__ import annotations

from dataclasses import asdict
from html import escape

from aiohttp import web

from box import BoxError
from job_queue.jobs import Job, Jobs

JOBS = web.AppKey("jobs", Jobs)

_PAGE = """<!doctype html>
<meta charset="utf-8"><title>Jobs</title><meta http-equiv="refresh" content="2">
<h1>Jobs</h1>
<form method="post" action="/jobs"><input name="text" autofocus> <button>Add</button></form>
<table border="1" cellpadding="4"><tr><th>id<th>state<th>text<th>worker<th>result</tr>
%s
</table>
"""


def make_application(jobs: Jobs) -> web.Application:
    """The application on a queue."""
    application = web.Application()
    application[JOBS] = jobs
    application.add_routes([web.get("/", show), web.get("/jobs", list_jobs), web.post("/jobs", add)])
    return application


async def show(request: web.Request) -> web.Response:
    """The page."""
    rows = "\n".join(map(_row, await request.app[JOBS].list()))
    return web.Response(text=_PAGE % rows, content_type="text/html")


async def list_jobs(request: web.Request) -> web.Response:
    """All jobs as JSON."""
    return web.json_response([asdict(job) for job in await request.app[JOBS].list()])


async def add(request: web.Request) -> web.Response:
    """201 and the new job; 400 without a text, 503 where the node takes no changes now."""
    text = (await request.post()).get("text")
    if not isinstance(text, str) or not text.strip():
        return web.Response(status=400, text="a job needs a text\n")
    try:
        job = await request.app[JOBS].put(text)
    except BoxError as error:
        return web.Response(status=503, text=f"{error}\n")
    if "text/html" in request.headers.get("Accept", ""):
        raise web.HTTPSeeOther("/")
    return web.json_response(asdict(job), status=201)


def _row(job: Job) -> str:
    cells = (str(job.id), job.state, job.text, job.worker, job.result)
    return "<tr>" + "".join(f"<td>{escape(cell)}" for cell in cells) + "</tr>"
