#pragma once
// Turns the bytes of tokens into text piece by piece: a UTF-8 character is never split over two
// pieces, and what can no longer become one is replaced by U+FFFD, one for each maximal part
// (Unicode 15, chapter 3.9, "U+FFFD substitution of maximal subparts"). Holds at most three bytes
// back. One owner; pure.

#include <string>
#include <string_view>

namespace spillway {

class TextStream {
 public:
  // The text that is certain now, valid UTF-8, possibly empty.
  std::string push(std::string_view bytes);

  // The end of the bytes: U+FFFD for an unfinished character, else empty. The stream begins anew.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace spillway
