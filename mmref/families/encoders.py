"""The groups of audio encoders, named by the columns of a family row."""

from __future__ import annotations

from dataclasses import replace

from mmref.families.audio import Audio, Framing, Stage

__all__: list[str] = []  # the groups are named by `mmref.families.rows`

_HALF = Stage(3, 2, 1)  # kernel 3, stride 2, padding 1: ceil(frames / 2)
_HALF_CAUSAL = Stage(3, 2, (2, 1))  # frames // 2 + 1
_THIRTY_SECONDS = 480_000
# frames of the Whisper feature extractor: every started hop counts
_HOPS = Framing(1, 160, longest=_THIRTY_SECONDS)
_LONG_HOPS = Framing(1, 160, longest=10 * _THIRTY_SECONDS)
_WHOLE_HOPS = Framing(160, 160)
_KALDI = Framing(400, 160)

# A1: two convolutions; every clip is filled up to thirty seconds
WHISPER = Audio((Stage(3, 1, 1), _HALF), framing=_HOPS, fixed_tokens=1500)

# A2: the same and an average over pairs
_TWO_STEPS = (Stage(3, 1, 1), _HALF, Stage(2, 2))
TWO_STEPS = Audio(_TWO_STEPS, framing=_HOPS, in_prompt=True)
TWO_STEPS_LONG = Audio(_TWO_STEPS, framing=_LONG_HOPS, in_prompt=True)
TEN_MINUTES = Audio(
    _TWO_STEPS, framing=Framing(1, 160, longest=20 * _THIRTY_SECONDS), in_prompt=True
)
VOXTRAL = Audio(_TWO_STEPS, in_prompt=True)  # mistral_common cuts the clips and counts the tokens

# A3: three convolutions over windows of 100 frames, of which each makes 13
WINDOWS_OF_100 = Audio(
    (_HALF,) * 3, framing=_WHOLE_HOPS, window=100, window_outputs=13, in_prompt=True
)

# the same from half a second on; its feature extractor fills shorter clips up and counts that
WINDOWS_OF_100_ASR = replace(WINDOWS_OF_100, framing=Framing(160, 160, shortest=8000))

# A4: a frame is valid if its last sample is
GEMMA4 = Audio((_HALF,) * 2, "stride", Framing(321, 160, 160, _THIRTY_SECONDS), in_prompt=True)

# A5: the same strides, then every fourth output of the encoder
GEMMA3N = Audio((_HALF, _HALF, Stage(1, 4)), "stride", fixed_tokens=188, in_prompt=True)

# A6
PHI4 = Audio((_HALF,) * 3, framing=_KALDI, in_prompt=True)

# A7 and A8
PARAKEET = Audio((_HALF,) * 3, framing=_WHOLE_HOPS, arithmetic="float32")
NEMOTRON = Audio((_HALF_CAUSAL,) * 3, framing=_WHOLE_HOPS, arithmetic="float32")

# A9: straight from the waveform; SEW compares a range where the others set the last index
_WAVEFORM = (Stage(10, 5), *(Stage(3, 2),) * 4, *(Stage(2, 2),) * 2)
WAV2VEC2 = Audio(_WAVEFORM, framing=Framing(), code="last_index")
_POINT = Stage(1, 1)
_SEW = (Stage(10, 5), *(Stage(3, 2), _POINT) * 4, *(Stage(2, 2), _POINT) * 2)
SEW = Audio(_SEW, framing=Framing())
SPEECH_TO_TEXT = Audio((_HALF,) * 2, framing=_KALDI, code="last_index")

# A10: the adapter behind the encoder; wav2vec2-bert has one only with add_adapter
SEAMLESS = Audio((Stage(8, 8, 4),))
WAV2VEC2_BERT = Audio((_HALF,), code="last_index")

# A11 and A12
MOONSHINE = Audio(
    (Stage(127, 64), Stage(7, 3), Stage(3, 2)),
    framing=Framing(),
    code="product_stride",
    arithmetic="toward_zero",
)
_CAUSAL_FIVE = Stage(5, 2, (4, 0))
MOONSHINE_STREAMING = Audio(
    (Stage(80, 80), _CAUSAL_FIVE, _CAUSAL_FIVE), framing=Framing(), code="dilated"
)

# A13: pairs of frames, then blocks of 15 of which each makes 3
GRANITE = Audio(
    (Stage(2, 2),),
    framing=Framing(0, 160),
    window=15,
    window_outputs=3,
    window_rest="whole",
    in_prompt=True,
)
