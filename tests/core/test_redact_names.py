"""Which variables hold a secret: by name, by value, and what only sounds like one."""

from __future__ import annotations

import pytest

from logist.core.secrets.secret_names import find_variable_secrets

VALUE = "s3cr3t-of-the-house"


def secrets(name: str, value: str) -> set[str]:
    return set(find_variable_secrets(name, value))


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "GITHUB_TOKEN", "aws_secret_access_key", "PGPASSWORD", "MYSQL_PWD", "DB_PASSWD"),
        *("AZURE_DEVOPS_EXT_PAT", "SMTP_PASS", "GPG_PASSPHRASE", "GOOGLE_CREDENTIALS", "SSH_PRIVATE_KEY"),
        *(
            "OPENAI_API_KEY_2",
            "GITHUB_TOKEN_BASE64",
            "MYAPIKEY",
            "TOKEN",
            "KEY",
            "BASIC_AUTH",
            "SESSION_COOKIE",
        ),
        *("NPM_AUTH", "APP_PRIVATE", "WIFI_PSK", "JWT", "AZURE_SAS", "SENTRY_DSN", "HTTP_AUTHORIZATION"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert VALUE in secrets(name, f" {VALUE}\n")


@pytest.mark.parametrize(
    "name",
    [
        *("PWD", "OLDPWD", "PATH", "KEYBOARD_LAYOUT", "MONKEY", "COMPASS", "GIT_AUTHOR_EMAIL", "XAUTHORITY"),
        *("SSH_AUTH_SOCK", "DB_PASSWORD_FILE", "SECRET_DIR", "KEY_PATH", "TOKEN_NAME", "PATTERN", "BYPASSED"),
        *("SESSION_MANAGER", "DBUS_SESSION_BUS_ADDRESS", "LESSKEYIN", "TERM_PROGRAM", "AUTHOR", "PASSENGERS"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert secrets(name, VALUE) == set()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/ada/keys/service-account.json"),
        ("DB_PASSWORD", "~/.config/app/password"),
        ("CLIENT_SECRET", "../secrets/client_2.pem"),
        ("TLS_PRIVATE_KEY", "/etc/ssl/private/Server.key"),
        ("SMTP_AUTH", "required"),
        ("COOKIE_SECURE", "true"),
        ("AUTH_MODE", "interactive"),
        ("AUTH_TIMEOUT", "100000000000"),
        ("MAX_TOKENS", "1000000000"),
        ("COOKIE_POLICY", "lax by default, 30 days"),
        ("API_TOKEN", "disabled"),
        ("TOKEN_ENDPOINT", "https://login.example.org/oauth2/v2/token"),
        ("SENTRY_DSN", "https://sentry.example.org/1"),
        ("DATABASE_URL", "postgres://db.example.org:5432/shop_2024"),
    ],
)
def test_values_that_are_no_secret(name: str, value: str) -> None:
    assert secrets(name, value) == set()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DATABASE_URL", "postgres://app:hunter2hunter2@db/shop", {"hunter2hunter2"}),
        ("DATABASE_URL", "postgres://app:p%40ss%2Fw0rd@db/shop", {"p%40ss%2Fw0rd", "p@ss/w0rd"}),
        ("HTTPS_PROXY", "http://ada:hunter2hunter2@proxy:3128", {"hunter2hunter2"}),
        ("SENTRY_DSN", "https://0123456789abcdef@o1.example.org/7", {"0123456789abcdef"}),
        ("REDIS_URL", "redis://:hunter2hunter2@cache:6379/0", {"hunter2hunter2"}),
        ("PIP_INDEX_URL", "https://0123456789abcdef:x-oauth-basic@index/", {"0123456789abcdef"}),
        (
            "AZURE_CONNECTION_STRING",
            "AccountName=a;AccountKey=abcdefghij1234==;X=y",
            {"AccountName=a;AccountKey=abcdefghij1234==;X=y", "abcdefghij1234=="},
        ),
        ("SLACK_WEBHOOK_URL", "https://hooks.example.org/T01/B02/abc123", {"https://hooks.example.org/T01/B02/abc123"}),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEYa", {"/wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEYa"}),
        ("API_KEY", "/wJalrXUtnFEMI/K7MDENGbPxRfiCYaXAMPLEKEYa", {"/wJalrXUtnFEMI/K7MDENGbPxRfiCYaXAMPLEKEYa"}),
        ("DB_PASSWORD", "correcthorse", {"correcthorse"}),
    ],
)  # fmt: skip
def test_the_part_that_is_the_secret(name: str, value: str, expected: set[str]) -> None:
    assert secrets(name, value) == expected


def test_a_variable_that_a_model_names_is_one_whatever_it_holds() -> None:
    assert set(find_variable_secrets("MY_LLM", "/just/a/path", named=True)) == {"/just/a/path"}
    assert secrets("MY_LLM", VALUE) == set()
