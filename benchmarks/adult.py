"""UCI Adult as a declared table: bounds and categories are the published ones of the data set."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from core.synthesis.encoding import EncodedTable, Outside, encode_rows
from core.synthesis.schema import TableSchema, table_schema

KEPT = 0.4  # of the majority class
NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
}
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
LABEL = {"name": "income", "kind": "categorical", "categories": ["<=50K", ">50K"]}


def adult_schema() -> TableSchema:
    """The published bounds and categories."""
    columns: list[dict[str, Any]] = []
    for name in COLUMNS:
        if name in NUMBERS:
            low, high = NUMBERS[name]
            columns.append({"name": name, "kind": "numeric", "minimum": low, "maximum": high, "integer": True})
        else:
            columns.append({"name": name, "kind": "categorical", "categories": CATEGORIES[name].split()})
    return table_schema({"columns": columns, "label": LABEL})


def adult(data: Path, parts: Iterable[str], schema: TableSchema, *, kept: float = KEPT) -> EncodedTable:
    """The rows of `data`, `test` or both; of the majority class the share `kept`, chosen by a fixed stream."""
    draw = np.random.default_rng(0)
    rows = []
    for part in parts:
        with gzip.open(data / "adult" / f"adult.{part}.csv.gz", "rt", encoding="utf-8") as lines:
            for values in csv.reader(lines, skipinitialspace=True):
                if len(values) != len(COLUMNS) + 1:
                    continue
                row: dict[str, Any] = dict(zip(COLUMNS, values, strict=False))
                row |= {name: int(row[name]) for name in NUMBERS}
                row["income"] = values[-1].rstrip(".")
                if row["income"] == ">50K" or draw.random() < kept:
                    rows.append(row)
    return encode_rows(schema, rows, outside=Outside.CLIP)
