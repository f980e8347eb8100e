"""What agents write, drawn for a terminal: Markdown is rendered, and nothing of it steers the terminal or is hidden."""

from __future__ import annotations

import re

import pytest

from logist.core.text.columns import count_columns
from tests.cli.desk import Desk, answer, command

SUMMARY = """# Wrote it
First line
second line

- one `code` and **bold**
- [red]not red[/red] <b>tag</b> <!-- comment --> [link](https://x.example "title") ![alt](https://y.example)
- &#x202e;entity \x1b[31mred\x1b]8;;https://z.example\x07hidden

[def]: https://d.example

```python
print("hi")
```
"""


def draw(desk: Desk, columns: int = 100, **env: str) -> str:
    return desk.on_terminal("job", "show", "j1", columns=columns, env=env)


def remove_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def answered(desk: Desk) -> Desk:
    desk.script(answer(command("STUCK", summary=SUMMARY, output={"[bold]a": "\x1b[31m"})))
    desk.create(prompt="Do *it*.")
    desk("job", "step", "j1")
    return desk


def test_markdown_is_rendered_in_panels(answered: Desk) -> None:
    seen = draw(answered)
    plain = remove_styles(seen)
    assert "Do \x1b[3mit\x1b[0m." in seen
    assert re.search(r"│ +Wrote it +│", plain)
    assert re.search(r"│ First line +│\n│ second line +│", plain)
    assert "• one code and bold" in plain
    assert "╭─ #2 Worker: STUCK " in plain
    assert "┃" not in plain
    assert "╭─ output of task " in plain


def test_nothing_is_interpreted_or_hidden(answered: Desk) -> None:
    seen = draw(answered, columns=200)
    plain = remove_styles(seen)
    for text in (
        "[red]not red[/red] <b>tag</b> <!-- comment -->",
        '[link](https://x.example "title")',
        "![alt](https://y.example)",
        "&#x202e;entity [31mred]8;;https://z.examplehidden",
        "[def]: https://d.example",
        '"[bold]a": "\\u001b[31m"',
    ):
        assert text in plain
    assert "\x1b" not in plain
    assert "\u202e" not in plain


@pytest.mark.parametrize("columns", [80, 60, 25])
def test_it_fits_the_terminal(answered: Desk, columns: int) -> None:
    lines = remove_styles(draw(answered, columns)).splitlines()
    drawn = [line for line in lines if line and line[0] in "╭│╰"]
    assert all(count_columns(line) == columns for line in drawn)
    assert bool(drawn) is (columns >= 30)


def test_without_styles_it_is_as_written(answered: Desk) -> None:
    seen = draw(answered, NO_COLOR="1")
    assert "\x1b" not in seen
    assert "│ # Wrote it " in seen
    assert "one `code` and **bold**" in seen


def test_a_dumb_terminal_gets_the_lines_of_a_pipe(answered: Desk) -> None:
    assert draw(answered, TERM="dumb") == answered("job", "show", "j1").out


def test_a_terminal_without_unicode_gets_other_borders(answered: Desk) -> None:
    seen = remove_styles(draw(answered, PYTHONIOENCODING="ascii"))
    assert "+- task -" in seen
    assert "\\u" not in seen.replace("\\u001b", "")


def test_commands_stay_on_one_line(answered: Desk) -> None:
    seen = remove_styles(draw(answered, columns=60))
    assert "   to answer by hand: logist job poststep --job j1 --response-file FILE\n" in seen
