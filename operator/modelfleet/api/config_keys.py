"""Which keys of a model's config.json say how large the model is. Pure data.

The worker hands over these and leaves the rest out, because a termination message holds 4096 bytes; `core.model` reads
no others (a test holds it to that).
"""

SIZES = frozenset(
    {
        "_sliding_window_pattern",
        "architectures",
        "attention_bias",
        "attention_chunk_size",
        "attention_head_dim",
        "attention_k_eq_v",
        "attn_output_gate",
        "conv_kernel",
        "decoder_sparse_step",
        "depth",
        "dtype",
        "enable_moe_block",
        "experts_per_token",
        "factor",
        "first_k_dense_replace",
        "full_attention_interval",
        "global_head_dim",
        "head_dim",
        "hidden_size",
        "hidden_size_per_layer_input",
        "image_size",
        "index_head_dim",
        "index_n_heads",
        "index_skip_topk_offset",
        "index_topk",
        "index_topk_freq",
        "index_topk_pattern",
        "interleave_moe_layer_step",
        "intermediate_size",
        "intermediate_size_mlp",
        "kv_lora_rank",
        "layer_types",
        "layers_block_type",
        "linear_conv_kernel_dim",
        "linear_key_head_dim",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_value_head_dim",
        "mamba_head_dim",
        "mamba_num_heads",
        "max_position_embeddings",
        "max_sequence_length",
        "max_window_layers",
        "mlp_bias",
        "mlp_only_layers",
        "model_type",
        "moe_intermediate_size",
        "moe_layer_freq",
        "moe_layers",
        "moe_shared_expert_intermediate_size",
        "n_embed",
        "n_groups",
        "n_head",
        "n_inner",
        "n_layer",
        "n_positions",
        "n_routed_experts",
        "n_shared_experts",
        "no_rope_layer_interval",
        "no_rope_layers",
        "num_attention_heads",
        "num_experts",
        "num_experts_per_tok",
        "num_global_key_value_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_kv_shared_layers",
        "num_layers",
        "num_local_experts",
        "num_position_embeddings",
        "original_max_position_embeddings",
        "patch_size",
        "position_embedding_size",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "rope_type",
        "seq_length",
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "sliding_window",
        "sliding_window_pattern",
        "spatial_merge_size",
        "ssm_state_size",
        "tie_word_embeddings",
        "top_k_experts",
        "torch_dtype",
        "type",
        "use_qk_norm",
        "use_sliding_window",
        "v_head_dim",
        "vocab_size",
        "vt_hidden_size",
        "vt_intermediate_size",
        "vt_num_hidden_layers",
    }
)
"""Numbers, words and lists that say a size or a kind."""

PARTS = frozenset({"text_config", "llm_config", "vision_config", "rope_scaling", "rope_parameters"})
"""Objects with keys of SIZES in them."""

QUANTIZATION = frozenset({"quantization_config", "compression_config"})
"""Objects that say how numbers are stored."""

STORAGE = frozenset(
    {
        "bits",
        "dtype",
        "format",
        "load_in_4bit",
        "load_in_8bit",
        "num_bits",
        "quant_algo",
        "quant_method",
        "type",
        "w_bit",
    }
)
"""Words and numbers inside QUANTIZATION, at any depth."""

STORAGE_PARTS = frozenset({"config_groups", "global_quant_config", "quantization", "weight", "weights"})
"""Objects inside QUANTIZATION; `config_groups` has objects of any name."""

KEPT_WIDE = frozenset({"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude"})
"""Lists inside QUANTIZATION of modules that stay 16 bit. Whole kinds of layers count, not single ones."""
