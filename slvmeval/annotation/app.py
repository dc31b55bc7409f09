"""The application: what of it is served where."""

from __future__ import annotations

from fastapi import FastAPI

from slvmeval.annotation.settings import Serving


def from_environment() -> FastAPI:
    """Return the application with the settings that the starting process left."""
    return create_app(Serving.from_environment())


def create_app(serving: Serving) -> FastAPI:
    """Return the application."""
    return FastAPI(title="SLVMEval annotation", docs_url=None, redoc_url=None, openapi_url=None)
