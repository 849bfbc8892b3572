"""docs/findings.md from the named differences; ``--check`` only compares.

What an engine answers is what its rules predict, which the suite compares with
the engine itself; of prompts that the reference refuses, only whether it
answers is told.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mmref.differences import ALL, RELEASES, Difference, release
from mmref.differential import subjects
from mmref.differential.compare import unlike
from mmref.differential.words import outcome_lines, prompt_line

__all__ = ["main", "text"]

_FILE = Path(__file__).parents[2] / "docs/findings.md"
_TITLES = {
    "transformers": "Hugging Face transformers",
    "onnxruntime-genai": "ONNX Runtime GenAI",
    "onnxruntime": "ONNX Runtime",
    "sglang": "SGLang",
    "vllm": "vLLM",
}
_HEAD = """# Findings

Every difference that was found between the reference and a release of an engine. `mmref diff`
shows each of them on the engine itself, and says when one has vanished; `mmref diff --matrix` shows
which release has which. This page is made from the same data: `python -m
mmref.differential.findings`.

"""


def text() -> str:
    """The page.

    Returns
    -------
    str
        Markdown.
    """
    parts = [_HEAD]
    for engine in RELEASES:
        found = [entry for entry in ALL if entry.engine == engine]
        parts.append(f"## {_TITLES.get(engine, engine)}\n\n")
        parts += [_entry(entry) for entry in found]
    return "".join(parts).rstrip() + "\n"


def _entry(entry: Difference) -> str:
    newest = [version for version in RELEASES[entry.engine] if entry.holds_for(version)][-1]
    subject = subjects.get(entry.subject)
    reference = subject.reference(entry.case)
    lines = [
        ("prompt", prompt_line(entry.case)),
        ("reference", _words(outcome_lines(reference, ()))),
    ]
    if reference.status == "answer" or subject.predicts_refused:
        whole = release(entry.engine, newest)
        predicted = subject.predict(entry.case, whole)
        alike = subject.predict(entry.case, whole.without(entry))
        # what this difference changes, not what others do to the same prompt
        where = unlike(predicted, alike) if alike.status == predicted.status else ()
        lines[1] = ("reference", _words(outcome_lines(reference, where)))
        lines.append((newest, _words(outcome_lines(predicted, where))))
    else:
        lines.append((newest, "answers" if entry.then == "answer" else "the process is killed"))
    width = max(len(name) for name, _ in lines)
    case = "\n".join(f"{name:<{width}}  {line}" for name, line in lines)
    before = f", mended in {entry.before}" if entry.before else ""
    return (
        f"### {entry.id}\n\n{entry.meaning} *{entry.subject}, {entry.kind}; seen since "
        f"{entry.since}{before}.*\n\n{entry.consequence}\n\n```text\n{case}\n```\n\n"
        f"Source: {entry.source}.\n\n"
    )


def _words(lines: Sequence[str]) -> str:
    return "; ".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` say whether it is as it should be.

    Parameters
    ----------
    arguments : sequence of str, optional
        Empty or ``["--check"]``. Default: those of the process.

    Returns
    -------
    int
        1 if the page differs under ``--check``, else 0.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    expected = text()
    if list(arguments) == ["--check"]:
        if _FILE.is_file() and _FILE.read_text(encoding="utf-8") == expected:
            return 0
        print(f"{_FILE.name} is not what python -m mmref.differential.findings writes")
        return 1
    _FILE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
