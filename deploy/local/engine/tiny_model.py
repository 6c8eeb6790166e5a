"""Makes the model of demo and tests: a two-layer Llama with random weights and a tokenizer trained on made-up words.

Runs in the engine's environment: `python tiny_model.py FOLDER`. Equal versions of torch, transformers and tokenizers
make equal files.
"""

import random
import sys
from pathlib import Path
from typing import Any

SEED = 0
VOCABULARY = 1024
CONTEXT_TOKENS = 4096
# A head of 128 / 4 = 32: vLLM's attention on CPU knows 32, 64, 80, 96, 112, 128, 160, 192, 224, 256 and 512. With
# another size the server becomes healthy and dies at the first request.
SHAPE = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
SPECIAL = ["<s>", "</s>", "<pad>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{{ '<|assistant|>' if m['role'] == 'assistant' else '<|user|>' }}{{ m['content'] }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def main() -> None:
    """Writes the model into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    _write_weights(folder)


def _made_up_text() -> list[str]:
    source = random.Random(SEED)
    words = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 8))) for _ in range(800)]
    return [" ".join(source.choices(words, k=30)) + "." for _ in range(500)]


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=sorted(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(_made_up_text(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=CONTEXT_TOKENS,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


def _write_weights(folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=CONTEXT_TOKENS, **SHAPE, **ends)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    main()
