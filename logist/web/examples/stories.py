"""The example jobs: one for each thing that a job can wait for, and one for each way to end.

Each function makes one job; `STORIES` lists them with the time at which the job begins, in hours before now.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from logist.jobs.base import budgets
from logist.store.provider_wait import USED_UP, ProviderWait
from logist.web.examples.making import (
    ExampleAnswer,
    ExampleJob,
    Killed,
    complete,
    give_up,
    retry,
    review,
)
from logist.web.examples.shop import DISCOUNTED

Story = Callable[[ExampleJob], None]
PASSED = "The work does what the task asks."


def _ask_question(example: ExampleJob) -> None:
    options = [
        {"label": "one file, no server to run", "value": "sqlite"},
        {"label": "several shops can share it", "value": "postgres"},
    ]
    question = (
        "Which database should keep the orders? The task does not say whether several shops share them."
    )
    output = {"type": "question", "question": question, "options": options, "default": "sqlite"}
    example.create(
        "Keep orders in a database, so that they survive a restart.",
        give_up(question, output),
        title="Keep orders in a database",
        tags=["orders"],
    )
    example.job.step()


def _cut_off(example: ExampleJob) -> None:
    text = 'I have added the endpoint `/orders` and its tests. Here is my exit command:\n\n```json\n{"action": "COMPLETED", "evidence_files": ["shop/ord'
    example.create(
        "Add an endpoint that lists all orders as JSON.", ExampleAnswer(text), title="List all orders"
    )
    example.job.step()


def _use_all_attempts(example: ExampleJob) -> None:
    example.create(
        "The test test_a_basket_costs_the_sum_of_its_articles fails about once in ten runs. Find out why, and fix it.",
        retry("I ran the test 50 times and it never failed, so I have nothing to fix."),
        retry("It failed once under load, but I could not find the cause."),
        retry("I suspect the order of the articles, but I can't show it."),
        title="Fix the flaky test",
        tags=["tests"],
    )
    example.job.run()


def _break_permissions(example: ExampleJob) -> None:
    plan = {
        "goal": "Smaller images",
        "steps": [{"step_number": 1, "action": "Install Pillow", "reason": "To scale"}],
    }
    example.create(
        "Plan how product images are made smaller.",
        complete(
            "The plan is ready; I have added Pillow to the requirements already.",
            {"requirements.txt": "pillow\n"},
            output=plan,
        ),
        title="Plan smaller images",
        role="Planner",
    )
    example.job.step()


def _lose_a_call(example: ExampleJob) -> None:
    example.create(
        "Translate all messages to German.", ExampleAnswer("", kills=True), title="Translate the messages"
    )
    with suppress(Killed):
        example.job.step()
    example.job.step()


def _miss_a_branch(example: ExampleJob) -> None:
    example.create(
        None,
        complete(
            "It is a question about opening hours, neither a bug nor a wish.", output={"kind": "question"}
        ),
        title="Report 118: when are you open?",
        workflow="triage",
    )
    example.job.run()


def _divide(example: ExampleJob, title: str, task: str, parts: list[str]) -> None:
    example.create(
        None,
        complete(f"{len(parts)} parts.", output={"parts": parts}),
        title=title,
        workflow="fan-out",
        input={"task": task},
    )
    example.job.step()
    example.job.step()


def _fail_a_share(example: ExampleJob) -> None:
    _divide(example, "Describe each article", "Describe the articles", ["tea", "coffee", "mug"])
    for number, article in enumerate(("tea", "coffee"), 1):
        example.answer_child(
            number, complete(f"Described {article}.", {f"articles/{article}.md": f"# {article}\n"})
        )
        example.find_child(number).run()
    example.find_child(3).cancel("We don't sell mugs any more.")
    example.job.step()


def _conflict(example: ExampleJob) -> None:
    _divide(example, "One style for all prices", "Format prices", ["in the shop", "in the mails"])
    for number, sign in enumerate(("EUR", "€"), 1):
        text = f"# Shop\n\nA small shop. Prices are in {sign}.\n"
        example.answer_child(number, complete(f"Prices are in {sign} now.", {"README.md": text}))
        example.find_child(number).run()
    example.job.step()


def _create_late_merge(example: ExampleJob) -> None:
    """Its work conflicts with the work of another job, which was merged first."""
    text = "# Shop\n\nA shop for tea, coffee and mugs.\n\n    python -m shop\n"
    example.create(
        "Say in the README what the shop sells.",
        complete("The README says what the shop sells.", {"README.md": text}),
        review("PASS", PASSED),
        title="Say what we sell",
        approval="none",
        auto_merge=True,
    )


def _wait_for_approval(example: ExampleJob) -> None:
    example.create(
        "Customers can enter a discount code. A code reduces the price of the basket by its percentage; unknown codes are an error.",
        retry("I have rounded each article instead of the basket; I will start over.", cost_cents=4.1),
        complete(
            "Discount codes work, with tests. `compute_total` takes a code; half a cent is rounded up. I have removed old_prices.py, which nothing imports.",
            DISCOUNTED,
            evidence=("shop/discounts.py", "shop/prices.py", "tests/test_prices.py", "docs/discounts.md"),
            minutes=11,
            cost_cents=21.5,
        ),
        review(
            "PASS",
            "All criteria are met. One warning: the codes are in the source.",
            {
                "check": "code_quality",
                "severity": "warning",
                "file": "shop/discounts.py",
                "line": 3,
                "message": "The codes are in the source: a new code needs a release.",
            },
            cost_cents=6.4,
        ),
        title="Discount codes",
        acceptance_criteria=[
            "Unknown codes are an error",
            "Prices are never negative",
            "Every rule has a test",
        ],
        tags=["prices", "customers"],
        model="claude-sonnet-4-5",
    )
    example.job.run()


def _plan(example: ExampleJob) -> None:
    steps = [
        {
            "step_number": 1,
            "action": "In shop/orders.py, hide ORDERS behind add_order() and list_orders()",
            "reason": "Then only one module knows how orders are kept",
        },
        {
            "step_number": 2,
            "action": "Keep the last 100 baskets in a dict in shop/prices.py",
            "reason": "Most customers look at the same basket several times",
        },
        {
            "step_number": 3,
            "action": "Add a test that a changed price is seen at once",
            "reason": "This is what usually breaks",
        },
    ]
    output = {
        "goal": "The same basket is computed once",
        "steps": steps,
        "risks": ["A price that changes during the day would be seen too late"],
    }
    example.create(
        "Plan a cache for the prices of baskets.",
        complete(
            "Three steps; the risk is prices that change during the day.",
            evidence=("shop/prices.py",),
            output=output,
        ),
        title="Plan a cache for prices",
        role="Planner",
        review=False,
    )
    example.job.run()


def _wait_for_person(example: ExampleJob) -> None:
    example.create(
        None,
        complete(
            "Built two packages.",
            {"dist/shop-1.5.tar.gz": "…\n", "dist/shop-1.5.whl": "…\n"},
            output={"files": ["shop-1.5.tar.gz", "shop-1.5.whl"]},
        ),
        title="Release 1.5",
        workflow="release",
        tags=["release"],
    )
    example.job.run()


def _reach_cost(example: ExampleJob) -> None:
    example.create(
        "Read every module, and write an overview of the architecture.",
        retry("I have read half of the modules.", cost_cents=50),
        title="Overview of the architecture",
        limits={"cost_threshold": 50},
    )
    example.job.run()


def _reach_time(example: ExampleJob) -> None:
    example.create(
        "Import the articles of the last ten years.",
        retry("The import takes longer than I thought.", minutes=31),
        title="Import old articles",
        limits={"time_threshold_minutes": 30},
    )
    example.job.run()


def _reach_runs(example: ExampleJob) -> None:
    example.create(
        "Make the text of the home page friendlier.",
        complete("Friendlier now.", {"home.md": "Hello!\n"}),
        review(
            "FAIL",
            "It should also mention tea.",
            {
                "check": "code_quality",
                "severity": "error",
                "file": "home.md",
                "line": 1,
                "message": "Does not mention tea.",
            },
        ),
        complete("It mentions tea.", {"home.md": "Hello! We have tea.\n"}),
        title="A friendlier home page",
        limits={"max_allowed_iterations": 3},
    )
    example.job.run()


def _give_up_on_provider(example: ExampleJob) -> None:
    _wait_for_provider(example, gave_up=True)


def _wait_for_provider(example: ExampleJob, *, gave_up: bool = False) -> None:
    example.create(
        "Add photos to the articles." if gave_up else "Suggest articles that fit together.",
        title="Photos of the articles" if gave_up else "Suggest articles",
    )
    state, now = example.job.state, example.context.clock.now().timestamp()
    example.context.open_job(example.id).write_wait(
        ProviderWait(
            "xai",
            state.revision,
            tries=9 if gave_up else 1,
            reason="503",
            message="The model is overloaded. Try again later.",
            role="Worker",
            began=now,
            pause=3600.0 * 24,
            waited=3600.0 * 4 if gave_up else 20.0,
            gave_up=gave_up,
        )
    )


def _wait_for_budget(example: ExampleJob) -> None:
    example.create("Shorten the texts of the categories.", title="Shorter categories")
    context, state = example.context, example.job.state
    context.open_job(example.id).write_wait(
        ProviderWait(
            "budget daily",
            state.revision,
            tries=1,
            reason=USED_UP,
            message="budget daily: $4.98 of $5.00 used; the next call can use up to $0.06",
            role="Worker",
            began=context.clock.now().timestamp(),
            pause=3600.0 * 24,
            budget="daily",
            budgets=budgets.compute_fingerprint(context),
        )
    )


def _snooze(example: ExampleJob) -> None:
    output = {
        "type": "question",
        "question": "Does the new logo replace the old one everywhere?",
        "options": ["yes", "no"],
    }
    example.create("Use the new logo.", give_up("Everywhere?", output), title="Use the new logo")
    example.job.step()


def _merge(example: ExampleJob) -> None:
    text = "# Shop\n\nA small shop for good tea. Prices are in cents.\n\n    python -m shop\n"
    example.create(
        "Mention tea in the README.",
        complete("The README mentions tea.", {"README.md": text}),
        review("PASS", PASSED),
        title="Mention tea",
        tags=["docs"],
    )
    example.job.run()
    example.pass_time(hours=1)
    example.job.approve("Thank you")
    example.job.merge()


def _succeed(example: ExampleJob) -> None:
    example.create(
        "Add a test for an empty basket.",
        complete(
            "Added the test.",
            {
                "tests/test_empty.py": "from shop.prices import compute_total\n\n\ndef test_an_empty_basket_costs_nothing() -> None:\n    assert compute_total({}) == 0\n"
            },
        ),
        review("PASS", PASSED),
        title="Test an empty basket",
        tags=["tests"],
    )
    example.job.run()
    example.pass_time(hours=2)
    example.job.approve()


def _fail(example: ExampleJob) -> None:
    example.create(
        "Support payment by cheque.", give_up("No bank offers this any more."), title="Payment by cheque"
    )
    example.job.step()
    example.job.fail("No customer wants it.")


def _cancel(example: ExampleJob) -> None:
    example.create("Print receipts on paper.", title="Receipts on paper")
    example.job.cancel("We send them by mail.")


def _leave_in_review(example: ExampleJob) -> None:
    example.create(
        "Describe how to install the shop.",
        complete("Described it.", {"INSTALL.md": "# Install\n\n    pip install .\n"}),
        title="How to install it",
        tags=["docs"],
    )
    example.job.step()


def _suspend(example: ExampleJob) -> None:
    example.create("Move the shop to Python 3.14.", title="Move to Python 3.14")
    example.job.suspend("After the release.")


def _create_only(example: ExampleJob) -> None:
    example.create("Round prices in the same way everywhere.", title="Round prices", rank=1)


def _draft(example: ExampleJob) -> None:
    example.create("Gift cards: not decided yet.", draft=True, title="Gift cards")


def _go_half_way(example: ExampleJob) -> None:
    """A workflow with a foreach, of which two items are done, one has a question, and one was not begun."""
    changes = ["Search in all pages", "Dark colours", "Printing lost the last line", "Faster start"]
    example.create(
        None,
        complete("Four changes.", output={"changes": changes}),
        title="Release notes for 1.5",
        workflow="release-notes",
        input={"since": "1.4", "version": "1.5"},
        tags=["release"],
    )
    example.job.step()
    example.job.step()
    for number in (1, 3):
        example.answer_child(
            number,
            complete(
                f"Wrote paragraph {number}.",
                {f"notes/{number}.md": f"{changes[number - 1]}.\n"},
                cost_cents=1.1,
            ),
        )
        example.find_child(number).run()
    example.answer_child(
        2,
        give_up(
            "Is this in the release at all?",
            {
                "type": "question",
                "question": "Is “Dark colours” in the release at all?",
                "options": ["yes", "no"],
            },
        ),
    )
    example.find_child(2).run()


def _finish_notes(example: ExampleJob) -> None:
    """The same workflow, up to its last step."""
    changes = ["Prices in cents", "A test for each price"]
    example.create(
        None,
        complete("Two changes.", output={"changes": changes}),
        complete("Joined them.", {"NOTES.md": "Two changes.\n"}, output={"length": "long"}),
        review("PASS", PASSED),
        complete("Shorter now.", {"NOTES.md": "Two.\n"}, output={"length": "short"}),
        title="Release notes for 1.4",
        workflow="release-notes",
        input={"since": "1.3", "version": "1.4"},
        tags=["release"],
    )
    example.job.step()
    example.job.step()
    for number in (1, 2):
        example.answer_child(number, complete("Wrote it.", {f"notes/{number}.md": "…\n"}, cost_cents=0.9))
        example.find_child(number).run()
    while example.job.state.step != "spelling" or not example.job.state.children:
        example.job.step()
    example.answer_child(1, complete("No mistakes.", cost_cents=0.4))
    example.job.run()
    example.job.approve(output={"url": "https://example.org/1.4"})


def _make_plain(title: str, role: str, model: str, cost_cents: float, *, fails: bool = False) -> Story:
    """Return a story of a job that ended some days ago, for the charts of costs."""

    def story(example: ExampleJob) -> None:
        bad = retry("It did not work.", minutes=3, cost_cents=cost_cents / 2)
        report = {"passed": True, "commands": [{"command": "pytest", "result": "all passed"}]}
        output = report if role == "Tester" else None
        work = complete(f"{title}: done.", output=output, minutes=4, cost_cents=cost_cents)
        answers = [bad, bad, bad] if fails else [bad, work] if cost_cents > 30 else [work]
        answers.append(review("PASS", PASSED, cost_cents=cost_cents / 5))
        example.create(
            f"{title}.", *answers, title=title, role=role, model=model, repo=False, approval="none"
        )
        example.job.run()
        if fails:
            example.job.fail("Not worth it.")

    return story


STORIES: dict[str, tuple[float, Story]] = {
    "orders-database": (5, _ask_question),
    "list-orders": (7, _cut_off),
    "flaky-test": (26, _use_all_attempts),
    "smaller-images": (30, _break_permissions),
    "translate-messages": (3, _lose_a_call),
    "report-118": (50, _miss_a_branch),
    "describe-articles": (28, _fail_a_share),
    "one-style": (54, _conflict),
    "discount-codes": (2, _wait_for_approval),
    "plan-cache": (6, _plan),
    "release-15": (22, _wait_for_person),
    "architecture": (74, _reach_cost),
    "import-articles": (49, _reach_time),
    "home-page": (4, _reach_runs),
    "article-photos": (8, _give_up_on_provider),
    "suggest-articles": (1, _wait_for_provider),
    "shorter-categories": (5, _wait_for_budget),
    "new-logo": (120, _snooze),
    "empty-basket": (98, _succeed),
    "cheques": (146, _fail),
    "paper-receipts": (220, _cancel),
    "install-guide": (2, _leave_in_review),
    "python-314": (170, _suspend),
    "round-prices": (1, _create_only),
    "gift-cards": (75, _draft),
    "notes-15": (9, _go_half_way),
    "notes-14": (340, _finish_notes),
    "basket-page": (10, _make_plain("A page for the basket", "Worker", "claude-sonnet-4-5", 42)),
    "stock-levels": (33, _make_plain("Show stock levels", "Worker", "grok-code-fast-1", 12)),
    "price-tests": (57, _make_plain("Tests of prices", "Tester", "gemini-2.5-flash", 6)),
    "mail-texts": (81, _make_plain("Friendlier mails", "Worker", "grok-code-fast-1", 9)),
    "log-format": (103, _make_plain("One format for logs", "Worker", "claude-sonnet-4-5", 35)),
    "old-browser": (127, _make_plain("Support old browsers", "Worker", "grok-code-fast-1", 18, fails=True)),
    "speed-tests": (151, _make_plain("Tests of speed", "Tester", "gemini-2.5-flash", 8)),
    "search-page": (200, _make_plain("A page for searching", "Worker", "claude-sonnet-4-5", 55)),
    "export-csv": (310, _make_plain("Export orders as CSV", "Worker", "grok-code-fast-1", 15)),
    "vat": (480, _make_plain("Value added tax", "Worker", "claude-sonnet-4-5", 61)),
    "currency": (900, _make_plain("Other currencies", "Worker", "grok-code-fast-1", 22, fails=True)),
}
"""Each job, by its id: how many hours before now it begins, and what happens."""


def follow_others(stopped: ExampleJob, waiting: ExampleJob) -> None:
    """Two jobs that can't begin yet: one after a job that was canceled, and one after a job that waits for approval."""
    stopped.create(
        "Print the logo of the shop on receipts.", title="Logo on receipts", after=["paper-receipts"]
    )
    waiting.create("Announce the discount codes.", title="Announce discounts", after=["discount-codes"])


def merge_and_conflict(merged: ExampleJob, late: ExampleJob) -> None:
    """Two jobs that change the same line: the first is merged, so the second can't be."""
    _create_late_merge(late)
    _merge(merged)
    late.job.run()
