#include "prompt/text_stream.h"

#include "prompt/unicode.h"

namespace spillway {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string TextStream::push(std::string_view bytes) {
  pending_.append(bytes);
  std::string text;
  text.reserve(pending_.size());
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const DecodedChar next = decode_utf8(rest);
    if (next.unfinished) {
      break;
    }
    text.append(next.valid ? rest.substr(0, next.length) : kReplacement);
    rest.remove_prefix(next.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string TextStream::finish() {
  const bool unfinished = !pending_.empty();
  pending_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace spillway
