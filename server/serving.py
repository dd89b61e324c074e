"""`dallyd serve`: builds everything, serves until told to stop, and takes it down in order."""

import gc
import os
import signal
import socket
import sys
from contextlib import ExitStack

import structlog
import uvicorn
from anyio import to_thread
from fastapi import FastAPI
from prometheus_client import start_http_server
from starlette.responses import Response

from api.app import close_streams, create_app
from api.dependencies import Services
from scheduler.adapters.prometheus import CONTENT_TYPE, Metrics
from scheduler.config_file import Config
from scheduler.domain.instants import in_seconds
from scheduler.settings import Executor, Role, Settings
from server import database
from server.banner import banner
from server.composition import api_dependencies, start_scheduler
from server.first_start import apply_config, first_token, keep_given_token
from server.foundation import Foundation
from server.killing import arm_kill_point
from server.listening import BACKLOG
from server.machine import offered
from server.patience import PatientProtocol
from server.release import VERSION

EXIT_LOOP_DIED = 70

_log = structlog.get_logger("dally.server")


def serve(settings: Settings, config: Config, listening: socket.socket) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises SchedulerError when it can not start."""
    arm_kill_point(settings.kill_point)
    with ExitStack() as stack:
        metrics = Metrics(version=VERSION)
        store = stack.enter_context(database.open_to_serve(settings, metrics))
        apply_config(store, config)
        foundation = Foundation(
            settings=settings,
            config=config,
            store=store,
            metrics=metrics,
            address=_address(settings, listening),
        )
        is_local = settings.executor is Executor.LOCAL and settings.role is Role.ALL
        if given := settings.admin_token.get_secret_value():
            keep_given_token(store, given)
        token = first_token(store, days=settings.token_days)
        machine = offered(settings, config) if is_local else None
        scheduler = (
            None
            if settings.role is Role.API
            else start_scheduler(foundation, machine, stack, on_death=die)
        )
        app = create_app(api_dependencies(foundation, scheduler, stack))
        _serve_metrics(app, foundation, stack)
        server = _http_server(app, settings)
        # What was loaded stays; each full collection would walk it, for a tenth of a second.
        gc.collect()
        gc.freeze()
        _print(banner(settings, machine, foundation.address, token))
        server.run(sockets=[listening])
    _log.info("stopped")
    return 0


def die() -> None:
    """The loop has ended, by a bug or for good reason: rather no server than half a one. Nothing is
    lost by it."""
    sys.stderr.write("dallyd: the scheduler loop has ended, see the log line above; exiting\n")
    sys.stderr.flush()
    os._exit(EXIT_LOOP_DIED)


def _address(settings: Settings, listening: socket.socket) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{listening.getsockname()[1]}"


def _serve_metrics(app: FastAPI, foundation: Foundation, stack: ExitStack) -> None:
    """On the API's port, behind a token; on a port of its own as well, if one is set."""
    metrics = foundation.metrics
    services: Services = app.state.services
    metrics.count_streams(lambda: services.permits.open)

    @app.get("/metrics", include_in_schema=False)
    def metrics_text() -> Response:
        """Every metric of this process."""
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    if foundation.settings.metrics_port:
        server, _ = start_http_server(
            foundation.settings.metrics_port,
            addr=foundation.settings.host,
            registry=metrics.registry,
        )
        stack.callback(server.shutdown)


class _Server(uvicorn.Server):
    """Ends open streams when it stops; it would wait for their clients to leave otherwise."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop taking requests and wait for those that are being answered."""
        assert isinstance(self.config.app, FastAPI)
        await to_thread.run_sync(close_streams, self.config.app)
        await super().shutdown(sockets)


def _http_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    """The HTTP server; from now on SIGTERM and SIGINT stop it, whenever they come."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        http=PatientProtocol,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(in_seconds(settings.stop_timeout))),
    )
    server = _Server(config)

    # uvicorn takes the signals only while it runs, and raises them again once it has stopped.
    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return server


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
