"""Settings as a command reads them: from the environment, a configuration file and options. Every problem is named."""

import json
from pathlib import Path

import pytest
from command_kit import refused_settings, run_command

from service.config.reading import shown
from service.config.settings import Settings

WRONG = {
    "PRIVACY_GATEWAY_PORT": "canary", "PRIVACY_GATEWAY_PROCESSES": "65", "PRIVACY_GATEWAY_EPSILON_MIN": "0",
    "PRIVACY_GATEWAY_ARCHIVE": "canary", "PRIVACY_GATEWAY_DEVICES": '["canary',
    "PRIVACY_GATEWAY_TRACES_TENANTS": "canary", "PRIVACY_GATEWAY_SERVES": "[]", "PRIVACY_GATEWAY_ADMIN_KEY": "canary",
    "PRIVACY_GATEWAY_ARCHIVE_REDIS_URL": "http://canary",
    "PRIVACY_GATEWAY_UPSTREAMS": '{"one": {"base_url": 5, "kind": "canary"}}',
}  # fmt: skip
SAID = """\
PRIVACY_GATEWAY_PORT must be a whole number, at least 0 and at most 65535
PRIVACY_GATEWAY_PROCESSES must be a whole number, at least 1 and at most 64
PRIVACY_GATEWAY_EPSILON_MIN must be a number, above 0
PRIVACY_GATEWAY_ARCHIVE is not 'on' or 'off'
PRIVACY_GATEWAY_DEVICES is no JSON: line 1, column 9
PRIVACY_GATEWAY_TRACES_TENANTS is neither true nor false
PRIVACY_GATEWAY_SERVES has fewer than 1 members
PRIVACY_GATEWAY_ADMIN_KEY: an admin key has at least 32 characters
PRIVACY_GATEWAY_ARCHIVE_REDIS_URL is redis://..., rediss://... or unix://...
PRIVACY_GATEWAY_UPSTREAMS, member one.base_url is not a text
PRIVACY_GATEWAY_UPSTREAMS, member one.kind is not 'openai' or 'anthropic'
PRIVACY_GATEWAY_UPSTREAMS, member one.models is missing
"""
FILE = """\
port = 8100
redis_url = "redis://gateway:canary@redis:6379/0"
serves = ["embed", "sanitize"]
epsilon_max = 5
[upstreams.one]
base_url = "https://models.example/v1"
kind = "openai"
models = ["small"]
headers = {x-team = "canary"}
"""


def problems(said: str) -> set[str]:
    return {line.removeprefix("error: ") for line in said.splitlines()}


def test_all_problems_are_named_at_once_and_no_value(tmp_path: Path) -> None:
    checked = run_command(tmp_path, "config", "check", environment=WRONG)
    assert checked.returncode == 1
    assert problems(checked.stderr) == set(SAID.splitlines())
    of_serve = problems(refused_settings(tmp_path, WRONG))  # with --port
    assert of_serve == {line for line in SAID.splitlines() if "GATEWAY_PORT" not in line}


def test_problems_of_settings_together_are_named_at_once(tmp_path: Path) -> None:
    together = {
        "PRIVACY_GATEWAY_TAGGER": str(tmp_path / "absent"), "PRIVACY_GATEWAY_SERVES": '["embed"]',
        "PRIVACY_GATEWAY_TOMBSTONE_RETENTION_S": "1", "PRIVACY_GATEWAY_DEVICES": '["cpu", "cuda:0"]',
    }  # fmt: skip
    said = run_command(tmp_path, "config", "check", environment=together).stderr
    assert len(problems(said)) == 4
    for name in ("TAGGER", "SERVES", "TOMBSTONE_RETENTION_S", "DEVICES"):
        assert name in said


def test_a_misspelt_variable_stops_every_command_with_the_nearest_name(tmp_path: Path) -> None:
    misspelt = {"PRIVACY_GATEWAY_EPSILON_MXA": "1", "PRIVACY_GATEWAY_QQQQQQ": "1"}
    said = {
        "PRIVACY_GATEWAY_EPSILON_MXA is no setting; the nearest is PRIVACY_GATEWAY_EPSILON_MAX",
        "PRIVACY_GATEWAY_QQQQQQ is no setting",
    }
    assert problems(refused_settings(tmp_path, misspelt)) == said
    listed = run_command(tmp_path, "tenant", "list", environment=misspelt)
    assert (listed.returncode, problems(listed.stderr)) == (1, said)


def test_variables_of_the_client_and_keys_of_upstreams_are_no_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gateway.toml").write_text(FILE.replace("headers", 'key_env = "PRIVACY_GATEWAY_KEY_OF_ONE"\nheaders'))
    (tmp_path / "gateway.toml").chmod(0o600)
    others = {
        "PRIVACY_GATEWAY_URL": "http://gateway", "PRIVACY_GATEWAY_API_KEY": "k",
        "PRIVACY_GATEWAY_KEY_OF_ONE": "k" * 20, "PRIVACY_GATEWAY_CONFIG_FILE": str(tmp_path / "gateway.toml"),
    }  # fmt: skip
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    assert Settings(serves=["embed"]).upstreams["one"].key is not None


def test_a_short_key_of_an_upstream_is_refused_by_the_check_and_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(FILE.replace("headers", 'key_env = "KEY_OF_ONE"\nheaders'))
    (tmp_path / "gateway.toml").chmod(0o600)
    short = {"KEY_OF_ONE": "k", "PRIVACY_GATEWAY_CONFIG_FILE": str(tmp_path / "gateway.toml")}
    checked = run_command(tmp_path, "config", "check", environment=short)
    assert checked.returncode == 1
    for said in (checked.stderr, refused_settings(tmp_path, short)):
        assert "the key of an upstream has at least 16 characters" in said
    long = short | {"KEY_OF_ONE": "k" * 16}
    assert "characters" not in run_command(tmp_path, "config", "check", environment=long).stderr


def test_the_file_gives_what_neither_options_nor_the_environment_give(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    environment = {"PRIVACY_GATEWAY_EPSILON_MAX": "7", "PRIVACY_GATEWAY_UPSTREAMS": "{}"}
    found = run_command(tmp_path / "data", "config", "show", "--json", "--config", str(path), environment=environment)
    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(found.stdout)}

    assert rows == {
        "config_file": (str(path), "PRIVACY_GATEWAY_CONFIG_FILE"),
        "data_dir": (str(tmp_path / "data"), "PRIVACY_GATEWAY_DATA_DIR"),
        "epsilon_max": (7.0, "PRIVACY_GATEWAY_EPSILON_MAX"), "port": (8100, f"port in {path}"),
        "redis_url": ("redis://(hidden)@redis:6379/0", f"redis_url in {path}"),
        "serves": (["embed", "sanitize"], f"serves in {path}"), "upstreams": ({}, "PRIVACY_GATEWAY_UPSTREAMS"),
    }  # fmt: skip


def test_true_in_the_file_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("port = true\nepsilon_max = false\ntraces_tenants = true\n")
    checked = run_command(tmp_path, "config", "check", "--config", str(tmp_path / "gateway.toml"))
    assert [line.split(" in ")[0] for line in sorted(problems(checked.stderr))] == ["epsilon_max", "port"]


def test_what_is_shown_has_no_secret_and_names_the_option_of_a_setting(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(FILE)
    (tmp_path / "gateway.toml").chmod(0o600)
    secrets = {
        "PRIVACY_GATEWAY_CONFIG_FILE": str(tmp_path / "gateway.toml"),
        "PRIVACY_GATEWAY_ADMIN_KEY": "canary" * 8,
        "PRIVACY_GATEWAY_MASTER_KEY": "c0ffee" + "ab" * 29,
        "PRIVACY_GATEWAY_STORE_OPTIONS": '{"secret_access_key": "canary"}',
        "PRIVACY_GATEWAY_REDIS_URL": "unix://gateway@/redis.sock?db=1&password=canary",
    }
    shown = run_command(None, "config", "show", "--all", "--data-dir", str(tmp_path), environment=secrets)

    assert shown.returncode == 0
    assert "canary" not in shown.stdout
    assert "c0ffee" not in shown.stdout
    assert len(shown.stdout.splitlines()) == len(Settings.model_fields)
    assert f'data_dir\t"{tmp_path}"\t--data-dir' in shown.stdout.splitlines()
    assert "vault_bytes_max\t67108864\tdefault" in shown.stdout.splitlines()


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"

    def said_of(content: str, mode: int = 0o644) -> str:
        path.write_text(content)
        path.chmod(mode)
        checked = run_command(tmp_path, "config", "check", "--config", str(path))
        assert (checked.returncode, "canary" in checked.stderr) == (1, False)
        return checked.stderr

    assert problems(said_of("prot = 1\n[ledger]\nport = 1\n")) == {
        f"prot in {path} is no setting; the nearest is port",
        f"ledger in {path} is no setting",
    }
    assert "must be a whole number" in said_of('port = "canary"')
    assert f"{path}: no TOML (at line 2, column 13)" in said_of("port = 1\nadmin_key = canary")
    assert "every user of this machine can read it" in said_of(f'admin_key = "{"canary" * 8}"')
    assert "every user of this machine can read it" in said_of(FILE.partition("[upstreams")[0])
    assert "every user of this machine can read it" in said_of("[upstreams" + FILE.partition("[upstreams")[2])
    assert problems(said_of("PORT = 1\nPRIVACY_GATEWAY_HOST = 1")) == {
        f"PORT in {path} is no setting; the nearest is port",
        f"PRIVACY_GATEWAY_HOST in {path} is no setting; the nearest is host",
    }
    assert "config_file" in said_of('config_file = "other.toml"')
    assert "no TOML" in said_of(f"port = {'9' * 5000}")
    assert "no TOML" in said_of(f"devices = {'[' * 5000}")
    assert "must be a number" in said_of("request_timeout_s = inf")
    path.unlink()
    missing = run_command(tmp_path, "config", "check", "--config", str(path))
    assert problems(missing.stderr) == {f"{path}: No such file or directory"}


def test_good_settings_are_checked_with_the_files_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(f'admin_key = "{"k" * 40}"\nprocesses = 2\nadmin_port = 9464\n')
    (tmp_path / "gateway.toml").chmod(0o600)
    good = run_command(tmp_path, "config", "check", "--config", str(tmp_path / "gateway.toml"))
    assert (good.returncode, good.stderr) == (0, "")
    named = {
        "PRIVACY_GATEWAY_POLICIES_FILE": str(tmp_path / "absent.toml"),
        "PRIVACY_GATEWAY_PRESETS_FILE": str(tmp_path / "absent.toml"),
        "PRIVACY_GATEWAY_PROCESSES": "2",
    }
    bad = run_command(tmp_path, "config", "check", environment=named)
    assert bad.returncode == 1
    for name in ("POLICIES_FILE", "PRESETS_FILE", "ADMIN_PORT"):
        assert name in bad.stderr


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("redis://:can@ary@redis:6379/0", "redis://(hidden)@redis:6379/0"),
        ("redis://ga@te:canary@redis", "redis://(hidden)@redis"),
        ("redis://:12?3=canary@redis", "redis://(hidden)"),
        ("rediss://redis:6379/0?ssl_password=canary&db=1", "rediss://redis:6379/0?ssl_password=(hidden)&db=1"),
        ("redis://redis?passw%6Frd=canary&canary", "redis://redis?passw%6Frd=(hidden)&(hidden)"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
    ],
)
def test_no_part_of_a_password_of_redis_is_shown(url: str, seen: str) -> None:
    (row,) = (each for each in shown(Settings(redis_url=url)) if each.name == "redis_url")
    assert row.value == seen
