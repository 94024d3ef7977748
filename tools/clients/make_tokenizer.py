"""A tokenizer made on the spot, since load tools want one and no model hub is asked: make_tokenizer.py FOLDER"""
import json
import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
texts = [" ".join(f"word{i} the water of the dam runs over its spillway" for i in range(200))]
tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.save(str(folder / "tokenizer.json"))
(folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<s>"}))
(folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
