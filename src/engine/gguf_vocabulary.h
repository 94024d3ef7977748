#pragma once
// The tokenizer and chat template of a GGUF file (keys tokenizer.*), in the words of `prompt`.
// Pure.

#include <string>

#include "base/result.h"
#include "engine/gguf.h"
#include "prompt/chat_format.h"
#include "prompt/vocabulary.h"

namespace spillway {

// Fails, naming the key, when the file has no tokenizer or a key is of the wrong kind.
Result<Vocabulary> read_vocabulary(const GgufFile& file);

// The file's own template, unless `family` (see ChatFormat::named) is set.
Result<ChatFormat> read_chat_format(const GgufFile& file, const std::string& family);

}  // namespace spillway
