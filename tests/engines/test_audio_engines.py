"""transformers' own lengths, masks and frames, and exported graphs, against the reference."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmref import audio, families
from mmref.case import Case
from mmref.engines import transformers_audio as engine
from mmref.probes.audio import mask_graph
from mmref.probes.fusion import model_bytes

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
RELEASE = "transformers-5.24"
NAMES = families.names("audio")
IN_SHAPES = ("gemma4", "gemma3n", "seamless_m4t", "seamless_m4t_v2")


def asked(name: str, **arrays: Any) -> Any:
    case = Case(name, {key: np.asarray(value) for key, value in arrays.items()}, subject="audio")
    assert engine.skip(case) is None
    (answer,) = engine.answer(case).values()
    return answer


def has(name: str, kind: str) -> bool:
    return engine.skip(Case(name, {kind: np.ones((1, 1), int)}, subject="audio")) is None


LENGTHS = [name for name in NAMES if has(name, "lengths")]
MASKS = [name for name in NAMES if has(name, "mask")]


@pytest.mark.parametrize("name", [name for name in LENGTHS if name not in IN_SHAPES])
def test_every_length_to_6400(name: str) -> None:
    lengths = np.arange(6401)
    expected = asked(name, lengths=lengths)
    assert (audio.output_lengths(lengths, family=name, rules=RELEASE) == expected).all()
    ours = audio.output_lengths(lengths, family=name)
    parted = lengths[ours != expected]
    # the accidents of short clips, and nothing else
    assert parted.tolist() == [frames for frames in lengths if expected[frames] < 0] + [
        frames for frames in (0,) if expected[frames] > 0
    ]


@pytest.mark.parametrize("name", IN_SHAPES)
def test_lengths_that_shapes_show(name: str) -> None:
    lengths = np.array([*range(1, 66), 399, 400, 2999, 3000])
    expected = asked(name, lengths=lengths)
    assert audio.output_lengths(lengths, family=name).tolist() == expected.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma4", "gemma3n"])
def test_long_lengths_that_shapes_show(name: str) -> None:
    """On torch's meta device, which computes shapes: all short lengths, then every seventh."""
    lengths = [*range(1, 400), *range(400, 6401, 7)]
    with torch.device("meta"):
        layers = engine._tiny.__wrapped__(name)
        made = [layers(torch.ones(1, frames).long()).shape[1] for frames in lengths]
    assert audio.output_lengths(lengths, family=name).tolist() == made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seamless_m4t", "seamless_m4t_v2"])
def test_every_length_of_an_adapter(name: str) -> None:
    lengths = np.arange(1, 6401)
    expected = asked(name, lengths=lengths)
    assert (audio.output_lengths(lengths, family=name) == expected).all()


@pytest.mark.parametrize("name", MASKS)
def test_random_masks(name: str) -> None:
    row = families.get(name).audio
    assert row is not None
    random = np.random.default_rng(1)
    by_samples = row.framing is not None and row.framing.hop == 1
    for _ in range(12):
        width = int(random.integers(10, 60)) * 80 if by_samples else int(random.integers(1, 300))
        stops = random.integers(0, width + 1, size=random.integers(1, 5))
        mask = (np.arange(width)[None, :] < stops[:, None]).astype(np.int64)
        holes = (random.random(mask.shape) < 0.1) & (np.arange(width) > 0)
        mask[holes & (random.random((len(mask), 1)) < 0.5)] = 0
        expected = asked(name, mask=mask)
        actual = audio.downsample_mask(mask, family=name, rules=RELEASE)
        assert actual.tolist() == expected.tolist()


def test_feature_extractors_make_so_many_valid_frames() -> None:
    from transformers import (
        Gemma4AudioFeatureExtractor,
        ParakeetFeatureExtractor,
        Phi4MultimodalFeatureExtractor,
        WhisperFeatureExtractor,
    )

    random = np.random.default_rng(2)
    whisper = WhisperFeatureExtractor(feature_size=4, chunk_length=2)
    for samples in (400, 1599, 1600, 1601, 16000, 16001):
        clip = random.standard_normal(samples).astype(np.float32)
        made = whisper(clip, sampling_rate=16000, return_attention_mask=True)
        assert made["attention_mask"].sum() == audio.frames(samples, family="whisper")[0]
        made = Gemma4AudioFeatureExtractor()([clip])
        assert made["input_features_mask"][0].sum() == audio.frames(samples, family="gemma4")[0]
        made = Phi4MultimodalFeatureExtractor()(clip, sampling_rate=16000, return_tensors="pt")
        tokens = audio.token_count(samples, family="phi4_multimodal")[0]
        assert int(made["audio_embed_sizes"][0]) == tokens
        try:
            parakeet = ParakeetFeatureExtractor()
        except ImportError:
            continue
        made = parakeet(clip, sampling_rate=16000, return_tensors="pt")
        assert int(made["attention_mask"].sum()) == audio.frames(samples, family="parakeet_ctc")[0]


def test_tiny_encoders_make_so_many_outputs() -> None:
    from transformers import (
        ParakeetEncoder,
        ParakeetEncoderConfig,
        Qwen2AudioEncoder,
        Qwen2AudioEncoderConfig,
        WhisperConfig,
    )
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    small = {"num_mel_bins": 4, "encoder_layers": 1, "encoder_attention_heads": 1, "d_model": 8}
    small |= {"encoder_ffn_dim": 8}
    for positions in (2, 5, 8):
        frames = 2 * positions  # these encoders take clips of one length
        features = torch.zeros(1, 4, frames)
        whisper = WhisperEncoder(WhisperConfig(**small, max_source_positions=positions)).eval()
        made = whisper(features).last_hidden_state.shape[1]
        assert made == audio.output_lengths(frames, family="whisper")[0]
        config = Qwen2AudioEncoderConfig(**small, max_source_positions=positions)
        made = Qwen2AudioEncoder(config).eval()(features).last_hidden_state.shape[1]
        assert made == audio.output_lengths(frames, family="qwen2_audio")[0]
    parakeet = ParakeetEncoder(
        ParakeetEncoderConfig(
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
            subsampling_conv_channels=4,
            num_mel_bins=8,
        )
    ).eval()
    for frames in (1, 7, 8, 9, 40, 101):
        made = parakeet(torch.zeros(1, frames, 8)).last_hidden_state.shape[1]
        assert made == audio.output_lengths(frames, family="parakeet_ctc")[0]


@pytest.mark.parametrize(
    ("form", "name"),
    [
        # layers without padding make fewer outputs than a slice has places
        *(("slice", name) for name in ("gemma4", "phi4_multimodal")),
        *(("length", name) for name in ("gemma4", "phi4_multimodal", "qwen2_audio", "wav2vec2")),
    ],
)
def test_graphs_of_the_mask_path(form: Any, name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx_ir")
    row = families.get(name).audio
    assert row is not None
    model = model_bytes(mask_graph(form, row.stages))
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    for _ in range(60):
        width = int(random.integers(1, 900))
        stops = random.integers(0, width + 1, size=random.integers(1, 5))
        mask = np.arange(width)[None, :] < stops[:, None]
        mask &= (random.random(mask.shape) < 0.9) | (np.arange(width) == 0)
        (made,) = session.run(None, {"mask": mask})
        if form == "slice":
            expected = audio.mask_by_stride(mask, row.stages)
        else:
            expected = audio.mask_from_lengths(mask.sum(1), row.stages, frames=width)
        assert made.tolist() == expected.tolist()


def test_whole_modules_mark_what_their_functions_mark() -> None:
    """One row goes without a mask in Phi-4's extractor; the encoder then marks nothing."""
    nemo = engine._tiny("phi4_multimodal")
    assert nemo(torch.ones(1, 17, dtype=torch.long)).tolist() == [[True] * 3]
    with pytest.raises(RuntimeError):
        nemo(torch.ones(1, 0, dtype=torch.long))
    assert isinstance(engine._stub("whisper"), SimpleNamespace)


@pytest.fixture(scope="module")
def genai() -> Any:
    from mmref import engines
    from mmref.errors import MissingExtra

    try:
        return engines.get("onnxruntime-genai")
    except MissingExtra as error:
        pytest.skip(str(error))


def test_clips_of_the_engine_take_as_many_tokens(genai: Any) -> None:
    """Real WAV bytes through GenAI's own decoder and spectrogram, around every frame's corner."""
    frames = [1, 2, 4, 5, 8, 9, 99, 100, 101, 401]
    samples = [160 * count + 161 + more for count in frames for more in (-161, -160, -1, 0, 1)]
    case = Case("gemma4", {"samples": np.array([*samples, 480_000, 480_001])}, subject="audio")
    case.arrays["samples"][0] = 161
    assert genai.skip(case) is None
    actual = genai.run(case)
    expected = audio.token_count(case.arrays["samples"], family="gemma4")
    assert actual.arrays["tokens"].tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 6


@pytest.mark.slow
def test_a_clip_without_a_frame_ends_the_process(genai: Any) -> None:
    for samples in (0, 1, 160):
        case = Case("gemma4", {"samples": np.array([samples])}, subject="audio")
        assert audio.frames(samples, family="gemma4").tolist() == [0]
        assert genai.run(case).status == "crash"


def test_cases_that_are_not_for_the_engine(genai: Any) -> None:
    for family, arrays in (
        ("gemma4", {"lengths": [3]}),
        ("phi4_multimodal", {"samples": [1600]}),
        ("gemma4", {"samples": [1600, 160]}),
        ("gemma4", {"samples": [10**7]}),
    ):
        given = {name: np.array(value) for name, value in arrays.items()}
        assert genai.skip(Case(family, given, subject="audio"))
