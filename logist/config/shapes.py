"""The fields of the settings, for `plain_settings.py`. Written by `scripts/shapes`; a test compares."""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "Answers": (
        (),
        {
            "constrain": (("choice", "auto", "always", "never"), "auto"),
            "reask": (("limited", "int", {"ge": 0, "le": 10}), 0),
        },
    ),
    "ConfiguredCheck": (
        (),
        {
            "enabled": ("bool", True),
            "severity": (("choice", "error", "warning"), "warning"),
            "command": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "timeout_minutes": (("optional", ("limited", "float", {"gt": 0})), None),
        },
    ),
    "ConfiguredLimits": (
        (),
        {
            "cost_threshold": (("limited", "float", {"ge": 0, "allow_inf_nan": False}), 1000),
            "time_threshold_minutes": (("limited", "float", {"ge": 0, "allow_inf_nan": False}), 60),
            "max_allowed_iterations": (("limited", "int", {"ge": 0}), 50),
            "max_attempts": (("limited", "int", {"ge": 1}), 3),
        },
    ),
    "ContextRules": (
        (),
        {
            "max_file_bytes": (("limited", "int", {"ge": 0}), 65536),
            "max_total_bytes": (("limited", "int", {"ge": 0}), 262144),
            "listing_limit": (("limited", "int", {"ge": 0}), 500),
            "budget_tokens": (("limited", "int", {"ge": 1}), 100000),
            "relevant_files_limit": (("limited", "int", {"ge": 0}), 10),
            "relevant_files_tokens": (("limited", "int", {"ge": 0}), 20000),
            "prior_attempts_limit": (("limited", "int", {"ge": 0}), 3),
            "excluded_paths": (
                ("tuple", ("limited", "str", {"min_length": 1})),
                ["node_modules", "dist", ".git"],
            ),
            "custom_instructions": (("optional", "str"), None),
        },
    ),
    "HistoryRules": (
        (),
        {
            "rotate_at": (("limited", "int", {"ge": 0}), 16000000),
        },
    ),
    "Notify": (
        (),
        {
            "stuck": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "approval": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "halted": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "done": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "merged": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "queue_empty": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "environment": (("tuple", ("limited", "str", {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})), []),
            "timeout_seconds": (("limited", "float", {"gt": 0}), 60),
        },
    ),
    "Retries": (
        (),
        {
            "max_tries": (("limited", "int", {"ge": 1}), 4),
            "backoff_seconds": (("limited", "float", {"ge": 0}), 1.0),
            "max_wait_minutes": (("limited", "float", {"ge": 0}), 60.0),
        },
    ),
    "Review": (
        (),
        {
            "enabled": ("bool", True),
            "role": (("limited", "str", {"min_length": 1}), "Supervisor"),
            "model": (("optional", ("limited", "str", {"min_length": 1})), None),
            "mode": (("choice", "normal", "strict", "yolo"), "normal"),
            "checks": (
                ("map", ("record", "ConfiguredCheck"), ("limited", "str", {"min_length": 1})),
                {
                    "test_coverage": {
                        "enabled": True,
                        "severity": "warning",
                        "command": None,
                        "timeout_minutes": None,
                    },
                    "e2e_tests": {
                        "enabled": True,
                        "severity": "warning",
                        "command": None,
                        "timeout_minutes": None,
                    },
                    "code_quality": {
                        "enabled": True,
                        "severity": "warning",
                        "command": None,
                        "timeout_minutes": None,
                    },
                    "security": {
                        "enabled": True,
                        "severity": "error",
                        "command": None,
                        "timeout_minutes": None,
                    },
                    "build_passes": {
                        "enabled": True,
                        "severity": "error",
                        "command": None,
                        "timeout_minutes": None,
                    },
                    "lint_passes": {
                        "enabled": True,
                        "severity": "warning",
                        "command": None,
                        "timeout_minutes": None,
                    },
                },
            ),
            "check_timeout_minutes": (("limited", "float", {"gt": 0}), 10.0),
            "auto_merge": (("optional", "bool"), None),
        },
    ),
    "RoleChoice": (
        (),
        {
            "default": (("limited", "str", {"min_length": 1}), "Worker"),
            "type_mapping": (("map", ("limited", "str", {"min_length": 1})), {}),
        },
    ),
    "SandboxRules": (
        (),
        {
            "mode": (("choice", "auto", "required", "off"), "auto"),
            "memory_bytes": (("limited", "int", {"ge": 1}), 8589934592),
            "processes": (("limited", "int", {"ge": 1}), 512),
            "file_bytes": (("limited", "int", {"ge": 1}), 2147483648),
            "output_bytes": (("limited", "int", {"ge": 1}), 16777216),
            "readable": (("tuple", ("limited", "str", {"min_length": 1})), []),
        },
    ),
    "Settings": (
        (),
        {
            "limits": (
                ("record", "ConfiguredLimits"),
                {
                    "cost_threshold": 1000.0,
                    "time_threshold_minutes": 60.0,
                    "max_allowed_iterations": 50,
                    "max_attempts": 3,
                },
            ),
            "budget": ("unknown", {"timezone": None, "limits": {}}),
            "review": (
                ("record", "Review"),
                {
                    "enabled": True,
                    "role": "Supervisor",
                    "model": None,
                    "mode": "normal",
                    "checks": {
                        "test_coverage": {
                            "enabled": True,
                            "severity": "warning",
                            "command": None,
                            "timeout_minutes": None,
                        },
                        "e2e_tests": {
                            "enabled": True,
                            "severity": "warning",
                            "command": None,
                            "timeout_minutes": None,
                        },
                        "code_quality": {
                            "enabled": True,
                            "severity": "warning",
                            "command": None,
                            "timeout_minutes": None,
                        },
                        "security": {
                            "enabled": True,
                            "severity": "error",
                            "command": None,
                            "timeout_minutes": None,
                        },
                        "build_passes": {
                            "enabled": True,
                            "severity": "error",
                            "command": None,
                            "timeout_minutes": None,
                        },
                        "lint_passes": {
                            "enabled": True,
                            "severity": "warning",
                            "command": None,
                            "timeout_minutes": None,
                        },
                    },
                    "check_timeout_minutes": 10.0,
                    "auto_merge": None,
                },
            ),
            "approval": (("optional", ("word", "Approval")), None),
            "roles": (("record", "RoleChoice"), {"default": "Worker", "type_mapping": {}}),
            "model": (("optional", ("limited", "str", {"min_length": 1})), None),
            "models": (
                "unknown",
                {
                    "grok-code-fast-1": {
                        "provider_model": "xai/grok-code-fast-1",
                        "endpoint": None,
                        "api_key_env": "XAI_API_KEY",
                        "price": None,
                        "input_price": 1.0,
                        "output_price": 2.0,
                        "cached_price": 0.2,
                        "cache_write_price": None,
                        "reasoning_price": None,
                        "tiers": [
                            {
                                "above": 200000,
                                "input_price": 2.0,
                                "output_price": 4.0,
                                "cached_price": 0.4,
                                "cache_write_price": None,
                                "reasoning_price": None,
                            }
                        ],
                        "max_output_tokens": 8192,
                        "context_window": 256000,
                    },
                    "gemini-2.5-flash": {
                        "provider_model": "gemini/gemini-2.5-flash",
                        "endpoint": None,
                        "api_key_env": "GEMINI_API_KEY",
                        "price": None,
                        "input_price": 0.3,
                        "output_price": 2.5,
                        "cached_price": 0.03,
                        "cache_write_price": None,
                        "reasoning_price": None,
                        "tiers": [],
                        "max_output_tokens": 8192,
                        "context_window": 1048576,
                    },
                },
            ),
            "providers": ("unknown", {}),
            "agent": (("limited", "str", {"pattern": "^(scripted:.+|[a-z][a-z0-9_-]*)$"}), "model"),
            "agents": ("unknown", {}),
            "gate": (("choice", "on", "off"), "on"),
            "max_concurrent_agents": (("limited", "int", {"ge": 1}), 3),
            "agent_timeout_minutes": (("limited", "float", {"gt": 0}), 30.0),
            "poll_interval_seconds": (("limited", "float", {"gt": 0}), 5.0),
            "min_free_bytes": (("limited", "int", {"ge": 0}), 50000000),
            "on_stuck": (
                (
                    "optional",
                    (
                        "either",
                        ("limited", ("list", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                None,
            ),
            "notify": (
                ("record", "Notify"),
                {
                    "stuck": None,
                    "approval": None,
                    "halted": None,
                    "done": None,
                    "merged": None,
                    "queue_empty": None,
                    "environment": [],
                    "timeout_seconds": 60.0,
                },
            ),
            "on_doubt": (("choice", "stuck", "retry"), "stuck"),
            "response_format": (("choice", "json", "sections"), "json"),
            "workspace": (
                ("record", "WorkspaceRules"),
                {
                    "max_checkpoint_bytes": 1000000000,
                    "caches": [
                        "node_modules",
                        ".venv",
                        "__pycache__",
                        ".tox",
                        ".nox",
                        ".mypy_cache",
                        ".pytest_cache",
                        ".ruff_cache",
                    ],
                    "history": "none",
                    "setup": {
                        "commands": [],
                        "timeout_minutes": 15.0,
                        "lock_files": [],
                        "environment": [],
                        "rerun": "auto",
                    },
                },
            ),
            "context": (
                ("record", "ContextRules"),
                {
                    "max_file_bytes": 65536,
                    "max_total_bytes": 262144,
                    "listing_limit": 500,
                    "budget_tokens": 100000,
                    "relevant_files_limit": 10,
                    "relevant_files_tokens": 20000,
                    "prior_attempts_limit": 3,
                    "excluded_paths": ["node_modules", "dist", ".git"],
                    "custom_instructions": None,
                },
            ),
            "workflow": (("record", "WorkflowRules"), {"max_steps": 1000}),
            "history": (("record", "HistoryRules"), {"rotate_at": 16000000}),
            "redact": ("unknown", {"patterns": []}),
            "min_output_tokens": (("limited", "int", {"ge": 1}), 2048),
            "allow_unknown_price": ("bool", False),
            "rate_limits": ("unknown", {}),
            "retries": (
                ("record", "Retries"),
                {"max_tries": 4, "backoff_seconds": 1.0, "max_wait_minutes": 60.0},
            ),
            "answers": (("record", "Answers"), {"constrain": "auto", "reask": 0}),
            "tools": (
                ("record", "ToolRules"),
                {
                    "max_turns": 60,
                    "max_unknown_calls": 5,
                    "max_result_chars": 30000,
                    "command_seconds": 600.0,
                    "require_approval": [],
                    "disabled": [],
                },
            ),
            "sandbox": (
                ("record", "SandboxRules"),
                {
                    "mode": "auto",
                    "memory_bytes": 8589934592,
                    "processes": 512,
                    "file_bytes": 2147483648,
                    "output_bytes": 16777216,
                    "readable": [],
                },
            ),
            "projects": (("tuple", ("limited", "str", {"pattern": "^(/|~/|~$)[^\\x00]*$"})), []),
            "steward": (
                ("record", "StewardRules"),
                {"sign": None, "key": "~/.ssh/id_ed25519", "require": None, "allowed_signers": None},
            ),
        },
    ),
    "SetupRules": (
        (),
        {
            "commands": (
                (
                    "tuple",
                    (
                        "either",
                        ("limited", ("tuple", ("limited", "str", {"min_length": 1})), {"min_length": 1}),
                        ("limited", "str", {"min_length": 1}),
                    ),
                ),
                [],
            ),
            "timeout_minutes": (("limited", "float", {"gt": 0}), 15),
            "lock_files": (("tuple", ("limited", "str", {"min_length": 1})), []),
            "environment": (("tuple", ("limited", "str", {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})), []),
            "rerun": (("choice", "auto", "always", "never"), "auto"),
        },
    ),
    "StewardRules": (
        (),
        {
            "sign": (("optional", ("choice", "ssh")), None),
            "key": (("limited", "str", {"min_length": 1}), "~/.ssh/id_ed25519"),
            "require": (("optional", ("choice", "signature")), None),
            "allowed_signers": (("optional", ("limited", "str", {"min_length": 1})), None),
        },
    ),
    "ToolRules": (
        (),
        {
            "max_turns": (("limited", "int", {"ge": 1}), 60),
            "max_unknown_calls": (("limited", "int", {"ge": 1}), 5),
            "max_result_chars": (("limited", "int", {"ge": 1}), 30000),
            "command_seconds": (("limited", "float", {"gt": 0}), 600),
            "require_approval": (("tuple", ("limited", "str", {"min_length": 1})), []),
            "disabled": (("tuple", ("limited", "str", {"min_length": 1})), []),
        },
    ),
    "WorkflowRules": (
        (),
        {
            "max_steps": (("limited", "int", {"ge": 1, "le": 10000}), 1000),
        },
    ),
    "WorkspaceRules": (
        (),
        {
            "max_checkpoint_bytes": (("limited", "int", {"ge": 1}), 1000000000),
            "caches": (
                ("tuple", ("limited", "str", {"pattern": "^[^/\\x00]+$"})),
                [
                    "node_modules",
                    ".venv",
                    "__pycache__",
                    ".tox",
                    ".nox",
                    ".mypy_cache",
                    ".pytest_cache",
                    ".ruff_cache",
                ],
            ),
            "history": (("choice", "none", "shallow", "full"), "none"),
            "setup": (("record", "SetupRules"), {}),
        },
    ),
}
