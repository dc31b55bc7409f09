"""Texts cut so that they fit."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tasks.models.texts import fitting_words, has_words


def up_to(letters: int) -> Callable[[str], bool]:
    return lambda text: len(text) <= letters


def test_a_text_that_fits_stays_as_it_is_and_a_longer_one_ends_with_a_word() -> None:
    assert fitting_words(" a  b ", up_to(9)) == " a  b "
    assert fitting_words("one two  three", up_to(8)) == "one two"
    assert fitting_words("one two  three", up_to(7)) == "one two"
    assert fitting_words("one two  three", up_to(6)) == "one"
    assert fitting_words("extraordinary thing", up_to(5)) == "extra"
    assert fitting_words("     ", up_to(2)) == ""
    assert fitting_words("", up_to(0)) == ""


@given(text=st.text("ab \n", max_size=60), letters=st.integers(0, 40))
def test_as_many_words_stay_as_fit(text: str, letters: int) -> None:
    cut = fitting_words(text, up_to(letters))
    assert len(cut) <= letters
    words = text.split()
    if cut != text and cut in [" ".join(words[:count]) for count in range(1, len(words))]:
        assert len(" ".join(words[: len(cut.split()) + 1])) > letters


def test_letters_and_digits_of_any_script_are_words() -> None:
    assert all(map(has_words, ("a", "7", "犬", "é", "_x")))
    assert not any(map(has_words, ("", " ", "_", "?!", "…", "—")))
