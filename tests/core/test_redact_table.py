"""The table of sorts: for each what it must find, and what looks like it and is none."""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import product

import pytest

from logist.core.secrets import secrets_table
from logist.core.secrets.redact import REDACTED, find_secrets, redact

# Put together here, so that no scanner takes this file for a leak. `<a>` ... stand for the runs below.
RUNS = {
    "mix": "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vWxY2z",
    "mix16": "aB3dE5fG7hI9jK1l",
    "up16": "IOSFODNN7EXAMPL2",
    "hex32": "0123456789abcdef" * 2,
    "mix40": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzKEYab1",
    "d9": "123456789",
    "d12": "123456789012",
    "pw": "hunt3r-and-m0re",
    "bot": "MTIzNDU2Nzg5MDEyMzQ1Njc4",
    "words": "only-hyphened-words-and-nothing-more-than-those",
    "b64": "MIIEowIBAAKCAQEA",
}


def spelled(text: str) -> str:
    return re.sub(r"<(\w+)>", lambda match: RUNS.get(match[1], match[0]), text)


# Kind -> texts with one secret in ⟦ ⟧, and texts without any.
TABLE: dict[str, tuple[list[str], list[str]]] = {
    "API key (sk-)": (
        ["⟦sk-<mix>⟧", "key ⟦sk-ant-api03-<mix>_<mix>AA⟧.", "OPENAI=⟦sk-proj-<mix>⟧"],
        ["sk-<words>", "task-<mix>", "sk-2024"],
    ),
    "xAI key": (["⟦xai-<mix>⟧", "(⟦xai-<mix><mix>⟧)"], ["xai-<words>", "maxai-<mix>", "xai-short1"]),
    "Google API key": (["⟦AIzaSy<mix>⟧", "?key=⟦AIza<mix>⟧&x"], ["AIzaShort", "BAIza<mix>"]),
    "Google OAuth token": (["⟦ya29.<mix>⟧", "'⟦ya29.a0<mix>-_<mix>⟧'"], ["ya29.short", "Maya29.<mix>"]),
    "Google client secret": (
        ["⟦GOCSPX-<mix>⟧", '"⟦GOCSPX-<mix16>-_AbCd⟧"'],
        ["GOCSPX-short", "XGOCSPX-<mix>"],
    ),
    "GitHub token": (
        ["⟦ghp_<mix>⟧", "⟦gho_<mix>⟧", "⟦ghu_<mix>⟧", "⟦ghs_<mix>⟧ is of an app", "⟦ghr_<mix>⟧"],
        ["ghp_short", "ghx_<mix>", "high_<mix>"],
    ),
    "GitHub fine-grained token": (
        ["⟦github_pat_11ABCDEFG0<mix>_<mix>⟧", "x=⟦github_pat_<mix>⟧"],
        ["github_pat_ tokens", "my_github_pat_<mix>"],
    ),
    "GitLab token": (
        ["⟦glpat-<mix16>Abc4⟧", "⟦glrt-t1_<mix>⟧", "⟦gldt-<mix16>-x_9⟧", "⟦glptt-<hex32>abcdef01⟧"],
        ["glpat-short1", "glpat-<words>", "anglpat-<mix>"],
    ),
    "AWS key id": (["⟦AKIA<up16>⟧", "⟦ASIA<up16>⟧,"], ["AKIAshort", "AKIA<up16>x", "aAKIA<up16>"]),
    "AWS secret key": (
        [
            "aws_secret_access_key = ⟦<mix40>⟧",
            '"SecretAccessKey": "⟦<mix40>⟧"',
            "AWS_SECRET_ACCESS_KEY=⟦<mix40>⟧",
            r"{\"secretAccessKey\":\"⟦<mix40>⟧\"}",
        ],
        ["the tree <mix40> of git", "aws_secret_access_key = ${FROM_THE_VAULT}", "secret_access_key: str"],
    ),
    "Slack token": (
        ["⟦xoxb-<d12>-<d12>-<mix16>⟧", "⟦xoxp-<d12>-<d12>⟧", "⟦xoxe.xoxp-1-<mix>⟧"],
        ["xoxo-", "xoxb-short", "fooxoxb-<d12>"],
    ),
    "Slack app token": (["⟦xapp-1-A0<up16>-<d12>-<hex32>⟧", "=⟦xapp-2-<mix>⟧"], ["xapp-1-a", "xapp-<words>"]),
    "Slack webhook": (
        [
            "https://hooks.slack.com/services/⟦T0123ABCD/B0123ABCD/<mix16>⟧",
            "hooks.slack.com/triggers/⟦T0A/<mix>⟧",
        ],
        ["https://hooks.slack.com/services/", "https://slack.com/services/T0123ABCD/B0123ABCD/<mix16>"],
    ),
    "Azure key": (
        [
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=⟦<mix><mix>==⟧;EndpointSuffix=x",
            "SharedAccessKeyName=Root;SharedAccessKey=⟦<mix>zyxwvut=⟧",
        ],
        ["AccountKey=short", "AccountKey=<your-key>", "SharedAccessKeyName=RootManageSharedAccessKey"],
    ),
    "Azure shared access signature": (
        ["https://a.blob.core.windows.net/c?sv=2022&sig=⟦<mix>%2Bx%3D⟧&se=1", "?sig=⟦<mix>zyx=⟧"],
        ["?sig=short", "design=<mix>", "&sig=..."],
    ),
    "Stripe key": (
        ["⟦sk_live_<mix16>⟧", "⟦rk_test_<mix>⟧", "⟦pk_live_<mix16>⟧"],
        ["sk_live_short", "task_live_<mix>", "sk_test_of_the_thing"],
    ),
    "Stripe webhook secret": (["⟦whsec_<mix>⟧", "⟦whsec_<mix>+/aa==⟧"], ["whsec_short", "xwhsec_<mix>"]),
    "Twilio key": (["⟦SK<hex32>⟧", "sid ⟦SK<hex32>⟧."], ["SK<hex32>0", "DISK<hex32>", "SK0123"]),
    "SendGrid key": (
        ["⟦SG.<mix16>AbCdEf.<mix>-_aaaaa⟧", "=⟦SG.ab_<mix16>-x1.<mix><mix16>⟧"],
        ["SG.short.x", "MSG.<mix16>.<mix>"],
    ),
    "npm token": (["⟦npm_<mix>⟧", "⟦npm_<mix>⟧\n"], ["npm_config_registry", "npm_short", "pnpm_<mix>"]),
    "PyPI token": (
        ["⟦pypi-AgEIcHlwaS5vcmc<mix><mix>⟧", "__token__ ⟦pypi-AgENdGVzd<mix>-_<mix>⟧"],
        ["pypi-<words>", "pypi-server-2", "mypypi-AgEIcHlwaS5vcmc<mix><mix>"],
    ),
    "Hugging Face token": (
        ["⟦hf_<mix>⟧", "'⟦hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh⟧'"],
        ["hf_hub_download", "shf_<mix>"],
    ),
    "Telegram bot token": (
        [
            "⟦<d9>:AAF<mix16>Bc-_EfGhIjKlMnOp⟧",
            "https://api.telegram.org/bot⟦<d9>:AAEabcdefghijklmnopqrstuvwxyz123456⟧/getMe",
        ],
        ["10:AAF<mix16>Bc-_EfGhIjKlMnOp", "<d9>:AAshort", "12:30:AA"],
    ),
    "Discord token": (
        ["⟦<bot>.GhIjKl.<mix>⟧", "⟦<bot>Mz.Xy-z_1.<mix16>AbCd-_EfGhIj⟧"],
        ["MyLongClassNameAbcdefghij.method.some_long_function_name_of_it", "<bot>.short.x"],
    ),
    "Discord webhook": (
        ["https://discord.com/api/webhooks/<d9><d9>/⟦<mix><mix>⟧", "/api/webhooks/<d9><d9>/⟦<mix>-_<mix16>⟧"],
        ["/api/webhooks/<d9><d9>/edit", "/api/webhooks/list/<mix><mix>"],
    ),
    "JSON Web Token": (
        ["⟦eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.<mix>⟧", "v ⟦eyJ0eXAiOiJK.eyJzdWIiOiIx.<mix16>⟧!"],
        ["eyJ.a.b", "eyJhbGciOiJIUzI1NiJ9 alone", "keyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.<mix>"],
    ),
    "private key": (
        [
            "⟦-----BEGIN RSA PRIVATE KEY-----\n<b64>\n-----END RSA PRIVATE KEY-----⟧",
            "⟦-----BEGIN PRIVATE KEY-----\\n<b64>\\n-----END PRIVATE KEY-----⟧\\n",
            "⟦-----BEGIN OPENSSH PRIVATE KEY-----\n<b64>\n<b64>⟧ cut off",
        ],
        [
            "-----BEGIN PRIVATE KEY----- is its head",
            "-----BEGIN CERTIFICATE-----\n<b64>\n-----END CERTIFICATE-----",
        ],
    ),
    "password in a URL": (
        [
            "postgres://app:⟦hunter2⟧@db.example.org/x",
            "https://oauth2:⟦<pw>⟧@git.example.org/a.git",
            "redis://:⟦<pw>⟧@localhost:6379",
            "amqp://u:⟦p:w%40x⟧@[::1]:5672",
        ],
        [
            "postgres://user:password@localhost/x",
            "https://example.org:8080/@someone",
            "git@github.com:owner/name.git",
            "https://user:${PASSWORD}@host",
            "ssh://git@host:22/x",
            "https://a.example/x:y@z",
        ],
    ),
    "authorization header": (
        [
            "Authorization: Bearer ⟦<mix16>⟧",
            '-H "Authorization: Basic ⟦dXNlcjpodW50ZXIy⟧"',
            '{"authorization": "token ⟦<mix16>⟧"}',
            r"{\"Authorization\":\"Bearer ⟦<mix16>⟧\"}",
        ],
        [
            "Authorization: Bearer $TOKEN",
            "Authorization: Bearer YOUR_TOKEN_HERE",
            "the authorization header",
            "authorization: required",
            'headers["Authorization"] = f"Bearer {token}"',
        ],
    ),
    "bearer token": (
        ["Bearer ⟦<mix>⟧", "bearer ⟦<hex32>⟧"],
        ["bearer of bad news", "Bearer authentication-is-what-we-need", "forbearer <mix>"],
    ),
    "password or key value": (
        [
            "password=⟦<pw>⟧",
            'DB_PASSWORD: "⟦<pw>⟧"',
            "'api_key': '⟦<hex32>⟧',",
            'client_secret = "⟦<mix16>⟧"',
            "x-api-key: ⟦<mix16>⟧",
            "?access_token=⟦<mix16>⟧&page=2",
            r"{\"apiKey\": \"⟦<mix16>⟧\"}",
            "DB_PASS=⟦<pw>⟧",
            "PGPASSWORD=⟦<pw>⟧ psql",
            "//registry.example.org/:_authToken=⟦<mix16>⟧",
        ],
        [
            "password = os.environ['DB_PASSWORD_2']",
            "def login(password: str, token: str | None = None) -> Session1:",
            "api_key = settings.api_key_1",
            'token = get_token_2("x")',
            "password=password",
            'password = "YOUR_PASSWORD_1"',
            "secret: ${{ secrets.DEPLOY_KEY_1 }}",
            'api_key="<your-api-key-1>"',
            "PASSWORD_FILE=/run/secrets/db1",
            "password: /run/secrets/db-1",
            "max_tokens=4096, tokens: 12345678",
            "primary_key=order_id_17",
            "token: 12345678",
            "The password: it has to be changed in 30 days.",
            "PASS: tests/test_a1.py::test_x2",
            "password=xxxxxxxx1x",
            "next page token=, secret=",
            "hash_key: a1b2c3d4e5",
        ],
    ),
}
POSITIVE = [(kind, text) for kind, (texts, _) in TABLE.items() for text in texts]
NEGATIVE = [(kind, text) for kind, (_, texts) in TABLE.items() for text in texts]


def test_every_sort_has_two_examples_of_either_side_at_least() -> None:
    assert {sort.kind for sort in secrets_table.SORTS} == set(TABLE)
    assert [kind for kind, sides in TABLE.items() if min(map(len, sides)) < 2] == []


@pytest.mark.parametrize(("kind", "text"), POSITIVE)
def test_what_is_a_secret_goes_and_nothing_else(kind: str, text: str) -> None:
    marked = spelled(text)
    plain = re.sub("[⟦⟧]", "", marked)
    assert redact(plain, []) == (re.sub("⟦.*?⟧", REDACTED, marked, flags=re.DOTALL), 1)
    assert kind in {match.kind for match in secrets_table.find_by_pattern(plain)}


@pytest.mark.parametrize(("kind", "text"), NEGATIVE)
def test_what_only_looks_like_one_stays(kind: str, text: str) -> None:
    plain = spelled(text)
    assert kind not in {match.kind for match in secrets_table.find_by_pattern(plain)}


@pytest.mark.deep_beyond(20)
@pytest.mark.parametrize(("kind", "text"), POSITIVE)
def test_twice_is_the_same(kind: str, text: str) -> None:
    once, _ = redact(spelled(re.sub("[⟦⟧]", "", text)), [])
    assert redact(once, []) == (once, 0), kind


@pytest.mark.parametrize(
    "text",
    [
        r"{\"key\": \"sk\u002d%s\"}",
        r"{\"key\": \"\u0073k-%s\"}",
        r"{\\\"key\\\": \\\"\\u0073k-%s\\\"}",
        r"'\x73k-%s'",
    ],
)
def test_an_escape_hides_no_key(text: str) -> None:
    assert RUNS["mix"] not in redact(text % RUNS["mix"], [])[0]


FLOODS = [
    *("password=", "password=1a", "api_key='a1", "://a:", "://a", "Bearer a ", "Authorization: a ", "key=1a"),
    *(
        "\\u0041",
        "\\\\u0041",
        "%41",
        "\n",
        "\\n",
        "glpat-1",
        "SG.",
        "pypi-a",
        "M" * 4,
        "1:AA",
        "&sig=",
        "\u0130",
    ),
    *(
        "AccountKey=",
        "secret_access_key=",
        "hooks.slack.com/services/",
        "/api/webhooks/1/",
        "a" * 9,
        "\\" * 9,
    ),
]


@pytest.mark.deep
@pytest.mark.parametrize("part", FLOODS)
def test_a_flood_of_the_worst_is_read_in_a_moment(part: str) -> None:
    text = (part * 1_500_000)[:1_500_000]
    start = time.process_time()
    redact(text, ["a-known-secret"])
    assert time.process_time() - start < 30  # a search that is not linear takes hours


def test_matches_come_in_order_and_apart() -> None:
    text = spelled("password=sk-<mix> and Bearer <mix> and npm_<mix>")
    places = find_secrets(text, {RUNS["mix"]: "it"})
    assert [text[place.start : place.end] for place in places] == [
        spelled("sk-<mix>"), RUNS["mix"], spelled("npm_<mix>")
    ]  # fmt: skip
    assert Counter(place.kind for place in places)["it"] == 1


def test_a_word_without_a_value_is_not_searched_closely_and_nothing_else_is_missed() -> None:
    """Of the sorts that are only searched near `=` or `:`, the same is found as by their patterns alone."""
    sorts = [sort for sort in secrets_table.SORTS if sort.any_case]
    values = [f"{RUNS['mix40'].lower()} ", "hunt3r-and-m0re", "x"]
    names = ["secret_access_key", "secret-key", "secretaccesskey", "my_pass", "passphrase", "api_key", "pwd"]
    names += ["password", "passwt", "authorization", "bot-token", "signing-key"]
    gaps = ["", " ", "\t  ", "    "]
    for name, quote, gap, sign, value in product(
        names, ["", '"', "\\\\\\'"], gaps, ["=", ":=", "=>", ":", " "], values
    ):
        text = f"secret {name}{quote}{gap}{sign}{gap}{quote}{value}; pass {name} token"
        for sort in sorts:
            found = [match.span() for match in secrets_table._find_stepwise(sort, text)]
            assert found == [match.span() for match in sort.pattern.finditer(text)], (sort.hint, text)


def test_a_text_of_ordinary_words_needs_no_pattern() -> None:
    """Compiling a pattern takes longer than the rest of the search, and prompts have all of these words."""
    text = "The right single key passes; the secret of a good password is its length. Token by token, enough!"
    secrets_table._compile.cache_clear()
    assert list(secrets_table.find_by_pattern(text)) == []
    assert (
        secrets_table._compile.cache_info().currsize == 1
    )  # a part of a Discord token, because of the full stop
