"""Render a condition on one line, for drawings and messages."""

from __future__ import annotations

from typing import Any

from logist.core.condition import objects
from logist.core.condition.forms import MAX_DEPTH, MAX_PARTS
from logist.core.text import paths

MAX_CHARACTERS = 500


def render_condition(form: Any) -> str:
    """Format a condition, valid or not, as one line of text; None is `default`. Never raises."""
    text = _render_form(form, 0)
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def _render_form(form: Any, depth: int) -> str:
    if form is None:
        return "default"
    if isinstance(form, bool):
        return "always" if form else "never"
    if isinstance(form, str):
        return " ".join(form[: 2 * MAX_CHARACTERS].split())
    if not isinstance(form, dict):
        return paths.format_value(form)
    if depth > MAX_DEPTH:
        return "..."
    all_of = objects.describe_tests(form)
    all_of += _render_list(form.get("and", ()), depth)
    if any_of := _render_list(form.get("or", ()), depth):
        either = " or ".join(any_of)
        all_of.append(f"({either})" if all_of or depth else either)
    if "not" in form:
        all_of.append(f"not ({_render_form(form['not'], depth + 1)})")
    if "unless" in form:
        all_of.append(f"unless ({_render_form(form['unless'], depth + 1)})")
    text = " and ".join(all_of)
    if not text:
        return paths.format_value(form) if form else "always"
    return text


def _render_list(forms: Any, depth: int) -> list[str]:
    if not isinstance(forms, list | tuple):
        return []
    return [_render_part(form, depth + 1) for form in forms[:MAX_PARTS]]


def _render_part(form: Any, depth: int) -> str:
    text = _render_form(form, depth)
    several = isinstance(form, dict) and " and " in text and not text.startswith("(")
    return f"({text})" if several else text
