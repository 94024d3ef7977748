#pragma once
// GPT-2's byte alphabet: a printable character for each of the 256 bytes, in which vocabularies of
// byte-level BPE spell their tokens ("Ġ" is the blank). Bytes that print stand for themselves, the
// others get U+0100 upward in order. Pure; anybody may call it.

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// The spelling of each byte, UTF-8.
const std::array<std::string, 256>& byte_spellings();

// The bytes that a token's spelling stands for; none when a character is not of the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace spillway
