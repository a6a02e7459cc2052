"""The operator's stores of bulk releases: which file is refused at start, and which tenant finds which store."""

import os
from pathlib import Path

import pytest

from core.blobs.options import opened_store
from core.errors import InvalidInput
from service.bulk.stores import BulkStores
from service.config.reading import read_settings
from service.config.settings import Settings, SettingsRefused


def settings(folder: Path, text: str, **given: object) -> Settings:
    file = folder / "stores.toml"
    file.write_text(text.replace("FOLDER", str(folder)))
    return read_settings(bulk_stores_file=file, data_dir=folder / "data", **given)


def test_a_tenant_finds_the_stores_that_the_operator_permits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_SECRET", "private-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another identity")
    (tmp_path / "in").mkdir()
    text = """
    [stores.lake]
    url = "s3://lake/documents"
    options = { region = "eu-central-1" }
    options_env = { access_key_id = "LAKE_SECRET", secret_access_key = "LAKE_SECRET" }
    read = true
    tenants = ["acme"]

    [stores.out]
    url = "file://FOLDER/in"
    read = true
    write = true
    """
    found = settings(tmp_path, text)
    stores = BulkStores.of_settings(found)
    assert stores.names("acme", "read") == ["lake", "out"]
    assert stores.names("acme", "write") == stores.names("other", "read") == ["out"]
    access = stores.find("lake", "acme", "read", field="source.store")
    assert access.options.config == {
        "region": "eu-central-1",
        "access_key_id": "private-secret",
        "secret_access_key": "private-secret",
    }
    for shown in (repr(found), repr(access), repr(found.bulk_stores), found.model_dump_json()):
        assert "private-secret" not in shown
    absent = []
    for name, tenant, use in (("lake", "other", "read"), ("none", "other", "read"), ("lake", "acme", "write")):
        with pytest.raises(InvalidInput) as caught:
            stores.find(name, tenant, use, field="source.store")
        assert caught.value.field == "source.store"
        absent.append(caught.value.detail)
    assert absent[0] == absent[1]
    assert "lake" not in str(absent)


def test_the_identity_that_a_cloud_gives_is_read_with_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the gateway removes from its environment what its children must not have."""
    monkeypatch.setenv("AWS_ROLE_ARN", "arn")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://cloud.example")
    text = """
    [stores.lake]
    url = "s3://lake"
    options = { region = "eu-central-1" }
    read = true
    """
    found = settings(tmp_path, text, store_url="s3://own/gateway")
    for name in ("AWS_ROLE_ARN", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    access = BulkStores.of_settings(found).find("lake", "acme", "read", field="source.store")
    assert access.options.config == {
        "role_arn": "arn",
        "region": "eu-central-1",
        "endpoint": "https://cloud.example",
    }
    assert "cloud.example" in repr(opened_store(found, found.data_dir)._objects.config)


def test_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "data" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    for row in """
        url = "s3://b" -> read or write is true
        url = "http://b"; read = true -> the URL of a store
        url = "s3://key:secret@b"; read = true -> the URL of a store
        url = "s3://b"; read = true; options = { secret_access_key = "private" } -> options_env
        url = "s3://b"; read = true; options_env = { secret_access_key = "NOT_SET_ANYWHERE" } -> is not set
        url = "s3://b"; read = true; options = { misspelt = "private" } -> cannot be used
        url = "s3://b"; read = true; tenants = [] -> stores.one.tenants
        url = "s3://b"; read = true; other = 1 -> stores.one.other
        url = "s3://b"; read = true; ca_file = "/none" -> ca_file cannot be read
        url = "file://FOLDER/none"; read = true -> does not exist
        url = "file://FOLDER/data/below"; read = true -> files of the gateway itself
        url = "file://FOLDER/link"; read = true -> files of the gateway itself
        url = "file://FOLDER"; read = true -> files of the gateway itself
        url = "s3://own/gateway/jobs"; read = true -> files of the gateway itself
        url = "s3://own"; read = true -> files of the gateway itself
        url = -> no TOML
    """.strip().splitlines():
        entry, _, said = row.strip().partition(" -> ")
        with pytest.raises(SettingsRefused, match=said) as caught:
            settings(tmp_path, "[stores.one]\n" + entry.replace("; ", "\n"), store_url="s3://own/gateway")
        assert "private" not in str(caught.value)
        assert "stores.toml" in str(caught.value)
    assert settings(tmp_path, '[stores.one]\nurl = "s3://owner"\nread = true', store_url="s3://own").bulk_stores
    with pytest.raises(SettingsRefused, match=os.strerror(2)):
        read_settings(bulk_stores_file=tmp_path / "absent.toml", data_dir=tmp_path / "data")
