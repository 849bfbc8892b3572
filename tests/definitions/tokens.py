"""Expansion once more, over lists of words, written from the rules' text.

A prompt is a list of words; each placeholder word is replaced by a list of
words. Nothing here shares code or approach with mmref: sizes are taken as
counts, and families are told apart by name.
"""

from __future__ import annotations

GLM = ("glm4v", "glm4v_moe", "glm46v", "glm_ocr")
QWEN3 = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")


def expand(family, words, images, videos, clips=(), step_seconds=None):
    """Replace "image", "video" and "audio" words.

    Items are (steps, rows, columns, times), clips are counts; with ``step_seconds``, the
    seconds of a grid step, every video takes a clip as well.
    """
    images, videos, clips = list(images), list(videos), list(clips)
    out = []
    for word in words:
        if word == "image":
            out += image(family, *images.pop(0))
        elif word == "audio":
            out += clip(family, clips.pop(0))
        elif word == "video" and step_seconds is not None:
            steps, rows, columns, _ = videos.pop(0)
            out += sounding(family, steps, rows * columns, clips.pop(0), step_seconds)
        elif word == "video":
            out += video(family, *videos.pop(0))
        else:
            out.append(word)
    assert not images
    assert not videos
    assert not clips
    return out


def clip(family, count):
    cells = ["audio"] * count
    if family == "gemma3n":
        return [*"\n\n", "audio_start", *cells, "audio_end", *"\n\n"]
    if family in ("gemma4", "musicflamingo"):
        return ["audio_start", *cells, "audio_end"]
    return cells


def sounding(family, steps, cells, count, step_seconds):
    """Tokens sorted by when they begin: by chunks of fifty positions, or by time."""
    rate = {"qwen2_5_omni": 25.0, "qwen3_omni_moe": 13.0}[family]
    tokens = []
    for kind, times in (
        ("video", [step * step_seconds * rate for step in range(steps) for _ in range(cells)]),
        ("audio", list(range(count))),
    ):
        chunk = 0
        for time in times:
            chunk += time >= 50 * (chunk + 1)
            first = chunk if family == "qwen2_5_omni" else time
            tokens.append((first, kind != "video", kind))
    return ["audio_start", *(token[2] for token in sorted(tokens)), "audio_end"]


def image(family, _steps, rows, columns, _times):
    cells = ["image"] * (rows * columns)
    if family == "gemma3":
        return [*"\n\n", "vision_start", *["image"] * 256, "vision_end", *"\n\n"]
    if family == "gemma4":
        return ["vision_start", *cells, "vision_end"]
    if family == "internvl":  # of several tiles, one of 256 stands for the whole
        tiles = rows * columns // 256
        return ["vision_start", *["image"] * 256 * (tiles + (tiles > 1)), "vision_end"]
    if family in ("pixtral", "mistral3"):
        lines = [["image"] * columns + ["row_break"] for _ in range(rows)]
        flat = [word for line in lines for word in line]
        return [*flat[:-1], "vision_end"]
    return cells


def video(family, steps, rows, columns, times):
    if family in ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_omni_moe"):
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
