"""A fixed selection of cases, for suites that want a list and no generator."""

from __future__ import annotations

from collections.abc import Sequence

from mmref import families, mrope
from mmref.case import Case
from mmref.errors import RefusedPrompt
from mmref.testing.corners import corners

__all__ = ["selected_cases"]


def selected_cases(family: Sequence[str] = (), *, generated: int = 300) -> list[Case]:
    """Curated and generated cases that the reference accepts, the same in every run.

    Parameters
    ----------
    family : sequence of str
        Families to restrict to. Default: all.
    generated : int
        How many cases are generated.

    Returns
    -------
    list of Case
        Curated cases first.

    Raises
    ------
    UnknownName
        If a family is not known.

    Examples
    --------
    >>> {case.family for case in selected_cases(["qwen2_vl"], generated=5)}
    {'qwen2_vl'}
    """
    import hypothesis

    from mmref.testing.strategies import cases

    names = [families.get(name).name for name in family] or list(families.names("positions"))
    found = [case for case in corners().values() if _accepted(case, names)]

    @hypothesis.seed(0)
    @hypothesis.settings(
        max_examples=generated,
        database=None,
        deadline=None,
        derandomize=False,  # the seed decides; CI=true must not
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(cases(family=names))
    def collect(case: Case) -> None:
        found.append(case)

    if generated:
        collect()
    return found


def _accepted(case: Case, names: Sequence[str]) -> bool:
    if families.get(case.family).name not in names or case.scalars.get("unset"):
        return False
    try:
        mrope.position_ids(**case.arguments())
    except RefusedPrompt:
        return False
    return True
