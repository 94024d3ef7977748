#pragma once
// Replies in OpenAI's form: chunks of a stream and replies in one piece, for chat and for
// completions. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/openai_reply.h"

namespace spillway {

struct ReplyNames {
  bool chat = true;
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  std::string model;
  std::int64_t created = 0;  // seconds since 1970
};

std::string role_chunk(const ReplyNames& names);  // chat only: the first chunk
std::string text_chunk(const ReplyNames& names, std::string_view text);
std::string end_chunk(const ReplyNames& names, std::string_view finish_reason);
std::string usage_chunk(const ReplyNames& names, const Usage& usage);
std::string whole_reply(const ReplyNames& names, std::string_view text,
                        std::string_view finish_reason, const Usage& usage);
std::string models_reply(const std::vector<std::string>& models, int max_model_len);

}  // namespace spillway
