#include "main/engine_inspect.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/teacher.h"
#include "prompt/message.h"

namespace spillway {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kTop = 10;

int fail(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.message);
  return 1;
}

Result<Json> read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::kNotFound, path + ": cannot be opened for reading"};
  }
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) {
    return Error{ErrorCode::kInvalid, path + ": is not JSON"};
  }
  return json;
}

Status write_json(const std::string& path, const Json& json) {
  std::ofstream file(path, std::ios::binary);
  file << json.dump() << '\n';
  file.flush();
  if (!file) {
    return Error{ErrorCode::kUnavailable, path + ": cannot be written"};
  }
  return Ok{};
}

Result<std::unique_ptr<const LoadedModel>> load_model(const EngineInspection& options) {
  return LoadedModel::load({.path = options.model_path, .chat_family = options.chat_family});
}

Json best_of(std::span<const float> logits) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [logits](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(std::min(kTop, ids.size()));
  std::partial_sort(ids.begin(), middle, ids.end(), [&](TokenId a, TokenId b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  Json top = Json::array();
  std::for_each(ids.begin(), middle, [&](TokenId id) { top.push_back({id, logit(id)}); });
  return {{"argmax", ids.front()}, {"top", std::move(top)}};
}

Result<Json> positions_of(Teacher& teacher, const Json& prompt) {
  const auto tokens = prompt.at("tokens").get<std::vector<TokenId>>();
  const auto from = prompt.at("from").get<std::size_t>();
  if (from < 1 || from > tokens.size()) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("from is {} with {} tokens", from, tokens.size())};
  }
  Json positions = Json::array();
  const Status done =
      teacher.logits_of(tokens, [&](std::size_t position, std::span<const float> logits) {
        if (position + 1 >= from) {
          positions.push_back(best_of(logits));
        }
      });
  if (!done) {
    return done.error();
  }
  return positions;
}

Result<Json> logits_of(const EngineInspection& options, const Json& input) {
  const auto model = load_model(options);
  if (!model) {
    return model.error();
  }
  auto teacher = Teacher::create(**model, {.threads = options.threads});
  if (!teacher) {
    return teacher.error();
  }
  Json prompts = Json::array();
  for (const Json& prompt : input.at("prompts")) {
    const auto name = prompt.at("name").get<std::string>();
    auto positions = positions_of(*teacher, prompt);
    if (!positions) {
      return Error{positions.error().code, fmt::format("{}: prompt \"{}\": {}", options.input_path,
                                                       name, positions.error().message)};
    }
    prompts.push_back({{"name", name}, {"positions", *std::move(positions)}});
  }
  return Json{{"prompts", std::move(prompts)}};
}

std::vector<TokenId> tokens_of(const LoadedModel& model, const Json& item) {
  if (item.is_string()) {
    return model.tokenizer().encode(item.get_ref<const std::string&>());
  }
  std::vector<Message> messages;
  for (const Json& message : item.at("messages")) {
    messages.push_back({.role = message.at("role").get<std::string>(),
                        .content = message.at("content").get<std::string>()});
  }
  return model.tokenizer().encode(model.chat_format().render(messages));
}

Result<Json> token_lists_of(const EngineInspection& options, const Json& input) {
  const auto model = load_model(options);
  if (!model) {
    return model.error();
  }
  Json lists = Json::array();
  for (const Json& item : input) {
    lists.push_back(tokens_of(**model, item));
  }
  return lists;
}

int inspect(const EngineInspection& options,
            Result<Json> (*work)(const EngineInspection&, const Json&)) {
  const auto input = read_json(options.input_path);
  if (!input) {
    return fail(input.error());
  }
  try {
    const auto output = work(options, *input);
    if (!output) {
      return fail(output.error());
    }
    const Status written = write_json(options.output_path, *output);
    return written ? 0 : fail(written.error());
  } catch (const Json::exception& error) {  // a key is missing or of another type
    return fail({ErrorCode::kInvalid, fmt::format("{}: {}", options.input_path, error.what())});
  }
}

}  // namespace

int engine_logits(const EngineInspection& options) {
  return inspect(options, logits_of);
}

int engine_tokenize(const EngineInspection& options) {
  return inspect(options, token_lists_of);
}

}  // namespace spillway
