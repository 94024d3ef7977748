// Writes src/prompt/testdata/smollm2_tokens.json: texts with the token ids that llama.cpp makes of
// them, and as much of the model's vocabulary as tokenizing these texts ever looks at, so that a
// unit test checks real ids without the model file.
//
// Usage (after tools/parity/run has installed its packages):
//   cd build/parity && node ../../tools/parity/token_table.mjs MODEL.gguf OUT.json
import fs from "node:fs";
import {load} from "./peer.mjs";

const texts = [
  "", " ", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
  "  leading and trailing  ", "one\ntwo\r\nthree\n\n\nfour", "\ttabs\t\tand    blanks",
  "I'll say it's what they'd've done; we're sure you can't, I'm told.", "IT'S NOT 'S, 'LL or 'D",
  "don\u2019t \u201cquote\u201d \u2014 dash\u2026", "0", "1234567890", "3.14159 and -2,718.28e-10",
  "2024-06-01T12:34:56Z", "x1y22z333", "\u00bd \u00b2\u00b3 \u2167 \u0663\u0664 \u09ea", "price: $1,299.00 (+19%)",
  "def add(a, b):\n    return a + b\n", "for (int i = 0; i < n; ++i) { sum += v[i]; }",
  "#include <vector>\n\nint main() {\n\treturn 0;\n}\n", "{\"key\": [1, 2.5, null, true], \"s\": \"\\n\"}",
  "SELECT * FROM users WHERE id = 42;", "<div class=\"a b\">text</div><!-- no -->", "https://example.org/a/b?c=d&e=%20#f",
  "snake_case camelCase PascalCase SCREAMING_CASE kebab-case", "((()))[[[]]]{{{}}} ;;; ,,, ... !!! ???",
  "=====\n-----\n*****\n#####", "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "\u8bf7\u7528\u4e2d\u6587\u56de\u7b54\uff1a\u4ec0\u4e48\u662f\u4eba\u5de5\u667a\u80fd\uff1f",
  "\u5317\u4eac\u5927\u5b66\u6210\u7acb\u4e8e1898\u5e74\uff01 OK", "\u300c\u5f15\u53f7\u300d\u3001\uff08\u62ec\u53f7\uff09\u3000\u5168\u89d2\u7a7a\u767d",
  "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
  "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "na\u00efve caf\u00e9 \u00fcber stra\u00dfe \u00c5ngstr\u00f6m",
  "nai\u0308ve cafe\u0301 (combining)", "\u{1f600}\u{1f44d}\u{1f3fd} ok", "\u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u{1f1e9}\u{1f1ea}", "\u{1d54f}\u{1d7d8} math",
  "\u00a0nbsp\u00a0\u2003em\u2009thin\u200bzero", "\u0001\u0002 control \u001b[31m red\u007f", "line\u2028separator\u0085next",
  "\ufeffbom", "\ufffd replaced", "a\u0300\u0301\u0302\u0303", "<|im_start|>system\nobey<|im_end|>", "<|endoftext|>", "<repo_name> <file_sep>",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababababababababababababababababab",
  "Donaudampfschifffahrtselektrizit\u00e4tenhauptbetriebswerkbauunterbeamtengesellschaft",
  "dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw==", "550e8400-e29b-41d4-a716-446655440000",
  "                                                                end", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nend",
  "mixed \u4e2d\u6587 and English 12\u500b, \u{1f680}done\n", "\u2200x\u2208\u211d: \u2308x\u2309 = \u2212\u230a\u2212x\u230b", "e=mc\u00b2; \u0394t \u2248 5\u00b5s",
];

const [modelPath, outPath] = process.argv.slice(2);
const peer = await load(modelPath, {vocabOnly: true});
const vocabulary = peer.vocabulary;
const idOf = new Map(vocabulary.tokens.map((token, id) => [token, id]));
const rankOf = new Map(vocabulary.merges.map((merge, rank) => [merge, rank]));

// GPT-2's byte alphabet.
const prints = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 255 && b !== 173);
let next = 256;
const spelling = Array.from({length: 256}, (_, b) => String.fromCodePoint(prints(b) ? b : next++));

const usedTokens = new Set(spelling);
const usedMerges = new Set();

// Joins one word and notes every merge that was ever possible.
function join(symbols) {
  for (;;) {
    let best = -1;
    for (let i = 0; i + 1 < symbols.length; ++i) {
      const merge = symbols[i] + " " + symbols[i + 1];
      if (rankOf.has(merge)) {
        usedMerges.add(merge);
        if (best < 0 || rankOf.get(merge) < rankOf.get(symbols[best] + " " + symbols[best + 1])) {
          best = i;
        }
      }
    }
    if (best < 0) {
      return symbols;
    }
    symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
  }
}

for (const text of texts) {
  const words = text.split(/(\p{N})/u).flatMap((part) => part.match(
    /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu) ?? []);
  for (const word of words) {
    join([...Buffer.from(word, "utf8")].map((byte) => spelling[byte]));
  }
}
for (const merge of usedMerges) {
  const [left, right] = merge.split(" ");
  [left, right, left + right].forEach((token) => usedTokens.add(token));
}
const tokens = [...usedTokens].filter((token) => idOf.has(token)).map((token) => [idOf.get(token), token]);
tokens.sort((a, b) => a[0] - b[0]);
const merges = [...usedMerges].sort((a, b) => rankOf.get(a) - rankOf.get(b));
const line = (value) => JSON.stringify(value).replace(/[\u007f-\uffff]/g,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
fs.writeFileSync(outPath, `{
"size": ${vocabulary.tokens.length},
"tokens": ${line(tokens)},
"merges": ${line(merges)},
"texts": [
${texts.map((text) => line({text, ids: peer.tokenize(text)})).join(",\n")}
]
}
`);
process.exit(0);
