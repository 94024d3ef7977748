// Writes what llama.cpp makes of the prompts: their token ids, 64 greedy tokens for each, and for
// each of these 64 positions the ten best tokens with their log-probabilities. (Differences of
// log-probabilities are differences of logits.)
//
// Usage: node reference.mjs MODEL.gguf PROMPTS.json OUT.json      (from build/parity)
import fs from "node:fs";
import {load} from "./peer.mjs";

const generated = 64;
const top = 10;

const [modelPath, promptsPath, outPath] = process.argv.slice(2);
const peer = await load(modelPath);
const context = await peer.model.createContext({contextSize: 4096, threads: 2, flashAttention: false});
const sequence = context.getSequence();

// The ten best of what comes after these tokens, which go on from those before.
async function best(tokens) {
  const next = {generateNext: {probabilities: true}};
  const outputs = await sequence.controlledEvaluate(
    tokens.map((token, i) => (i + 1 === tokens.length ? [token, next] : token)));
  const entries = [];
  for (const entry of outputs[tokens.length - 1].next.probabilities) {
    entries.push(entry);
    if (entries.length === top) {
      break;
    }
  }
  return entries.map(([token, probability]) => [token, Math.log(probability)]);
}

const prompts = [];
for (const {name, text, messages} of JSON.parse(fs.readFileSync(promptsPath, "utf8"))) {
  const tokens = messages ? peer.tokenize(peer.render(messages), true) : peer.tokenize(text);
  const from = tokens.length;
  await sequence.clearHistory();
  const positions = [await best(tokens)];
  while (positions.length < generated) {
    const token = positions.at(-1)[0][0];
    tokens.push(token);
    positions.push(await best([token]));
  }
  prompts.push({name, tokens, from, positions});
  console.error(`  reference: ${prompts.length} ${name} (${from} tokens)`);
}
fs.writeFileSync(outPath, JSON.stringify({prompts}));
process.exit(0);
