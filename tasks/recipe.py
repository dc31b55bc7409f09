"""The recipe: everything that determines the content of a release, with the operations' parameters.

A recipe is frozen and strict, is stored in the release, and names every constant. Built-in recipes have a
name; a user's own recipe is a TOML or JSON file with the same fields.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_serializer,
)

from storage_schemas.errors import UserInputError, did_you_mean
from storage_schemas.ids import digest_value
from storage_schemas.model import Frozen
from storage_schemas.pair import LengthPoint
from storage_schemas.regular_files import read_regular_text, why_unread
from storage_schemas.rng import keyed_rank
from storage_schemas.source import DamageRule
from storage_schemas.value_problems import value_problem
from tasks.aspects.base import CUSTOM, Operation, Parameters, strength_number, strength_text
from tasks.aspects.registry import aspect as find_aspect
from tasks.captions.analyser import AnalyserRecipe
from tasks.llm.prompt_files import own_prompts
from tasks.models.base import Models
from tasks.votes.filter import FilterRule


def _as_strength(value: Any) -> Any:
    """Return the name of a strength; a number is also a name."""
    number = strength_number(value) if isinstance(value, str) else value
    if isinstance(number, int | float) and not isinstance(number, bool):
        return strength_text(number)
    return value


#: A preset's name, or a number on the operation's scale.
Strength = Annotated[
    str,
    BeforeValidator(_as_strength),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number", "exclusiveMinimum": 0}]}),
]


class AspectRecipe(Frozen):
    """How one aspect is degraded: an operation, its strength, and individual overrides."""

    operation: str
    strength: Strength | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class Severity(Frozen):
    """Additional points on the two axes of severity; every source of an aspect gets a pair at each.

    `clips` are numbers of degraded clips (``"all"`` means the maximum), at the aspect's own strength;
    `strengths` are presets or numbers, at `clips_per_pair` clips, for operations that have them. With
    `crossed` every strength comes with every number of clips.
    """

    clips: tuple[Annotated[int, Field(ge=1)] | Literal["all"], ...] = ()
    strengths: tuple[Strength, ...] = ()
    crossed: bool = False

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit fields that older recipes lack, so that their checksums stay the same."""
        values: dict[str, Any] = handler(self)
        return {key: value for key, value in values.items() if key != "crossed" or value}


class Lengths(Frozen):
    """Excerpts of sources around the same damaged clips; every pair gets one of each length and position.

    `shares` are lengths as shares of the source, which is always built too. `positions` place the damage in
    further excerpts; without them, its relative position is that in the source. `clips` is the number of
    damaged
    clips: many are spread over the source, and leave no room for short excerpts.
    """

    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = ()
    positions: tuple[Literal["early", "middle", "late"], ...] = ()
    clips: int = Field(default=1, ge=1)

    def points(self) -> list[LengthPoint]:
        """Return the distinct lengths and positions, the longest first; empty without shares."""
        if not self.shares:
            return []
        shares = sorted(set(self.shares), reverse=True)
        points = [LengthPoint(share=1.0), *(LengthPoint(share=share) for share in shares)]
        return points + [
            LengthPoint(share=share, position=position)
            for share in shares
            for position in dict.fromkeys(self.positions)
        ]


class Pin(Frozen):
    """One pair that a pinned recipe must reproduce with equal checksums."""

    source_id: str
    content_sha256: str
    aspect: str
    operation: str
    parameters: dict[str, Any]
    strength: str
    clips: int
    drawn_clips: tuple[int, ...]
    seed: str
    pair_id: str
    high_checksum: str
    low_checksum: str


class Recipe(Frozen):
    """Everything that determines which pairs are built and how.

    Parameters
    ----------
    name
        Name of the recipe; a changed recipe needs another name.
    seed
        Release seed, part of the key of every random draw.
    fps, long_side
        Sampling rate in frames per second and longer side in pixels (SLVMEval, section 4.2: 1 and 512).
    clips_per_pair
        Clips degraded in each pair (SLVMEval, section 4.3: 5).
    bin_seconds, pairs_per_bin
        Width of a duration bin and maximum number of an aspect's pairs in one (100 s and 20).
    least_duration_s
        Shorter sources are set aside; 0 accepts all.
    damaged
        How a damaged video is handled: ``refuse`` sets it aside, ``truncate`` uses one that is cut off up
        to its last whole picture, ``conceal`` takes the pictures that FFmpeg's decoder returns.
    aspects
        The aspects to build.
    controls
        Whether each pair gets a control, an edit that makes no side better; or the share of pairs that do.
    lengths
        Excerpts around the damaged clips, to see how accuracy depends on length and position.
    pins
        If not empty, exactly these pairs are built and their checksums compared.
    annotation
        Rule for keeping a pair after annotation; it changes no pair.
    """

    name: str
    seed: int = 0
    fps: Fraction = Fraction(1)
    long_side: int = 512
    clips_per_pair: int = Field(default=5, ge=1)
    bin_seconds: int = Field(default=100, ge=1)
    pairs_per_bin: int = Field(default=20, ge=1)
    least_duration_s: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    damaged: DamageRule = "refuse"
    caption_analysis: AnalyserRecipe = AnalyserRecipe()
    aspects: dict[str, AspectRecipe]
    severity: Severity = Severity()
    controls: bool | Annotated[float, Field(gt=0, le=1)] = False
    lengths: Lengths = Lengths()
    pins: tuple[Pin, ...] = ()
    annotation: FilterRule = FilterRule()

    @field_validator("fps")
    @classmethod
    def _fps_positive(cls, value: Fraction) -> Fraction:
        if value <= 0:
            raise ValueError("fps must be positive")
        return value

    @field_validator("long_side")
    @classmethod
    def _long_side_fits(cls, value: int) -> int:
        if value < 16 or value % 4:
            raise ValueError("long_side must be a multiple of 4, at least 16")
        return value

    def digest(self) -> str:
        """Return the checksum that identifies the recipe in a release's version.

        The annotation rule, the controls and the lengths are included only if they are not the default.
        """
        later = {"annotation"} if self.annotation == FilterRule() else set()
        return digest_value(self.model_dump(mode="json", exclude=later | self.unset))

    @property
    def unset(self) -> set[str]:
        """Fields that are not stored in a release unless they are set."""
        return ({"controls"} if not self.controls else set()) | (
            {"lengths"} if not self.lengths.shares else set()
        )

    def has_control(self, aspect: str, source_id: str) -> bool:
        """Return whether the main pair of a source and aspect gets a control, by a keyed draw.

        A smaller share is a subset of a larger one.
        """
        if not self.controls or find_aspect(aspect).control is None:
            return False
        drawn = int(keyed_rank(self.seed, "control", aspect, source_id)[:13], 16) / 16**13
        return drawn < float(self.controls)

    def control_parameters(self, aspect: str) -> Parameters:
        """Return the parameters of an aspect's control.

        Raises
        ------
        ValueError
            If the aspect has none.
        """
        control = find_aspect(aspect).control
        if control is None:
            raise ValueError(f"aspect {aspect} has no control")
        return control.parameters(self.parameters(aspect))

    def operations(self, aspect: str) -> list[tuple[Operation[Any], Parameters]]:
        """Return the operations of an aspect with the parameters of each severity point, and its control."""
        found = [(self.operation(aspect), self.parameters(aspect, p.strength)) for p in self.points(aspect)]
        control = find_aspect(aspect).control
        if self.controls and control is not None:
            found.append((control.operation, self.control_parameters(aspect)))
        return found

    def operation(self, aspect: str) -> Operation[Any]:
        """Return the operation that this recipe uses for an aspect."""
        return find_aspect(aspect).operation(self.aspects[aspect].operation)

    def parameters(self, aspect: str, strength: str | None = None) -> Parameters:
        """Return the operation's parameters at the recipe's or another strength."""
        entry = self.aspects[aspect]
        parameters: Parameters = self.operation(aspect).parameters(
            strength or entry.strength, entry.parameters
        )
        return parameters

    def strength(self, aspect: str) -> str:
        """Return the recipe's base preset for an aspect; see :meth:`strength_label`."""
        return self.aspects[aspect].strength or self.operation(aspect).default_strength

    def strength_label(self, aspect: str, strength: str | None = None) -> str:
        """Return the label of a pair's strength, at the recipe's or another strength.

        A preset's name stands for exactly its parameters: ``paper`` for the paper's and no others. If the
        recipe overrides values, the label is the preset with these parameters, or else `CUSTOM`; at an
        additional strength it is `CUSTOM` with that strength's name, so that the points remain distinct. A
        number is its own label, unless a preset has its parameters.
        """
        main = self.strength(aspect)
        name = strength or main
        operation, parameters = self.operation(aspect), self.parameters(aspect, strength)
        first = [name] if name in operation.strengths else []
        for other in dict.fromkeys((*first, *operation.strengths, name)):
            if operation.parameters(other) == parameters:
                return other
        return CUSTOM if name == main else f"{CUSTOM}-{name}"

    def points(self, aspect: str) -> list[SeverityPoint]:
        """Return the distinct severity points of an aspect, the recipe's main point first."""
        main, severity = self.strength(aspect), self.severity
        strengths = [name for name in severity.strengths if self.operation(aspect).has_strength(name)]
        points = [SeverityPoint(strength=main, clips=self.clips_per_pair)]
        points += [SeverityPoint(strength=main, clips=clips) for clips in severity.clips]
        points += [SeverityPoint(strength=name, clips=self.clips_per_pair) for name in strengths]
        if severity.crossed:
            points += [
                SeverityPoint(strength=name, clips=clips) for name in strengths for clips in severity.clips
            ]
        return list(dict.fromkeys(points))

    def check(self, *, analyser: bool = True) -> None:
        """Resolve every aspect, operation, parameter and strength, and the caption analyser.

        Parameters
        ----------
        analyser
            Whether the caption analyser's requirements must be installed.

        Raises
        ------
        UserInputError
            For the first unknown name, with the choices.
        PrerequisiteError
            If a dependency of the caption analyser is not installed.
        """
        # the analysers import their part of the recipe from this module
        from tasks.captions.stage import make_analyser

        for name in self.aspects:
            for point in self.points(name):
                self.parameters(name, point.strength)
        operations = [self.operation(name) for name in self.aspects]
        strengths = list(dict.fromkeys(name for operation in operations for name in operation.strengths))
        most = max((operation.scale.most for operation in operations if operation.scale), default=None)
        numbers = "" if most is None else f", or numbers above 0, up to {most:g}"
        for strength in self.severity.strengths:
            if not any(operation.has_strength(strength) for operation in operations):
                raise UserInputError(
                    f"severity.strengths: no operation of this recipe has the strength {strength!r}: choose "
                    f"from {', '.join(strengths)}{numbers}"
                )
        made = make_analyser(self.caption_analysis)
        if analyser:
            made.check()


class SeverityPoint(Frozen):
    """Number of degraded clips, and strength: the preset of the parameters."""

    strength: str
    clips: int | Literal["all"]


_EIGHT: dict[str, AspectRecipe] = {
    "aesthetics": AspectRecipe(operation="ffmpeg-eq", strength="paper"),
    "technical_quality": AspectRecipe(operation="lanczos-down-up", strength="paper"),
    "appearance_style": AspectRecipe(operation="opencv-style", strength="paper"),
    "background_consistency": AspectRecipe(operation="rembg-u2net", strength="paper"),
    "dynamics_degree": AspectRecipe(operation="middle-frame", strength="paper"),
    "comprehensiveness": AspectRecipe(operation="remove-clips", strength="paper"),
    "spatial_relationship": AspectRecipe(operation="horizontal-flip", strength="paper"),
    "temporal_flow": AspectRecipe(operation="reinsert-window", strength="paper"),
}

_TEN: dict[str, AspectRecipe] = {
    **_EIGHT,
    "object_integrity": AspectRecipe(operation="grounding-dino-sd-inpainting", strength="paper"),
    "color": AspectRecipe(operation="qwen-image-edit", strength="paper"),
}

#: Replaces operations that need a GPU or large weights by others with other names.
_APPROXIMATE: dict[str, AspectRecipe] = {
    **_EIGHT,
    # the preset's parameters; given here, they also apply at additional strengths
    "background_consistency": AspectRecipe(
        operation="rembg-u2net",
        strength="small-network",
        parameters={"model": "u2netp", "backgrounds": "procedural"},
    ),
    "dynamics_degree": AspectRecipe(
        operation="middle-frame", strength="human-actions", parameters={"human_actions": True}
    ),
    "object_integrity": AspectRecipe(operation="saliency-telea-inpainting"),
    "color": AspectRecipe(operation="named-colour-hue-shift"),
}

#: Built-in recipes. `paper` is the paper's. `paper-lightning` differs by editing colours with a step cache.
#: `paper-eight` has the paper's parameters for the aspects without diffusion, with captions analysed by
#: rules. `cpu-approx` replaces operations that need a GPU or large weights by others with other names,
#: and `cpu-instrument` adds controls, a ladder of severities, and lengths.
BUILT_IN: Mapping[str, Recipe] = {
    "paper": Recipe(name="paper", caption_analysis=AnalyserRecipe(name="llm"), aspects=_TEN),
    "paper-lightning": Recipe(
        name="paper-lightning",
        caption_analysis=AnalyserRecipe(name="llm"),
        aspects={**_TEN, "color": AspectRecipe(operation="qwen-image-edit", strength="lightning")},
    ),
    "cpu-approx": Recipe(name="cpu-approx", aspects=_APPROXIMATE),
    "cpu-instrument": Recipe(
        name="cpu-instrument",
        aspects=_APPROXIMATE,
        severity=Severity(clips=(1, 2, 10), strengths=("0.1", "0.2", "0.4", "0.7")),
        controls=True,
        lengths=Lengths(shares=(0.1, 0.25, 0.5), positions=("early", "late")),
    ),
    "paper-eight": Recipe(name="paper-eight", aspects=_EIGHT),
}


def load_recipe(name_or_path: str) -> Recipe:
    """Return a built-in recipe by name, or the one in a TOML or JSON file.

    Raises
    ------
    UserInputError
        For an unknown name, a file that is missing or not TOML/JSON, or an invalid key or value; the message
        names the file and the key.
    """
    if name_or_path in BUILT_IN:
        return BUILT_IN[name_or_path]
    path = Path(name_or_path)
    if path.suffix not in (".toml", ".json"):
        hint = did_you_mean(name_or_path, BUILT_IN)
        raise UserInputError(
            f"no recipe {name_or_path!r}.{hint} Built in: {', '.join(BUILT_IN)}; "
            "or give the path of a .toml or .json file."
        )
    try:
        text = read_regular_text(path)
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as problem:
        raise UserInputError(f"recipe {path}: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:  # not UTF-8, not the format, or nested too deeply
        raise UserInputError(f"recipe {path} is not valid {path.suffix[1:].upper()}: {problem}") from problem
    try:
        return own_name(recipe_from(values, path.parent))
    except UserInputError as problem:
        raise UserInputError(f"recipe {path}: {problem}") from problem


def own_name(recipe: Recipe) -> Recipe:
    """Return a recipe unless it wrongly has a built-in recipe's name; recipes with pins are exempt.

    Raises
    ------
    UserInputError
        If it has the name of a built-in recipe but other values.
    """
    built_in = BUILT_IN.get(recipe.name)
    if built_in is not None and recipe != built_in and not recipe.pins:
        raise UserInputError(
            f"name: {recipe.name!r} is a built-in recipe with other values: give this one another name"
        )
    return recipe


def _with_texts(value: Any, folder: Path) -> Any:
    """Return operation parameters with every text ``@FILE`` replaced by that file's content."""
    if isinstance(value, Mapping):
        return {key: _with_texts(item, folder) for key, item in value.items()}
    if not (isinstance(value, str) and value.startswith("@")):
        return value
    path = folder / Path(value[1:]).expanduser()
    try:
        return read_regular_text(path).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(
            f"{value}: the text in {path} cannot be read: {why_unread(problem)}"
        ) from problem


def _read_texts(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields with ``@FILE`` texts replaced in the parameters of aspects and caption analysis."""
    entries = [fields.get("caption_analysis"), *_values(fields.get("aspects"))]
    for entry in entries:
        if isinstance(entry, dict) and "parameters" in entry:
            entry["parameters"] = _with_texts(entry["parameters"], folder)
    return fields


def _values(table: Any) -> Iterable[Any]:
    return table.values() if isinstance(table, Mapping) else ()


def recipe_from(values: Mapping[str, Any], folder: Path = Path(), *, stored: bool = False) -> Recipe:
    """Return the recipe with these fields; `base` names a built-in one with the default fields.

    Without a name, a recipe with a `base` is called ``BASE-changed``.

    A text parameter of an operation or of the caption analysis that starts with ``@`` is a path relative to
    `folder`: it is replaced by the file's content, which is thus part of the ids.

    Parameters
    ----------
    stored
        Whether it is the recipe of a release, which can be read without what the caption analyser needs.

    Raises
    ------
    UserInputError
        For an invalid key or value.
    PrerequisiteError
        If a dependency of its caption analyser is not installed.
    """
    if not isinstance(values, Mapping):
        raise UserInputError(
            f"a recipe is an object of fields (name, aspects, …), not a {type(values).__name__}"
        )
    fields = _read_texts(copy.deepcopy(dict(values)), folder)
    base = fields.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or base not in BUILT_IN:
            raise UserInputError(f"base {base!r} is not a built-in recipe ({', '.join(BUILT_IN)})")
        called = {"name": f"{base}-changed"} if fields else {}
        fields = {**BUILT_IN[base].model_dump(mode="json"), **called, **fields}
    try:
        recipe = Recipe.model_validate(fields)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UserInputError(f"{where}: {value_problem(first)} (got {first['input']!r:.200})") from problem
    recipe.check(analyser=not stored)
    return recipe


def with_prompts(recipe: Recipe, prompts: str | Path | None) -> Recipe:
    """Return a recipe with the user's prompts instead of its own, called ``NAME-prompts`` if any is used.

    Parameters
    ----------
    prompts
        The user's folder of prompts, areas ``operations`` and ``caption-analysis``; None for none.

    Raises
    ------
    UserInputError
        If the folder cannot be used, or the recipe pins its pairs and a prompt would change them.
    """
    texts = own_prompts(prompts)
    fields = recipe.model_dump(mode="json")
    changed = False
    for parameter, name in (("prompt", "caption_analysis"), ("again", "caption_analysis_again")):
        if recipe.caption_analysis.name == "llm" and (text := texts.get(f"caption-analysis/{name}")):
            fields["caption_analysis"]["parameters"][parameter] = text
            changed = True
    for aspect in recipe.aspects:
        for parameter, key in recipe.operation(aspect).prompts.items():
            if text := texts.get(key):
                fields["aspects"][aspect]["parameters"][parameter] = text
                changed = True
    if not changed:
        return recipe
    if recipe.pins:
        raise UserInputError(f"recipe {recipe.name} pins its pairs: its prompts cannot be replaced")
    return recipe_from({**fields, "name": f"{recipe.name}-prompts"})


def check_recipe(recipe: Recipe, check: Models) -> None:
    """Check every model that the operations of a recipe load."""
    for name in recipe.aspects:
        for operation, parameters in recipe.operations(name):
            operation.consumed_models(parameters, check)
