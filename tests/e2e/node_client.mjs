// The official client for Node against the gateway; prints what the test compares.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "any", maxRetries: 0 });
const messages = [{ role: "user", content: "hello" }];

const whole = await client.chat.completions.create({ model: "sim", messages, max_tokens: 7 });
console.log("whole", whole.choices[0].message.content.trim().split(" ").length, whole.choices[0].finish_reason);

let pieces = 0;
let reason = "";
const stream = await client.chat.completions.create({ model: "sim", messages, max_tokens: 7, stream: true });
for await (const chunk of stream) {
  pieces += chunk.choices[0]?.delta?.content ? 1 : 0;
  reason = chunk.choices[0]?.finish_reason ?? reason;
}
console.log("streamed", pieces, reason);

try {
  await client.chat.completions.create({ model: "nowhere", messages });
} catch (error) {
  console.log("error", error.status, error.code);
}

const fault = (order) => fetch(process.env.ENGINE_URL + "/sim/faults", { method: "POST", body: JSON.stringify(order) });

await fault({ fault: "slow_first_token", delay_s: 30, for_s: 60 });
try {
  const headers = { "x-spillway-first-token-timeout-ms": "300" };
  await client.chat.completions.create({ model: "sim", messages, stream: true }, { headers });
} catch (error) {
  console.log("timeout", error.status, error.code);
}

await fault({ fault: "wrong_status", status: 503, for_s: 0.4 });
const patient = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "any", maxRetries: 4 });
const retried = await patient.chat.completions.create({ model: "sim", messages, max_tokens: 3 });
console.log("retried", retried.usage.completion_tokens);

const left = await client.chat.completions.create({ model: "sim", messages, max_tokens: 3000, stream: true });
for await (const chunk of left) {
  if (chunk.choices[0]?.delta?.content) {
    break; // the client aborts the request
  }
}
console.log("left");
