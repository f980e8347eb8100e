"""The repository of the example project: a small shop, and the workflows of its jobs."""

from __future__ import annotations

from typing import Final

FILES: Final = {
    "README.md": "# Shop\n\nA small shop. Prices are in cents.\n\n    python -m shop\n",
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/prices.py": '''\
"""Prices, in cents."""

PRICES = {"tea": 450, "coffee": 620, "mug": 1200}


def get_price(article: str) -> int:
    """Return the price of an article."""
    return PRICES[article]


def compute_total(basket: dict[str, int]) -> int:
    """Return the price of a basket: the number of each article, by its name."""
    total = 0
    for article in basket:
        total = total + get_price(article) * basket[article]
    return total
''',
    "shop/orders.py": '''\
"""Orders, kept in memory."""

ORDERS: list[dict[str, int]] = []


def place_order(basket: dict[str, int]) -> int:
    """Keep an order, and return its number."""
    ORDERS.append(basket)
    return len(ORDERS)
''',
    "shop/old_prices.py": '"""Prices of last year. Nothing imports this."""\n\nPRICES = {"tea": 420, "mug": 1100}\n',
    "tests/test_prices.py": """\
from shop.prices import compute_total


def test_a_basket_costs_the_sum_of_its_articles() -> None:
    assert compute_total({"tea": 2, "mug": 1}) == 2100
""",
}

DISCOUNTED: Final[dict[str, str | None]] = {
    "shop/discounts.py": '''\
"""Discount codes."""

CODES = {"WELCOME10": 10, "SUMMER25": 25}


class UnknownCode(ValueError):
    """The customer entered a code that does not exist."""


def get_percent(code: str) -> int:
    """Return the discount of a code, in percent. Raises UnknownCode."""
    try:
        return CODES[code.strip().upper()]
    except KeyError:
        raise UnknownCode(code) from None
''',
    "shop/prices.py": '''\
"""Prices, in cents."""

from shop.discounts import get_percent

PRICES = {"tea": 450, "coffee": 620, "mug": 1200}


def get_price(article: str) -> int:
    """Return the price of an article."""
    return PRICES[article]


def compute_total(basket: dict[str, int], code: str | None = None) -> int:
    """Return the price of a basket, less the discount of a code; half a cent is rounded up."""
    total = sum(get_price(article) * number for article, number in basket.items())
    if code is not None:
        total = (total * (100 - get_percent(code)) + 50) // 100
    return total
''',
    "shop/old_prices.py": None,
    "tests/test_prices.py": """\
import pytest

from shop.discounts import UnknownCode
from shop.prices import compute_total


def test_a_basket_costs_the_sum_of_its_articles() -> None:
    assert compute_total({"tea": 2, "mug": 1}) == 2100


@pytest.mark.parametrize(("code", "total"), [("WELCOME10", 1890), (" summer25 ", 1575)])
def test_a_code_reduces_the_price(code: str, total: int) -> None:
    assert compute_total({"tea": 2, "mug": 1}, code) == total


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(UnknownCode):
        compute_total({"tea": 1}, "FREE100")
""",
    "README.md": "# Shop\n\nA small shop. Prices are in cents.\n\n    python -m shop\n\n"
    "Customers can enter a discount code: see `shop/discounts.py`.\n",
}
"""What the agent changed for discount codes."""

WORKFLOWS: Final = {
    "release-notes.yaml": """\
name: release-notes
description: Release notes from a list of changes, a paragraph for each.
steps:
  - id: collect
    name: Collect the changes
    prompt: 'List what changed since version {{input.since}}. Output: {"changes": [...]}'
  - id: write
    name: Write a paragraph
    stepType: foreach
    itemsPath: output.changes
    itemVariable: change
    minSuccessPercent: 60
    prompt: Write notes/{{index}}.md about {{change}}.
  - id: together
    name: Join the paragraphs
    stepType: join
    review: true
    prompt: 'Put the paragraphs together into NOTES.md. Output: {"length": "short or long"}'
  - id: length
    name: How long are they?
    stepType: decision
    maxVisits: 3
    branches:
      - {condition: output.length == "long", targetStepId: shorten}
      - {condition: null, targetStepId: spelling}
  - id: shorten
    name: Make them shorter
    prompt: 'Shorten NOTES.md. Output: {"length": "short or long"}'
    next: length
  - id: spelling
    name: Check the spelling
    stepType: subflow
    subflowId: spelling.yaml
  - id: publish
    name: Publish them
    execution: manual
    assignee: alice
    prompt: Publish NOTES.md as version {{input.version}}.
""",
    "spelling.yaml": """\
name: spelling
steps:
  - id: check
    name: Look for mistakes
    prompt: Look for spelling mistakes in NOTES.md, and fix them.
""",
    "triage.yaml": """\
name: triage
description: Sorts a report, and does what it needs.
steps:
  - id: read
    name: Read the report
    prompt: 'What is it? Output: {"kind": "bug or wish"}'
  - id: kind
    name: What is it?
    stepType: decision
    branches:
      - {condition: output.kind == "bug", targetStepId: fix}
      - {condition: output.kind == "wish", targetStepId: plan}
  - id: fix
    name: Fix it
    prompt: Fix it, with a test.
    next: end
  - id: plan
    name: Plan it
    prompt: Write a plan for it.
""",
    "fan-out.yaml": """\
name: fan-out
description: A job for each part of a task.
steps:
  - id: divide
    name: Divide the task
    prompt: 'Divide the task into parts: {{input.task}}. Output: {"parts": [...]}'
  - id: parts
    name: Do a part
    stepType: foreach
    itemsPath: output.parts
    itemVariable: part
    prompt: "{{input.task}}, only this part: {{part}}"
  - id: check
    name: Check the whole
    stepType: join
    prompt: Check that the parts fit together.
""",
    "release.yaml": """\
name: release
steps:
  - id: build
    name: Build the packages
    prompt: 'Build the packages. Output: {"files": [...]}'
  - id: sign
    name: Sign and upload
    execution: manual
    assignee: alice
    prompt: Sign the packages with the key of the shop, and upload them.
  - id: announce
    name: Announce it
    prompt: Write the announcement.
""",
}
