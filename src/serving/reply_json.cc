#include "serving/reply_json.h"

#include <nlohmann/json.hpp>

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json frame(const ReplyNames& names, bool chunk) {
  const char* object = !names.chat ? "text_completion"
                       : chunk     ? "chat.completion.chunk"
                                   : "chat.completion";
  return {{"id", names.id}, {"object", object}, {"created", names.created}, {"model", names.model}};
}

std::string chunk(const ReplyNames& names, Json choice) {
  Json json = frame(names, true);
  json["choices"] = Json::array({std::move(choice)});
  return dump(json);
}

}  // namespace

std::string role_chunk(const ReplyNames& names) {
  return chunk(names, {{"index", 0},
                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                       {"finish_reason", nullptr}});
}

std::string text_chunk(const ReplyNames& names, std::string_view text) {
  if (names.chat) {
    return chunk(names, {{"index", 0}, {"delta", {{"content", text}}}, {"finish_reason", nullptr}});
  }
  return chunk(names, {{"index", 0}, {"text", text}, {"finish_reason", nullptr}});
}

std::string end_chunk(const ReplyNames& names, std::string_view finish_reason) {
  if (names.chat) {
    return chunk(names,
                 {{"index", 0}, {"delta", Json::object()}, {"finish_reason", finish_reason}});
  }
  return chunk(names, {{"index", 0}, {"text", ""}, {"finish_reason", finish_reason}});
}

std::string usage_chunk(const ReplyNames& names, const Usage& usage) {
  Json json = frame(names, true);
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return dump(json);
}

std::string whole_reply(const ReplyNames& names, std::string_view text,
                        std::string_view finish_reason, const Usage& usage) {
  Json json = frame(names, false);
  Json choice{{"index", 0}};
  if (names.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason;
  json["choices"] = Json::array({std::move(choice)});
  json["usage"] = usage_json(usage);
  return dump(json);
}

std::string models_reply(const std::vector<std::string>& models, int max_model_len) {
  Json data = Json::array();
  for (const std::string& model : models) {
    data.push_back({{"id", model},
                    {"object", "model"},
                    {"created", 0},
                    {"owned_by", "spillway"},
                    {"root", models.front()},
                    {"max_model_len", max_model_len}});
  }
  return dump({{"object", "list"}, {"data", data}});
}

}  // namespace spillway
