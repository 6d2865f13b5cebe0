// Enqueue, dequeue and ack one message, with nothing but what was generated.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Delivery = components["schemas"]["Delivery"];
// A problem of the functions, or the few words of API Gateway (401, 403).
type Refusal = { code: string } | { message: string };

declare const process: { env: Record<string, string | undefined> };

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

function reason(refusal: Refusal | undefined): string {
  if (refusal === undefined) return "";
  return "code" in refusal ? refusal.code : refusal.message;
}

const client = createClient<paths>({
  baseUrl: setting("MILLRACE_URL"),
  headers: { Authorization: `Bearer ${setting("MILLRACE_TOKEN")}` },
});
const params = { path: { queue: "Jobs" } };

const enqueued = await client.POST("/v1/queues/{queue}/messages", { params, body: { body: { from: "typescript" } } });
if (!enqueued.data) throw new Error(`enqueue: ${reason(enqueued.error)}`);

const dequeued = await client.POST("/v1/queues/{queue}/dequeue", { params, body: { max: 1, wait_ms: 5_000 } });
if (!dequeued.data) throw new Error(`dequeue: ${reason(dequeued.error)}`);
const delivery: Delivery | undefined = dequeued.data.messages[0];
if (delivery === undefined) throw new Error("nothing was handed out");

const acked = await client.POST("/v1/queues/{queue}/ack", { params, body: { claim: delivery.claim } });
if (!acked.data) throw new Error(`ack: ${reason(acked.error)}`);

const claim = "c1.unsealed.q83vEjRWeJCrze8SNFZ4kA";
const refused = await client.POST("/v1/queues/{queue}/ack", { params, body: { claim } });
console.log(JSON.stringify({
  enqueued: enqueued.data.message_id,
  acked: acked.data.message_id,
  body: delivery.body,
  refused: reason(refused.error),
}));
