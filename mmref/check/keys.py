"""The keys that ONNX Runtime GenAI accepts in genai_config.json.

Probed on 0.18.0 with `og.Config`, name by name; the suite probes them again on what is
installed.
"""

from __future__ import annotations

__all__ = ["KEYS", "MROPE_TYPES", "TEXT_TYPES", "TOKEN_IDS", "TYPES"]

KEYS: dict[str, frozenset[str]] = {
    "model": frozenset(
        {
            "audio_output",
            "audio_token_id",
            "blank_id",
            "boa_token_id",
            "bor_token_id",
            "bos_token_id",
            "bot_token_id",
            "chunk_samples",
            "context_length",
            "conv_context",
            "decoder",
            "decoder_start_token_id",
            "draft",
            "embedding",
            "encoder",
            "eor_token_id",
            "eos_token_id",
            "eot_token_id",
            "fft_size",
            "hop_length",
            "image_token_id",
            "joiner",
            "left_context",
            "left_context_samples",
            "log_eps",
            "max_symbols_per_step",
            "mtp",
            "norm_eps",
            "num_mels",
            "pad_token_id",
            "pre_encode_cache_size",
            "right_context_samples",
            "sample_rate",
            "sep_token_id",
            "speech",
            "subsampling_factor",
            "tdt_durations",
            "tokenizer_dir",
            "type",
            "vad",
            "video_token_id",
            "vision",
            "vision_start_token_id",
            "vocab_size",
            "win_length",
        }
    ),
    "model.decoder": frozenset(
        {
            "conv_cache_size",
            "filename",
            "head_size",
            "hidden_size",
            "inputs",
            "layer_types",
            "num_attention_heads",
            "num_hidden_layers",
            "num_key_value_heads",
            "outputs",
            "pipeline",
            "run_options",
            "session_options",
            "shared_initializers",
            "sliding_window",
            "state_groups",
            "state_update_capacity",
        }
    ),
    "model.decoder.inputs": frozenset(
        {
            "attention_mask",
            "attention_metadata",
            "block_table",
            "block_table_windowed",
            "cache_indirection",
            "cross_past_key_names",
            "cross_past_value_names",
            "cumulative_sequence_lengths",
            "current_sequence_length",
            "encoder_attention_mask",
            "encoder_hidden_states",
            "hidden_states",
            "input_ids",
            "inputs_embeds",
            "logits_indices",
            "lstm_cell_state",
            "lstm_hidden_state",
            "past_conv_names",
            "past_key_names",
            "past_key_scale_names",
            "past_key_values_length",
            "past_names",
            "past_recurrent_names",
            "past_sequence_length",
            "past_sequence_lengths",
            "past_value_names",
            "past_value_scale_names",
            "per_layer_inputs",
            "position_ids",
            "rnn_states_prev",
            "state_update_active",
            "state_update_capture_count",
            "targets",
            "targets_length",
            "total_sequence_length",
        }
    ),
    "model.decoder.outputs": frozenset(
        {
            "hidden_states",
            "logits",
            "lstm_cell_state",
            "lstm_hidden_state",
            "output_cross_qk_names",
            "outputs",
            "outputs_length",
            "present_conv_names",
            "present_key_names",
            "present_key_scale_names",
            "present_names",
            "present_recurrent_names",
            "present_value_names",
            "present_value_scale_names",
            "rnn_states",
            "state_update_conv_value_names",
        }
    ),
    "model.vision": frozenset(
        {
            "adapter_filename",
            "config_filename",
            "filename",
            "inputs",
            "max_num_patches",
            "num_visual_tokens",
            "outputs",
            "patch_size",
            "pipeline",
            "run_options",
            "session_options",
            "spatial_merge_size",
            "tokens_per_second",
            "window_size",
        }
    ),
    "model.vision.inputs": frozenset(
        {
            "attention_mask",
            "image_grid_thw",
            "image_sizes",
            "pixel_position_ids",
            "pixel_values",
        }
    ),
    "model.vision.outputs": frozenset(
        {
            "image_features",
        }
    ),
    "model.embedding": frozenset(
        {
            "filename",
            "inputs",
            "outputs",
            "prefault",
            "run_options",
            "session_options",
        }
    ),
    "model.embedding.inputs": frozenset(
        {
            "audio_features",
            "image_features",
            "input_ids",
        }
    ),
    "model.embedding.outputs": frozenset(
        {
            "inputs_embeds",
            "per_layer_inputs",
        }
    ),
    "model.speech": frozenset(
        {
            "adapter_filename",
            "config_filename",
            "filename",
            "inputs",
            "outputs",
            "run_options",
            "session_options",
        }
    ),
    "model.speech.inputs": frozenset(
        {
            "attention_mask",
            "audio_embeds",
            "audio_lengths",
            "audio_projection_mode",
            "audio_sizes",
        }
    ),
    "model.speech.outputs": frozenset(
        {
            "audio_features",
        }
    ),
    "search": frozenset(
        {
            "audio_interleaved",
            "audio_temperature",
            "audio_top_k",
            "batch_size",
            "blank_penalty",
            "chunk_size",
            "diversity_penalty",
            "do_sample",
            "early_stopping",
            "length_penalty",
            "max_length",
            "min_length",
            "no_repeat_ngram_size",
            "num_beams",
            "num_return_sequences",
            "past_present_share_buffer",
            "random_seed",
            "repetition_penalty",
            "temperature",
            "top_k",
            "top_p",
        }
    ),
}
"""Keys by the object that holds them."""

MROPE_TYPES = frozenset({"fara", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe"})
"""Model types whose decoder gets 3-D positions."""

TYPES = MROPE_TYPES | {
    "gemma3",
    "gemma4",
    "gemma4_unified",
    "lfm2_vl",
    "marian-ssru",
    "mistral3",
    "parakeet_tdt",
    "phi3v",
    "phi4mm",
    "whisper",
}
"""Model types of several graphs."""

TEXT_TYPES = frozenset(
    {
        "chatglm",
        "decoder",
        "decoder-pipeline",
        "ernie4_5",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gemma4_text",
        "gpt2",
        "gptoss",
        "granite",
        "granitemoehybrid",
        "internlm2",
        "lfm2",
        "lfm2_moe",
        "llama",
        "mistral",
        "nemotron",
        "olmo",
        "phi",
        "phi3",
        "phi3small",
        "phimoe",
        "qwen2",
        "qwen2_5_vl_text",
        "qwen3",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_vl_text",
        "smollm3",
    }
)
"""Model types of a decoder alone."""

TOKEN_IDS = (
    "image_token_id",
    "video_token_id",
    "vision_start_token_id",
    "audio_token_id",
    "boa_token_id",
)
"""Ids of placeholders and boundaries, under ``model``."""
