"""Each constant of a row that is called `same`, taken from the paper's text where that is at hand.

The page is not looked at for its value: a pattern finds it in the text, and it is held against the code.
"""

from __future__ import annotations

import re

import pytest

from tests.papers.at_hand import paper_text
from tests.papers.test_constants import PAGES, fits, resolved, rows_of

SLVMEVAL, JAPANESE, VIDEO_BENCH, LOCOT2V = "SLVMEval", "SLVMEval JA", "Video-Bench", "LoCoT2V-Bench"
RECIPE, STYLE = 'tasks.recipe:BUILT_IN["paper"].', "tasks.aspects.appearance_style:"
CAPTIONS, ERASING = "tasks.captions.llm:LlmParameters.", "tasks.aspects.object_diffusion:ErasingParameters."
COLOURS, VLM = "tasks.aspects.color_edit:ColourEditParameters.", "tasks.llm.vision_models:VLM_MODELS"
FILTER, QUALITY = "tasks.votes.filter:FilterRule.", "tasks.votes.quality:QualityRule."
MODELS, OF_SCORE = "tasks.models.registry:MODEL_SPECS", "tasks.scoring.judges.video_score:DIMENSION_OF"
SCALES, SUITE = "tasks.extras.video_bench.dimensions:BY_NAME", "tasks.extras.video_bench.settings:"
AGREE, VARIANT = "tasks.scoring.suites.human_agreement:", "tasks.extras.video_bench.variants:VARIANTS"
PRINTED = 'tasks.extras.prompt_suite.complexity:PAPER["LoCoT2V-Bench"]'
LOCO, MAKING = "tasks.extras.locot2v.", "tasks.extras.prompt_suite."

ASPECTS = {
    "aesthetics": "Aesthetics", "technical_quality": "Technical Quality",
    "appearance_style": "Appearance Style", "background_consistency": "Background Consistency",
    "object_integrity": "Object Integrity", "color": "Color", "dynamics_degree": "Dynamics Degree",
    "comprehensiveness": "Comprehensiveness", "spatial_relationship": "Spatial Relationship",
    "temporal_flow": "Temporal Flow",
}  # fmt: skip
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
#: Constant, paper, where its text has it, and how the code writes what stands there.
HELD: list[tuple[str, str, str, str]] = [
    (f"{RECIPE}fps", SLVMEVAL, r"sample each video at (\d+) fps", "{}"),
    (f"{RECIPE}long_side", SLVMEVAL, r"its longer side measures (\d+) pixels", "{}"),
    (f"{RECIPE}clips_per_pair", SLVMEVAL, r"eq filter to (\w+) clips", "{}"),
    (f"{RECIPE}clips_per_pair", SLVMEVAL, r"randomly remove (\w+) clips", "{}"),
    (f"{RECIPE}clips_per_pair", SLVMEVAL, r"moving (\w+) consecutive clips", "{}"),
    (f"{RECIPE}clips_per_pair", JAPANESE, r"本実験では(\d)つ", "{}"),
    (f"{RECIPE}bin_seconds", SLVMEVAL, r"by duration in (\d+)-s increments", "{}"),
    (f"{RECIPE}pairs_per_bin", SLVMEVAL, r"sampled up to (\d+) videos from each bin", "{}"),
    ("tasks.captions.llm:MODEL", SLVMEVAL, r"we used (Qwen3-8B) \(thinking", "Qwen/{}"),
    (f"{CAPTIONS}thinking", SLVMEVAL, r"Qwen3-8B \((thinking) mode\)", "yes"),
    (f"{CAPTIONS}top_p", SLVMEVAL, r"officially recommended parameters \[39\]: top-p=([\d.]+),", "{}"),
    (f"{CAPTIONS}top_k", SLVMEVAL, r"top-p=0.95, top-k=(\d+)", "{}"),
    (f"{CAPTIONS}temperature", SLVMEVAL, r"top-k=20, temperature=([\d.]+),", "{}"),
    (f"{CAPTIONS}min_p", SLVMEVAL, r"temperature=0.6, and min-p=(\d)", "{}"),
    (f"{CAPTIONS}repetition_penalty", SLVMEVAL, r"repetition-penalty of ([\d.]+) ", "{}"),
    ("tasks.aspects.aesthetics:EqParameters.contrast", JAPANESE, r"コントラスト係数を\s*\$(-[\d.]+)\$", "{}"),
    ("tasks.aspects.technical_quality:ScaleParameters.long_side", SLVMEVAL,
     r"longer side of (\d+) px using LANCZOS", "{}"),
    (f"{STYLE}cartoon", SLVMEVAL, r"edgePreservingFilter \(flags=(\d)", "flags={}"),
    (f"{STYLE}cartoon", SLVMEVAL, r"\(flags=1, sigma_s=(\d+)", "sigma_s={}"),
    (f"{STYLE}cartoon", SLVMEVAL, r"\(flags=1, sigma_s=40, sigma_r=([\d.]*[1-9])", "sigma_r={}"),
    (f"{STYLE}cartoon", SLVMEVAL, r"medianBlur \(kernel size of (\d)", "medianBlur({})"),
    (f"{STYLE}cartoon", SLVMEVAL, r"adaptiveThreshold \(maximum value of (\d+)", "adaptiveThreshold({})"),
    (f"{STYLE}cartoon", SLVMEVAL, r"THRESH_BINARY, blockSize=(\d+)", "blockSize={}"),
    (f"{STYLE}cartoon", SLVMEVAL, r"blockSize=11, C=(\d)", "C={}"),
    (f"{STYLE}detail", SLVMEVAL, r"detailEnhance \(sigma_s=(\d+)", "sigma_s={}"),
    (f"{STYLE}detail", SLVMEVAL, r"detailEnhance \(sigma_s=5, sigma_r=([\d.]+)\)", "sigma_r={}"),
    (f"{STYLE}oil", SLVMEVAL, r"oilPainting \(size=(\d)", "size={}"),
    (f"{STYLE}oil", SLVMEVAL, r"oilPainting \(size=5, dynRatio=(\d)", "dynRatio={}"),
    (f"{STYLE}pencil", SLVMEVAL, r"pencilSketch \(sigma_s=(\d+)", "sigma_s={}"),
    (f"{STYLE}pencil", SLVMEVAL, r"pencilSketch \(sigma_s=40, sigma_r=([\d.]+),", "sigma_r={}"),
    (f"{STYLE}pencil", SLVMEVAL, r"shade_factor=([\d.]+)\)", "shade_factor={}"),
    (f"{STYLE}watercolor", SLVMEVAL, r"stylization \(sigma_s=(\d+)", "sigma_s={}"),
    (f"{STYLE}watercolor", SLVMEVAL, r"stylization \(sigma_s=40, sigma_r=([\d.]+)\)", "sigma_r={}"),
    ("tasks.aspects.background_consistency:BackgroundParameters.backgrounds", SLVMEVAL,
     r"from the (nature-dataset)", "{}"),
    ("tasks.aspects.background_consistency:BackgroundParameters.per", SLVMEVAL,
     r"background is inconsistent across adjacent (frame)s", "{}"),
    (f'{MODELS}["grounding-dino-base"].repository', SLVMEVAL, r"we use (IDEA-Research/\S+) ", "{}"),
    (f"{ERASING}box_threshold", SLVMEVAL, r"box-threshold=([\d.]+) ", "{}"),
    (f"{ERASING}text_threshold", SLVMEVAL, r"text-threshold=([\d.]*\d)", "{}"),
    (f'{MODELS}["stable-diffusion-inpainting"].repository', SLVMEVAL,
     r"we use (stable-diffusion-v1-5/\S+) ", "{}"),
    (f"{ERASING}steps", SLVMEVAL, r"denoising-steps to (\d+)", "{}"),
    (f"{ERASING}guidance", SLVMEVAL, r"guidance-scale to ([\d.]*\d)", "{}"),
    (f'{MODELS}["qwen-image-edit-2509"].repository', SLVMEVAL, r"we use (Qwen-Image-Edit-\d+)", "Qwen/{}"),
    (f"{COLOURS}instruction", SLVMEVAL, r'"(Change the color [^"]+)"', "{}"),
    (f"{COLOURS}palette", SLVMEVAL, r"predefined set of colors \(([^)]+)\)", "{}"),
    (f"{FILTER}workers_per_pair", SLVMEVAL, r"For each pair, (\w+) crowdworkers", "{}"),
    ("storage_schemas.analysis:CaptionAnalysis.model_fields", SLVMEVAL,
     r"JSON format: ```json \{([^`]+)\} ```", "keys"),
    (f"{STYLE}StyleParameters.styles", SLVMEVAL,
     r"five appearance styles for each video: ([^.]+)\.", "styles"),
    *(
        (f"tasks.aspects.{name}:ASPECT.dimension", SLVMEVAL, rf"\| {title} \| (\w+) \| This viewpoint", "{}")
        for name, title in ASPECTS.items()
    ),
    (f"{FILTER}most_c", SLVMEVAL, r"1\.\n(No) C votes", "0"),
    (f"{FILTER}least_lead", SLVMEVAL, r"Votes for A (exceed) votes for B", "1"),
    ("tasks.annotation.translation:MODEL", SLVMEVAL, r"into Japanese using (\S+) ", "Qwen/{}"),
    (f"{QUALITY}fast_share", SLVMEVAL, r"in the fastest (\d+%)", "{}"),
    (f"{QUALITY}easy_agreement", SLVMEVAL, r"for example, (\d out of \d) workers", "{}"),
    (f"{QUALITY}most_reach", SLVMEVAL, r"high accuracy \(around (\d+%) or higher", "{}"),
    (f"{QUALITY}low_accuracy", SLVMEVAL, r"very low \((\d+%) or lower", "{}"),
    (f'{VLM}["gpt-5"].model', SLVMEVAL, r"GPT-5 \((gpt-5-\d{4}\S+)\)", "{}"),
    (f'{VLM}["gpt-5-mini"].model', SLVMEVAL, r"GPT-5-mini \((gpt-5-mini-\S+)\)", "{}"),
    (f'{VLM}["qwen3-vl"].model', SLVMEVAL, r"and Qwen3 \((Qwen/\S+)\)", "{}"),
    (f'{VLM}["qwen3-vl"].top_p', SLVMEVAL, r"Qwen3-VL to top-p = ([\d.]+),", "{}"),
    (f'{VLM}["qwen3-vl"].extra_body["top_k"]', SLVMEVAL, r"top-p = 0.8, top-k = (\d+)", "{}"),
    (f'{VLM}["qwen3-vl"].temperature', SLVMEVAL, r"top-k = 20, temperature = ([\d.]+),", "{}"),
    (f'{VLM}["qwen3-vl"].extra_body["min_p"]', SLVMEVAL, r"temperature = 0.7, and min-p = (\d)", "{}"),
    (f'{VLM}["gpt-5"].temperature', SLVMEVAL, r"for GPT-5 we used temperature = (\d\.\d)", "{}"),
    (f'{VLM}["gpt-5-mini"].temperature', SLVMEVAL, r"for GPT-5 we used a temperature of (\d\.\d)", "{}"),
    ("tasks.models.clip_server.loaders:load_jina", SLVMEVAL,
     r"text inputs of up to (\d+) tokens", "limit={}"),
    ("tasks.scoring.judges.prompt_length:IGNORE_MAX_TOKENS", SLVMEVAL, r"input at ([\d,]+) tokens", "{}"),
    (f'{MODELS}["videoscore-v1.1"].repository', SLVMEVAL, r"We used (VideoScore-v1.1)", "TIGER-Lab/{}"),
    ("tasks.scoring.judges.frame_choice:VIDEOSCORE_LIMIT.frames", SLVMEVAL, r"at most (\d+) frames", "{}"),
    *(
        (f'{OF_SCORE}["{name}"]', SLVMEVAL, rf"\| {title} \| ([a-z -]+?) \|\n", "{}")
        for name, title in ASPECTS.items()
    ),
    ("tasks.statistics.durations:FIGURE_BINS", JAPANESE, r"データを動画長で(\d)つのビン", "{}"),
    ("tasks.extras.meta_sets.proxy_study:CLIPS", SLVMEVAL, r"we concatenate (\w+) videos", "{}"),
    ("slvmeval.extras.meta_sets.commands:ProxyStudyOptions.score", SLVMEVAL, r"FETV aspect (\w+),", "{}"),
    *(
        (f'{SCALES}["{name}"].{end}', VIDEO_BENCH, pattern, "{}")
        for name, pattern_of in {
            **{
                name: {"low": r"five-point scale \((\d) - 5\)", "high": r"on a (\w+)-point scale \(1 - 5\)"}
                for name in ("imaging_quality", "aesthetic_quality", "temporal_consistency", "motion_effects")
            },
            **{
                name: {
                    "low": r"three-point scale \((\d)-3\)",
                    "high": rf"\*\*{title} Consistency\*\* This[^●]+?based on a (\w+)-point scale",
                }
                for name, title in {
                    "object_class_consistency": "Object Class", "action_consistency": "Action",
                    "color_consistency": "Color", "scene_consistency": "Scene",
                    "video_text_consistency": "Video-text",
                }.items()
            },
        }.items()
        for end, pattern in pattern_of.items()
    ),
    (f"{SUITE}VideoBenchSettings.multimodal", VIDEO_BENCH, r"Version: (gpt-4o-2\S+)\)", "{}"),
    (f"{SUITE}VideoBenchSettings.language", VIDEO_BENCH, r"Version: (gpt-4o-mini)\)", "{}"),
    (f"{SUITE}VideoBenchSettings.questions", VIDEO_BENCH, r"only allowed (\w+) questions at most", "{}"),
    ("tasks.annotation.publish_ratings:RATINGS_PER_VIDEO", VIDEO_BENCH,
     r"collect (\d) human evaluation scores", "{}"),
    ("tasks.annotation.publish_ratings:RATERS", VIDEO_BENCH, r"recruit (\d+) human annotators", "{}"),
    (f"{AGREE}ROUNDS", VIDEO_BENCH, r"bootstrapping (\d+) iterations", "{}"),
    (f"{AGREE}DRAWN", VIDEO_BENCH, r"iterations over (\d+k) score pairs", "{}"),
    (f"{AGREE}COVERS", VIDEO_BENCH, r"mean difference and its (\d+%) confidence", "{}"),
    (f"{SUITE}VideoBenchSettings.shots", VIDEO_BENCH, r"Table 7.[^●]+?\n(7)\t<b>0.624", "{}"),
    *(
        (f'{VARIANT}["{shots}-shot"].settings["shots"]', VIDEO_BENCH, rf"\n({shots})\t0.{first}\t", "{}")
        for shots, first in (("3", "596"), ("5", "611"))
    ),
    (f'{VARIANT}["without-few-shot"].settings["shots"]', VIDEO_BENCH, r"\n(1)\t0.461\t", "{}"),
    (f"{LOCO}visual_settings:AestheticSettings.fps", LOCOT2V, r"frames sampled at (\d) fps", "{}"),
    (f"{LOCO}visual_settings:TechnicalSettings.piece_s", LOCOT2V, r"split into <(\d+) s clips", "{}"),
    (f'{LOCO}settings:READY["qwen2.5-vl-7b"].model', LOCOT2V,
     r"\(OA\): (Qwen2.5-VL-7B) generates", "Qwen/{}-Instruct"),
    (f'{LOCO}settings:READY["deepseek-v3.1"].model', LOCOT2V,
     r"(DeepSeek-V3.1) extracts ground-truth", "deepseek-ai/{}"),
    (f'{LOCO}settings:READY["time-r1-7b"].model', LOCOT2V, r"(Time-R1-7B) extracts event", "Boshenxx/{}"),
    (f"{LOCO}clarity:BEST", LOCOT2V, r"scores normalized by (\d) and averaged", "{}"),
    (f'{LOCO}settings:READY["qwen2.5-vl-72b"].model', LOCOT2V,
     r"(Qwen2.5-VL-72B) first produces", "Qwen/{}-Instruct"),
    (f"{LOCO}dimensions:CLARITY_NAMES", LOCOT2V, r"content clarity \(([^;]+);", "names"),
    (f"{LOCO}dimensions:HERD_NAMES", LOCOT2V, r"seven high-level attributes \(([^)]+)\)", "names"),
    (f"{LOCO}text_alignment:FIELDS", LOCOT2V, r"field-level similarity \(([^)]+) motion\)", "names"),
    (f"{LOCO}events:FIELDS", LOCOT2V, r"Events defined by ([^.]+) motion\.", "names"),
    (f"{LOCO}herd:ANSWERS", LOCOT2V, r"an MLLM answers ([\w/]+);", "names"),
    (f"{MAKING}prompt_completion:COMPLEXITIES", LOCOT2V,
     r"complexity avg [\d.]+ \((\w+) [\d.]+, (?:\w+) [\d.]+, (?:\w+) [\d.]+\)", "{}, structural, control"),
    (f"{MAKING}settings:PromptSuiteSettings.questions", LOCOT2V, r"generates (\w+) binary questions", "{}"),
    *(
        (f"{PRINTED}[{index}]", LOCOT2V, rf"\(ours\): {before}([\d.]+)", "{}")
        for index, before in enumerate(
            ("", "240; ", "240; 236.66; ", r"240; 236.66; 8.75 \(", r"240; 236.66; 8.75 \(9.01, ",
             r"240; 236.66; 8.75 \(9.01, 8.98, ")
        )
    ),
    *(
        (f'{LOCO}dimensions:CATEGORIES["{name}"]', LOCOT2V, rf"{name} \((\d+)\)", "{}")
        for name in ("Human Real Life", "Nature Exploration", "Virtual Entertainment")
    ),
]  # fmt: skip

#: Constants of rows called `same` that the text says in other words, or that follow from what it says.
IN_OTHER_WORDS = {
    "tasks.aspects.background_consistency:BackgroundParameters.model": "U²-Net, rembg's name of it",
    "tasks.aspects.temporal_flow:ReinsertParameters.mode": "our name of moving clips to other places",
    "tasks.aspects.dynamics_degree:MiddleFrameParameters.human_actions": "4.3 speaks of motion of objects",
    'tasks.annotation.publish:PAPER_PROTOCOL["rule"]': "our name of its rules",
    'tasks.annotation.publish:PAPER_PROTOCOL["viewing"]': "A.2 puts no condition on the preference",
    "tasks.annotation.campaign:Campaign.languages": "English and Japanese",
    f"{QUALITY}apart": "C where the others say A is two steps",
    f"{QUALITY}flags_for_review": "multiple indicators",
    f"{FILTER}drop_excluded": "excluded from later task assignments",
    'tasks.scoring.judges.vlm:CAPTIONERS["gpt-5"]': "5.1: by closed and open setting",
    'tasks.scoring.judges.vlm:CAPTIONERS["gpt-5-mini"]': "5.1: by closed and open setting",
    'tasks.scoring.judges.vlm:CAPTIONERS["qwen3-vl"]': "5.1: by closed and open setting",
    f'{VLM}["gpt-5"].frames': "the centre frame of each clip",
    f'{VLM}["gpt-5-mini"].frames': "the centre frame of each clip",
    "tasks.models.clip_server.loaders:JINA": "Jina CLIP v2",
    "tasks.scoring.judges.clip_score:WEIGHT": "CLIPScore's paper",
    "tasks.scoring.judges.prompt_length:POLICIES": "default, IgnMax, EachTrunc",
    "tasks.statistics.intervals:PAPER_Z": "follows from the printed intervals",
    f"{SUITE}VideoBenchSettings.quality_prompt": "A.2.2: information specified in the text prompt",
    f'{SUITE}READY["gpt-4o-2024-08-06"].temperature': "6.4: deterministic",
    f'{SUITE}READY["gpt-4o-mini"].temperature': "6.4: deterministic",
    f"{SUITE}VideoBenchSettings.chained_questions": "F: what the second assistant compares",
    'tasks.extras.video_bench.dimensions:SCORED_BESIDES["action_consistency"]': "3.2: combined data",
    f'{VARIANT}["single-request"].settings["single_request"]': "table 3: a single GPT",
    f'{VARIANT}["without-chain-of-query"].settings["chain_of_query"]': "an empty cell of table 4",
    f'{VARIANT}["without-grid"].settings["grid"]': "table 3",
    f"{LOCO}visual_settings:AestheticSettings.pictures.model": "the SigLIP of the predictor",
    f"{LOCO}visual_settings:AestheticSettings.head": "Aesthetic Predictor V2.5",
    f"{LOCO}visual_settings:TechnicalSettings.model": "DOVER++",
    f"{LOCO}settings:MatchSettings.over": "averaged across matched pairs",
    f"{LOCO}flow:FlowSettings.method": "RAFT",
    f"{LOCO}flow:FlowSettings.model": "RAFT",
    f"{LOCO}visual_settings:ConsistencySettings.masks": "Grounded-SAM-2",
    f"{MAKING}settings:PromptSuiteSettings.multimodal": "our name of Qwen2.5-VL-72B",
    f"{MAKING}settings:PromptSuiteSettings.language": "our name of DeepSeek-V3.1",
}


def said(constant: str, paper: str, pattern: str, form: str) -> str:
    """Return what a paper's text says a constant is, as the code writes it."""
    found = re.search(pattern, paper_text(paper))
    assert found, f"{constant}: {pattern}"
    word = found[1].strip()
    if word in WORDS:
        word = str(WORDS[word])
    elif word.endswith("%"):
        word = str(float(word[:-1]) / 100)
    elif re.fullmatch(r"\d+k", word):
        word = f"{word[:-1]}000"
    elif share := re.fullmatch(r"(\d) out of (\d)", word):
        word = str(int(share[1]) / int(share[2]))
    if form == "keys":
        return ", ".join(re.findall(r'"(\w+)": \[', word))
    if form in ("names", "styles"):
        names = [re.sub("^and ", "", one.strip()) for one in re.split("[,/]", word.casefold())]
        # a style is called by the word of its name that no other has
        short = {"detail enhancement": "detail", "oil painting": "oil", "colored pencil sketch": "pencil"}
        return ", ".join(short.get(one, one.replace(" ", "_")) for one in names)
    return form.format(word)


@pytest.mark.parametrize("paper", [SLVMEVAL, JAPANESE, VIDEO_BENCH, LOCOT2V])
def test_constants_are_those_of_the_paper_s_text(paper: str) -> None:
    held = [(one[0], said(*one)) for one in HELD if one[1] == paper]
    assert held
    assert [(constant, value) for constant, value in held if not fits(value, resolved(constant))] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_constant_called_same_is_held_against_the_text(page: str) -> None:
    """Or stands there in other words, which is reported; those of VBench are of its code."""
    held = {constant for constant, *_ in HELD} | IN_OTHER_WORDS.keys()
    same = (row for row in rows_of(page) if row["state"] == "same" and row["section"] != "VBench")
    assert [one for row in same for one in re.findall(r"`([^`]+)`", row["in code"]) if one not in held] == []


def test_words_that_are_explained_are_of_rows_called_same() -> None:
    same = {
        one
        for page in PAGES
        for row in rows_of(page)
        if row["state"] == "same"
        for one in re.findall(r"`([^`]+)`", row["in code"])
    }
    assert IN_OTHER_WORDS.keys() <= same
    assert {constant for constant, *_ in HELD} <= same
