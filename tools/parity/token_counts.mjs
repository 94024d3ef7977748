// Fills in `tokens` of src/prompt/testdata/token_counts.json with what the model's tokenizer counts.
//
// Usage (after tools/parity/run has installed its packages):
//   cd build/parity && node ../../tools/parity/token_counts.mjs MODEL.gguf FILE.json
import fs from "node:fs";
import {load} from "./peer.mjs";

const [modelPath, path] = process.argv.slice(2);
const peer = await load(modelPath, {vocabOnly: true});
const samples = JSON.parse(fs.readFileSync(path, "utf8"));
for (const sample of samples) {
  sample.tokens = peer.tokenize(sample.text).length;
}
fs.writeFileSync(path, JSON.stringify(samples, null, 1) + "\n");
process.exit(0);
