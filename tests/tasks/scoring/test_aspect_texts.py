"""What judges are told of an aspect: never how videos are degraded."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from tasks.scoring.instructions import aspect_text

#: Beginnings of words that tell what is done to the clips of each aspect (SLVMEval, 4.3 and appendix E.2).
OPERATIONS = {
    "aesthetics": "contrast invert negative exchang dull flat wash pale dark bright light luma",
    "technical_quality": "resiz resampl downscal upscal shrink small enlarg lanczos resolution detail sharp",
    "appearance_style": "cartoon oil paint pencil sketch watercolo detail enhanc styliz drawn drawing",
    "background_consistency": "replac landscape swap exchang composit matte other elsewhere",
    "object_integrity": "remov eras inpaint delet missing smear vanish whole damage",
    "color": "recolo repaint hue shift chang edit another",
    "dynamics_degree": "freez frozen still photograph stop repeat first single",
    "comprehensiveness": "remov cut delet missing drop omit absent lack",
    "spatial_relationship": "mirror flip revers exchang left right swap",
    "temporal_flow": "mov insert shuffl reorder swap exchang permut early late",
}


@pytest.mark.parametrize("aspect", OPERATIONS)
def test_judges_are_not_told_how_videos_are_degraded(aspect: str) -> None:
    words = re.findall(r"[a-z]+", aspect_text(aspect, aspect).description.lower())
    assert [word for word in words if word.startswith(tuple(OPERATIONS[aspect].split()))] == []


def test_nor_do_the_prompts_tell_it() -> None:
    hints = tuple("degrad alter manipul damage original untouched worse".split())
    prompts = [
        file for file in resources.files("tasks.scoring").joinpath("prompts").iterdir() if file.is_file()
    ]
    assert len(prompts) >= 6
    for prompt in prompts:
        words = re.findall(r"[a-z]+", prompt.read_text(encoding="utf-8").lower())
        assert [word for word in words if word.startswith(hints)] == [], prompt.name
