"""``slvmeval schema``: the form of what is stored and of the settings."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(no_args_is_help=True, help="The form of what is stored and of the settings.")


class Shown(StrEnum):
    """What has a schema."""

    RECIPE = "recipe"
    PROFILE = "profile"
    TABLES = "tables"


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="schema", rich_help_panel="The store")


@app.command()
def show(
    what: Annotated[
        Shown, typer.Argument(help="recipe and profile as JSON Schema, tables as Arrow schemas.")
    ],
) -> None:
    """Print a schema.

    Example: `slvmeval schema show recipe > recipe.schema.json`
    """
    if what is Shown.RECIPE:
        from tasks.recipe import Recipe

        shared.print_json(Recipe.model_json_schema())
    elif what is Shown.PROFILE:
        from infra.profile import profile_schema

        shared.print_json(profile_schema())
    else:
        for name, schema in table_schemas().items():
            shared.say(name, *(f"  {field.name:<20} {field.type}" for field in schema), "")


def table_schemas() -> dict[str, pa.Schema]:
    """Return the Arrow schema of every stored table, by the table's name."""
    from storage_schemas.analysis import ANALYSES
    from storage_schemas.answers import ANSWERS
    from storage_schemas.judgement import JUDGEMENTS
    from storage_schemas.pair import DEGRADED_CLIPS, EDITS, PAIRS
    from storage_schemas.set_aside import SET_ASIDE
    from storage_schemas.source import CLIPS, SOURCES
    from storage_schemas.suite_score import SUITE_SCORES
    from storage_schemas.timeline import TIMELINE_SCHEMA
    from storage_schemas.vote import DECISIONS, VOTES
    from tasks.publish.filtered import OUTCOMES

    return {
        "sources": SOURCES,
        "clips": CLIPS,
        "pairs": PAIRS,
        "edits": EDITS,
        "degraded_clips": DEGRADED_CLIPS,
        "set_aside": SET_ASIDE,
        "analyses": ANALYSES,
        "answers": ANSWERS,
        "timeline": TIMELINE_SCHEMA,
        "judgements": JUDGEMENTS,
        "suite_scores": SUITE_SCORES,
        "votes": VOTES,
        "decisions": DECISIONS,
        "filter": OUTCOMES,
    }


@app.command()
def migrate(
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Bring a store of an older schema version up to date; frames and pairs stay as they are.

    It may be stopped at any time and run again. No build may run in the store meanwhile.

    Example: `slvmeval schema migrate --store STORE`
    """
    from slvmeval.commands.state import refuse_while_running
    from storage_schemas.manifest import SCHEMA_VERSION
    from storage_schemas.migrations import migrate as migrate_store
    from storage_schemas.store import Store

    root = Path(shared.settings(profile, store=store).store)
    refuse_while_running(Store(root), "schema migrate")
    with shared.step_bar("manifests", quiet) as step:
        count = migrate_store(root, lambda done, total: step(done, total, ""))
    shared.say(f"{root}: {count} manifests brought to schema version {SCHEMA_VERSION}")
