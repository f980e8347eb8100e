"""Templates: text with `{{path}}`, `{{if}} {{else}} {{end}}` and `{{range}} {{end}}`, filled from JSON data.

- Paths are those of `core.text.paths`. `{{.x}}` is a field of `.`: of the data, or inside `range` of the item. `{{x}}` is
  looked up in the item, then in the surrounding items and the data. `{{$.x}}` is always a field of the data.
- An unknown name is kept unchanged, with a warning; in strict rendering it is an error. A declared field that is absent
  is empty. In `if` it is false, in `range` empty.
- Text is inserted unchanged; every other value as JSON, indented by two. Inserted text is never parsed for actions.
- `if` needs a path, `not` and a path, or `eq` / `ne` and two values (`eq .Kind "bug"`); `else if` is supported. Empty values
  and zero are false, including an empty list, as in Go (unlike conditions on branches, which follow JavaScript).
- `{{-` and `-}}` trim white space, and `{{/* ... */}}` is a comment, as in Go. `range` over an object sorts its keys.
- An invalid action (`{{ a b }}`, `{{#each}}`) is kept unchanged, with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logist.lazy_modules import load_on_use

if TYPE_CHECKING:
    from logist.core.template.problems import find_template_problems
    from logist.core.template.rendering import Rendered, RenderedSpan, render
    from logist.core.template.tree import SourcedText, TemplateError, ToldFields, ToldList

__all__ = [
    "Rendered",
    "RenderedSpan",
    "SourcedText",
    "TemplateError",
    "ToldFields",
    "ToldList",
    "find_template_problems",
    "render",
]

load_on_use(
    globals(),
    {
        "problems": ("find_template_problems",),
        "rendering": ("Rendered", "RenderedSpan", "render"),
        "tree": ("SourcedText", "TemplateError", "ToldFields", "ToldList"),
    },
)
