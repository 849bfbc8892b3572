"""Expansion once more, over lists of words, written from the rules' text.

A prompt is a list of words; each placeholder word is replaced by a list of
words. Nothing here shares code or approach with mmref: sizes are taken as
counts, and families are told apart by name.
"""

from __future__ import annotations

GLM = ("glm4v", "glm4v_moe", "glm46v", "glm_ocr")
QWEN3 = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")


def expand(family, words, images, videos):
    """Replace "image" and "video" words; items are (steps, rows, columns, times)."""
    images, videos = list(images), list(videos)
    out = []
    for word in words:
        if word == "image":
            out += image(family, *images.pop(0))
        elif word == "video":
            out += video(family, *videos.pop(0))
        else:
            out.append(word)
    assert not images
    assert not videos
    return out


def image(family, _steps, rows, columns, _times):
    cells = ["image"] * (rows * columns)
    if family == "gemma3":
        return [*"\n\n", "vision_start", *["image"] * 256, "vision_end", *"\n\n"]
    if family == "gemma4":
        return ["vision_start", *cells, "vision_end"]
    if family in ("pixtral", "mistral3"):
        lines = [["image"] * columns + ["row_break"] for _ in range(rows)]
        flat = [word for line in lines for word in line]
        return [*flat[:-1], "vision_end"]
    return cells


def video(family, steps, rows, columns, times):
    if family in ("qwen2_vl", "qwen2_5_vl"):
        return ["video"] * (steps * rows * columns)
    out = []
    for step in range(steps):
        pair = times[2 * step : 2 * step + 2]
        if family in QWEN3:
            out += list(f"<{(pair[0] + pair[-1]) / 2:.1f} seconds>")
            out += ["vision_start", *["video"] * (rows * columns), "vision_end"]
        elif family in GLM:
            out += ["vision_start", *["image"] * (rows * columns), "vision_end"]
            whole = family in ("glm4v", "glm4v_moe")
            out += list(str(int(pair[0])) if whole else f"{pair[0]:.1f} seconds")
        else:
            minutes, seconds = divmod(int(times[step]), 60)
            out += list(f"{' ' if step else ''}{minutes:02d}:{seconds:02d} ")
            out += ["vision_start", *["video"] * (rows * columns), "vision_end"]
    return out
