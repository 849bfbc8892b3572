"""The differential on merges with one fault each: it finds them all, and nothing in the correct."""

from __future__ import annotations

import numpy as np
import pytest

from mmref import families
from mmref.case import Case, Outcome
from mmref.differential.run import run
from mmref.probes.fusion import passed_features, table, token_ids


class Merge:
    """A correct merge in plain Python; a broken one overrides one step."""

    version = "1"
    provider = "cpu"
    subjects: tuple[str, ...] = ("fusion",)

    @property
    def name(self) -> str:
        return type(self).__name__

    def skip(self, case: Case) -> str | None:
        return None

    def run(self, case: Case) -> Outcome:
        try:
            return Outcome("answer", {"inputs_embeds": np.array(self.answer(case), np.float32)})
        except LookupError as error:
            return Outcome.refusal(error)

    def answer(self, case: Case) -> list[list[list[float]]]:
        features = self.features(case)
        if any(len(row) != 4 for rows in features.values() for row in rows):
            raise LookupError("width")
        taken = dict.fromkeys(features, 0)
        embeds = []
        for line in case.arrays["input_ids"].tolist():
            self.start_row(taken)
            embeds.append(table(32, 4)[line].tolist())
            opened = 0
            for column, token in enumerate(line):
                opened += (token == 14) - (token == 15)
                kind = self.kind(case, token, opened)
                if kind is not None:
                    embeds[-1][column] = self.take(features[kind], taken[kind])
                    taken[kind] += 1
        for kind, rows in features.items():
            self.check(taken[kind], len(rows))
        return embeds

    def features(self, case: Case) -> dict[str, list[list[float]]]:
        passed = {kind: rows.tolist() for kind, rows in passed_features(case).items()}
        return {"image": [], "video": [], "audio": []} | passed

    def kind(self, case: Case, token: int, opened: int) -> str | None:
        fusing, ids = families.get(case.family).fusing, token_ids(case)
        if fusing.shared_id:
            return ("video" if opened > 0 else "image") if token == ids.image else None
        return next((kind for kind in fusing.kinds if getattr(ids, kind) == token), None)

    def start_row(self, taken: dict[str, int]) -> None:
        """Features go on from row to row."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        return rows[number]

    def check(self, taken: int, available: int) -> None:
        if taken != available:
            raise LookupError("left over")


class RowRestart(Merge):
    """Counts placeholders in each row anew, and so never uses the rest."""

    def start_row(self, taken: dict[str, int]) -> None:
        for kind in taken:
            taken[kind] = 0

    def check(self, taken: int, available: int) -> None:
        """Nothing can be said of the last row alone."""


class Surplus(Merge):
    """Drops what is left over."""

    def check(self, taken: int, available: int) -> None:
        """Not counted."""


class ZeroRow(Merge):
    """Zeros for a feature that is not there."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        return [*rows, [0.0] * 4][number]

    def check(self, taken: int, available: int) -> None:
        super().check(min(taken, available), available)


class Modulo(Merge):
    """Begins again after the last feature."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        return rows[number % len(rows)] if rows else rows[number]

    def check(self, taken: int, available: int) -> None:
        super().check(min(taken, available), available)


class OneTooFar(Merge):
    """Numbers from one, and wraps."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        return rows[(number + 1) % len(rows)] if number < len(rows) else rows[number]


class SharedCount(Merge):
    """One counter for every kind."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        self.seen += 1
        return rows[self.seen - 1]

    def answer(self, case: Case) -> list[list[list[float]]]:
        self.seen = 0
        return super().answer(case)


class NoMarkers(Merge):
    """Takes every shared placeholder for an image."""

    def kind(self, case: Case, token: int, opened: int) -> str | None:
        return super().kind(case, token, 0)


class FirstFeature(Merge):
    """Puts an image's first row on every one of its tokens."""

    def take(self, rows: list[list[float]], number: int) -> list[float]:
        return rows[number] and rows[0]


BROKEN = [RowRestart, Surplus, ZeroRow, Modulo, OneTooFar, SharedCount, NoMarkers, FirstFeature]


def test_the_correct_merge_has_nothing_new() -> None:
    report = run(engine=[Merge()], cases=600, subject=["fusion"])
    assert report.total("compared") == report.total("equal") > 600


@pytest.mark.parametrize("broken", BROKEN)
def test_every_fault_is_found_and_small(broken: type[Merge]) -> None:
    report = run(engine=[broken()], cases=200, subject=["fusion"])
    assert report.total("new")
    smallest = min(
        (finding.case for finding in report.findings if finding.kind == "new"),
        key=lambda case: case.size,
    )
    assert smallest.size <= 4, smallest.to_json()
