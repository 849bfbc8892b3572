"""transformers' own audio lengths and masks, without weights that mean anything.

Length functions are the classes' own, bound to a stub with the configuration they read.
Where a mask is made in the middle of a forward pass, a tiny module with random weights runs.
"""

from __future__ import annotations

import importlib
from functools import cache, partial
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.errors import EngineFault
from mmref.families import Family

__all__ = ["answer", "skip"]

Array = npt.NDArray[Any]

# family: class whose methods are bound, below the module of the row's source
_CLASSES = {
    "whisper": "WhisperPreTrainedModel",
    "qwen2_audio": "Qwen2AudioEncoder",
    "qwen2_5_omni": "Qwen2_5OmniAudioEncoder",
    "audioflamingo3": "AudioFlamingo3Encoder",
    "musicflamingo": "AudioFlamingo3Encoder",
    "voxtral": "VoxtralEncoder",
    "parakeet_ctc": "ParakeetPreTrainedModel",
    "nemotron_asr_streaming": "NemotronAsrStreamingPreTrainedModel",
    "nemotron3_5_asr": "Nemotron3_5AsrPreTrainedModel",
    "wav2vec2": "Wav2Vec2PreTrainedModel",
    "wav2vec2-conformer": "Wav2Vec2ConformerPreTrainedModel",
    "wavlm": "WavLMPreTrainedModel",
    "data2vec-audio": "Data2VecAudioPreTrainedModel",
    "hubert": "HubertPreTrainedModel",
    "unispeech": "UniSpeechPreTrainedModel",
    "unispeech-sat": "UniSpeechSatPreTrainedModel",
    "speecht5": "SpeechT5SpeechEncoderPrenet",
    "sew": "SEWPreTrainedModel",
    "sew-d": "SEWDPreTrainedModel",
    "speech_to_text": "Speech2TextPreTrainedModel",
    "wav2vec2-bert": "Wav2Vec2BertPreTrainedModel",
    "seamless_m4t": "SeamlessM4TConformerAdapterLayer",
    "seamless_m4t_v2": "SeamlessM4Tv2ConformerAdapterLayer",
    "moonshine": "MoonshinePreTrainedModel",
    "moonshine_streaming": "MoonshineStreamingPreTrainedModel",
}
_METHODS = (
    "_get_feat_extract_output_lengths",
    "_get_feature_vector_attention_mask",
    "_get_subsampling_output_length",
    "_get_output_attention_mask",
    "_compute_sub_sample_lengths_from_attention_mask",
)
_WINDOWED = ("qwen3_omni_moe", "qwen3_asr")
_TINY = ("gemma4", "gemma3n", "phi4_multimodal", "moonshine", "moonshine_streaming")
_MASKED = (
    *_TINY,
    *("parakeet_ctc", "nemotron_asr_streaming", "nemotron3_5_asr"),
    *("seamless_m4t", "seamless_m4t_v2", "speech_to_text", "wav2vec2-bert"),
    *("wav2vec2", "wav2vec2-conformer", "wavlm", "data2vec-audio", "hubert", "unispeech"),
    *("unispeech-sat", "speecht5", "sew", "sew-d"),
)
_COUNTED = ("granite_speech", "gemma4", "gemma3n", "qwen2_5_omni", "qwen3_omni_moe")
_LONGEST_CONVOLVED = 20_000  # frames that a tiny module is run on to see its length


def skip(case: Case) -> str | None:
    """Why a case of audio cannot be put to transformers, or None.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    str or None
        A reason that holds for a whole kind of case.
    """
    row = families.get(case.family)
    name = row.name
    if "mask" in case.arrays and name not in _MASKED:
        return "a family whose encoder takes no mask, or makes it amid a forward pass"
    if "samples" in case.arrays and name not in _COUNTED:
        return "a family without a function from samples to tokens"
    if "lengths" in case.arrays:
        if name == "granite_speech":
            return "a family that counts from samples alone"
        convolved = name in ("gemma4", "gemma3n", "seamless_m4t", "seamless_m4t_v2")
        lengths = case.arrays["lengths"]
        if convolved and lengths.size and not 0 < lengths.min() <= lengths.max() < 20_000:
            return "lengths that no tensor can have, for a family that shows them in shapes alone"
    return None


def answer(case: Case) -> dict[str, Array]:
    """Lengths, mask or tokens of a case, by transformers' own code.

    Parameters
    ----------
    case : Case
        A case that `skip` has no reason against.

    Returns
    -------
    dict of str to numpy.ndarray
        ``output_lengths`` (clips,), ``output_mask`` (batch, outputs) or ``tokens`` (clips,).
    """
    row = families.get(case.family)
    if "mask" in case.arrays:
        return {"output_mask": _mask(row, np.asarray(case.arrays["mask"]))}
    if "samples" in case.arrays:
        tokens = [count_tokens(row.name, int(clip)) for clip in case.arrays["samples"]]
        return {"tokens": np.array(tokens, np.int64)}
    return {"output_lengths": _lengths(row, np.asarray(case.arrays["lengths"]))}


def _lengths(row: Family, lengths: Array) -> Array:
    import torch

    name = row.name
    given = torch.from_numpy(np.array(lengths, np.int64))
    if name in ("gemma4", "gemma3n", "seamless_m4t", "seamless_m4t_v2"):
        widths = [_mask(row, np.ones((1, clip), np.int64)) for clip in lengths.tolist()]
        return np.array([int(found.sum()) for found in widths], np.int64)
    if name == "phi4_multimodal":
        return _numpy(phi4_sizes(given))
    if name in _WINDOWED:
        module = importlib.import_module(f"{row.source}.modeling_{name}")
        return _numpy(module._get_feat_extract_output_lengths(given))
    stub = _stub(row.name)
    if hasattr(stub, "_get_subsampling_output_length"):
        return _numpy(stub._get_subsampling_output_length(given))
    if name == "moonshine":  # it takes one number
        found = [stub._get_feat_extract_output_lengths(clip) for clip in lengths.tolist()]
        return np.array(found, np.int64)
    named = {"add_adapter": True} if name == "wav2vec2-bert" else {}
    made = stub._get_feat_extract_output_lengths(given, **named)
    return _numpy(made[1] if isinstance(made, tuple) else made)


def _mask(row: Family, mask: Array) -> Array:
    import torch

    name = row.name
    given = torch.from_numpy(np.array(mask, np.int64))
    if name in _TINY:
        with torch.no_grad():
            return np.asarray(_tiny(name)(given).numpy() != 0)
    stub = _stub(name)
    frames = given.shape[1]
    if hasattr(stub, "_get_output_attention_mask"):
        width = int(stub._get_subsampling_output_length(torch.tensor([frames]))[0])
        return np.asarray(stub._get_output_attention_mask(given, target_length=width))
    if name.startswith("seamless"):
        lengths = stub._compute_sub_sample_lengths_from_attention_mask(given)
        kernel, stride = stub.kernel_size, stub.stride
        hidden = torch.nn.functional.conv1d(
            torch.ones(len(given), 1, frames),
            torch.ones(1, 1, kernel),
            stride=stride,
            padding=stride // 2,
        ).transpose(1, 2)
        module = importlib.import_module(f"{row.source}.modeling_{name}")
        return np.asarray(module._compute_new_attention_mask(hidden, lengths).numpy() != 0)
    named = {"add_adapter": True} if name == "wav2vec2-bert" else {}
    width = int(stub._get_feat_extract_output_lengths(torch.tensor([frames]), **named)[0])
    # a convolution over fewer frames than its kernel throws before any mask is made
    found = stub._get_feature_vector_attention_mask(max(width, 0), given, **named)
    return np.asarray(found.numpy() != 0)


def _numpy(tensor: Any) -> Array:
    return np.asarray(tensor.numpy().astype(np.int64))


@cache
def _stub(name: str) -> Any:
    row = families.get(name)
    module = row.source if name != "musicflamingo" else "transformers.models.audioflamingo3"
    folder = module.rpartition(".")[2]
    file = "data2vec_audio" if folder == "data2vec" else folder
    owner = getattr(importlib.import_module(f"{module}.modeling_{file}"), _CLASSES[name])
    stub = SimpleNamespace(config=_config(name), kernel_size=8, stride=8)
    for method in _METHODS:
        if hasattr(owner, method):
            setattr(stub, method, MethodType(getattr(owner, method), stub))
    return stub


def _config(name: str) -> Any:
    from transformers import AutoConfig

    if name in ("parakeet_ctc", "nemotron_asr_streaming", "nemotron3_5_asr"):
        return SimpleNamespace(
            subsampling_conv_kernel_size=3, subsampling_conv_stride=2, subsampling_factor=8
        )
    if name == "moonshine_streaming":
        return SimpleNamespace(encoder_config=SimpleNamespace(sample_rate=16000, frame_ms=5.0))
    if name in ("qwen2_audio", "qwen2_5_omni", "audioflamingo3", "musicflamingo", "voxtral"):
        return None
    return AutoConfig.for_model(name)


@cache
def _tiny(name: str) -> Any:
    """A function from a mask to the mask of the outputs, by a module with random weights."""
    import torch

    torch.manual_seed(0)
    if name == "gemma4":
        from transformers.models.gemma4.configuration_gemma4 import Gemma4AudioConfig
        from transformers.models.gemma4.modeling_gemma4 import Gemma4AudioSubSampleConvProjection

        config = Gemma4AudioConfig(subsampling_conv_channels=[4, 4], hidden_size=8)
        layers = Gemma4AudioSubSampleConvProjection(config)
        layers.input_proj_linear = torch.nn.Identity()
        return lambda mask: layers(torch.ones(*mask.shape, 4), mask)[1]
    if name == "phi4_multimodal":
        from transformers.models.phi4_multimodal import modeling_phi4_multimodal as phi4

        config = phi4.Phi4MultimodalAudioConfig(
            hidden_size=8, nemo_conv_channels=4, nemo_final_size=1
        )
        nemo = phi4.Phi4MultimodalAudioNemoConvSubsampling(config)
        return lambda mask: nemo(torch.ones(*mask.shape, 8), mask)[1][:, 0]
    return {"gemma3n": _gemma3n, "moonshine": _moonshine}.get(name, _moonshine_streaming)()


def _gemma3n() -> Any:
    import torch
    from transformers.models.gemma3n.configuration_gemma3n import Gemma3nAudioConfig
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nAudioEncoder

    config = Gemma3nAudioConfig(
        hidden_size=8,
        input_feat_size=8,
        sscp_conv_channel_size=(4, 4),
        conf_num_hidden_layers=0,
        conf_num_attention_heads=1,
    )
    encoder = Gemma3nAudioEncoder(config).eval()
    # inside, True is padding
    return lambda mask: ~encoder(torch.ones(*mask.shape, 8), mask == 0).audio_mel_mask


def _moonshine() -> Any:
    import torch
    from transformers.models.moonshine.configuration_moonshine import MoonshineConfig
    from transformers.models.moonshine.modeling_moonshine import MoonshineEncoder

    config = MoonshineConfig(
        hidden_size=8,
        intermediate_size=8,
        encoder_num_hidden_layers=0,
        encoder_num_attention_heads=1,
        encoder_num_key_value_heads=1,
    )
    encoder = MoonshineEncoder(config).eval()
    return lambda mask: encoder(torch.zeros(mask.shape), attention_mask=mask).attention_mask


def _moonshine_streaming() -> Any:
    import torch
    from transformers.models.moonshine_streaming import modeling_moonshine_streaming as streaming

    config = SimpleNamespace(hidden_size=8, sample_rate=16000, frame_ms=5.0)
    embedder = streaming.MoonshineStreamingEncoderEmbedder(config).eval()
    return lambda mask: embedder(torch.zeros(mask.shape), padding_mask=mask)[1]


def phi4_sizes(frames: Any) -> Any:
    from transformers.models.phi4_multimodal import feature_extraction_phi4_multimodal as phi4

    extractor = SimpleNamespace(audio_compression_rate=8, audio_downsample_rate=1)
    function = phi4.Phi4MultimodalFeatureExtractor._compute_audio_embed_size
    return function(extractor, frames)


def count_tokens(name: str, samples: int) -> int:
    from mmref.engines.source import load

    if name == "granite_speech":
        module = "transformers.models.granite_speech.feature_extraction_granite_speech"
        owner = importlib.import_module(module).GraniteSpeechFeatureExtractor
        extractor = SimpleNamespace(
            melspec_kwargs={"hop_length": 160},
            projector_window_size=15,
            projector_downsample_rate=5,
        )
        return int(owner._get_num_audio_features(extractor, [samples])[0])
    if name == "gemma4":
        loaded = _loaded("gemma4", "Gemma4Processor._compute_audio_num_tokens")
        extractor = SimpleNamespace(frame_length=320, hop_length=160)
        processor = SimpleNamespace(feature_extractor=extractor, audio_seq_length=750)
        return int(loaded(processor, range(samples), 16000))
    if name == "gemma3n":
        loaded = _loaded("gemma3n", "Gemma3nProcessor._get_num_multimodal_tokens")
        wrapped = partial(loaded, SimpleNamespace(audio_seq_length=188, image_seq_length=256))
        return int(wrapped(audio_lengths=[samples])["num_audio_tokens"][0])
    module = f"transformers.models.{name}.processing_{name}"
    family = "Qwen2_5Omni" if name == "qwen2_5_omni" else "Qwen3OmniMoe"
    functions = load(
        module, "_get_feat_extract_output_lengths", f"{family}Processor._get_num_audio_tokens"
    )
    extractor = SimpleNamespace(hop_length=160, nb_max_frames=30_000)
    processor = SimpleNamespace(feature_extractor=extractor, n_window=50)
    return int(functions[f"{family}Processor._get_num_audio_tokens"](processor, samples))


@cache
def _loaded(name: str, method: str) -> Any:
    from mmref.engines.source import load

    scope = {"MultiModalData": dict}
    found = load(f"transformers.models.{name}.processing_{name}", method, scope=scope)
    if method not in found:  # pragma: no cover - load raises first
        raise EngineFault("source-missing", where=name, got=method)
    return found[method]
