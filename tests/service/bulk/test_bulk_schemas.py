"""Which sources and targets a request may name."""

from typing import Any

import pytest
from pydantic import ValidationError

from gpu_workers.bulk.readers import Columns
from service.bulk.schemas import SourceBody, TargetBody


def refused(body: type[SourceBody] | type[TargetBody], **members: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        body.model_validate(members)
    return "; ".join(f"{entry['loc']} {entry['msg']}" for entry in caught.value.errors())


def test_a_source_is_an_upload_or_objects_of_a_store() -> None:
    found = SourceBody.model_validate({"upload": True, "format": "csv", "columns": {"text": "t", "subject": "s"}})
    assert (found.read_format, found.columns.columns()) == ("csv", Columns("t", subject="s"))
    found = SourceBody.model_validate({"store": "lake", "keys": ["a/x.ndjson.gz", "day=1/é 1.jsonl"]})
    assert (found.read_format, found.columns.columns()) == ("jsonl", Columns("text"))
    found = SourceBody.model_validate({"store": "lake", "prefix": "a/b/", "format": "parquet"})
    assert (found.read_format, found.prefix) == ("parquet", "a/b")
    for members, said in [
        ({}, "exactly one of upload, store"),
        ({"upload": True, "store": "lake", "format": "csv"}, "exactly one of upload, store"),
        ({"upload": False, "format": "csv"}, "upload"),
        ({"upload": True, "keys": ["a.csv"]}, "for a store"),
        ({"store": "lake", "format": "csv"}, "exactly one of keys, prefix"),
        ({"store": "lake", "keys": ["a.csv"], "prefix": "a"}, "exactly one of keys, prefix"),
        ({"store": "lake", "keys": []}, "keys"),
        ({"store": "lake", "keys": ["a.csv"] * 2}, "twice"),
        ({"store": "lake", "keys": ["a.csv", "b.parquet"]}, "give format"),
        ({"store": "lake", "prefix": "a"}, "give format"),
        ({"upload": True}, "give format"),
        ({"store": "../lake", "keys": ["a.csv"]}, "store"),
        ({"upload": True, "format": "csv", "columns": {"text": ""}}, "columns"),
    ]:
        assert said in refused(SourceBody, **members)


def test_no_name_leads_out_of_a_store() -> None:
    for key in ("/a.csv", "../a.csv", "a/../b.csv", "a//b.csv", "./a.csv", "a/.", "a\0b.csv", "a\n.csv", "", "a" * 513):
        assert "keys" in refused(SourceBody, store="lake", keys=[key], format="csv")
        assert "prefix" in refused(SourceBody, store="lake", prefix=key, format="csv")
        assert "prefix" in refused(TargetBody, store="lake", prefix=key)
    for prefix in (".hidden", "a b", "a/.drafts", "day=1"):
        assert "prefix" in refused(TargetBody, store="lake", prefix=prefix)


def test_a_target_is_a_folder_of_a_store_or_a_file() -> None:
    assert TargetBody().store is None
    found = TargetBody.model_validate({"store": "lake", "prefix": "out/2026/", "format": "parquet"})
    assert (found.prefix, found.format) == ("out/2026", "parquet")
    for members in ({"store": "lake"}, {"prefix": "out"}):
        assert "both of store and prefix" in refused(TargetBody, **members)
