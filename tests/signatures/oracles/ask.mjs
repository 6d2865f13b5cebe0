// Asks providers' own libraries whether they would take the deliveries on standard input; answers one boolean for each.
// All of them believe that it is the moment that the first line says.
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { readFileSync } from 'node:fs';
import https from 'node:https';

const { now, certificates, keys, cases } = JSON.parse(readFileSync(0, 'utf8'));
const require = createRequire(import.meta.url);
const TrueDate = Date;
globalThis.Date = class extends TrueDate {
  constructor(...given) { super(...(given.length ? given : [now])); }
  static now() { return now; }
};
const silent = { debug() {}, info() {}, warn() {}, error() {}, log() {} };
Object.assign(console, silent);

// The network of sns-validator: Amazon's certificates, which lie here.
https.get = (url, answered) => {
  const found = certificates[String(url)];
  const response = Readable.from(found ? [Buffer.from(found)] : []);
  response.statusCode = found ? 200 : 404;
  process.nextTick(answered, response);
  return { on() { return this; } };
};

const { verify: github } = await import('@octokit/webhooks-methods');
const { Paddle } = await import('@paddle/paddle-node-sdk');
const { default: Mux } = await import('@mux/mux-node');
const { WorkOS } = await import('@workos-inc/node');
const { validateSignature: line } = await import('@line/bot-sdk');
const { verifyWebhook: clerk } = await import('@clerk/backend/webhooks');
const { Resend } = await import('resend');
const { isValidSignature: sanity } = await import('@sanity/webhook');
const { LinearWebhookClient } = await import('@linear/sdk/webhooks');
const { verifyWebhookSignature: notion } = await import('@notionhq/client');
const { verifySignature: vonage } = await import('@vonage/jwt');
const { OAuth2Client } = await import('google-auth-library');
const { default: OpenAI } = await import('openai');
const { default: Telnyx } = await import('telnyx');
const { default: ModernTreasury } = await import('modern-treasury');
const { validateWebhook: replicate } = require('replicate');
const { WebhookEventVerifier } = require('@onfido/api');
const { Signature: HubSpot } = require('@hubspot/api-client');
const { WebflowClient } = require('webflow-api');
const { WebhooksManager: Box } = require('box-node-sdk/managers/webhooks');
const coinbase = require('coinbase-commerce-node').Webhook;
const { AwsLambdaReceiver: Zoom } = require('@zoom/rivet/users');
const messagebird = require('messagebird/lib/webhook-signature-jwt.js');
const Pusher = require('pusher');
const SnsValidator = require('sns-validator');
const Viber = require('viber-bot/lib/message/message-validator.js');
await import('@shopify/shopify-api/adapters/node');
const { shopifyApi, LogSeverity } = await import('@shopify/shopify-api');

const shopify = (secret) => shopifyApi({
  apiSecretKey: secret, apiKey: 'key', apiVersion: '2025-10', scopes: [], hostName: 'h.example', isEmbeddedApp: false,
  logger: { level: LogSeverity.Error, log: async () => {} },
});
const yes = async (asked) => (await asked, true);

const LIBRARIES = {
  github: ({ secret, headers, body }) => github(secret, body, headers['x-hub-signature-256']),
  paddle: ({ secret, headers, body }) =>
    new Paddle('key').webhooks.isSignatureValid(body, secret, headers['paddle-signature']),
  mux: ({ secret, headers, body }) =>
    yes(new Mux({ tokenId: 'a', tokenSecret: 'b' }).webhooks.verifySignature(body, headers, secret)),
  workos: ({ secret, headers, body }) =>
    new WorkOS('key').webhooks.verifyHeader({ payload: body, sigHeader: headers['workos-signature'], secret }),
  line: ({ secret, headers, body }) => line(body, secret, headers['x-line-signature']),
  clerk: ({ secret, headers, body, url }) =>
    yes(clerk(new Request(url, { method: 'POST', headers, body }), { signingSecret: secret })),
  resend: ({ secret, headers, body }) => yes(new Resend('re_1').webhooks.verify({
    payload: body, webhookSecret: secret,
    headers: { id: headers['svix-id'], timestamp: headers['svix-timestamp'], signature: headers['svix-signature'] },
  })),
  sanity: ({ secret, headers, body }) => sanity(body, headers['sanity-webhook-signature'], secret),
  linear: ({ secret, headers, body }) =>
    new LinearWebhookClient(secret).verify(Buffer.from(body), headers['linear-signature']),
  notion: ({ secret, headers, body }) =>
    notion({ body, signature: headers['x-notion-signature'], verificationToken: secret }),
  vonage: ({ secret, headers }) => vonage(headers.authorization.slice('Bearer '.length), secret),
  openai: ({ secret, headers, body }) =>
    yes(new OpenAI({ apiKey: 'key' }).webhooks.verifySignature(body, headers, secret)),
  telnyx: ({ secret, headers, body }) =>
    yes(new Telnyx({ apiKey: 'key', publicKey: secret }).webhooks.unwrap(body, { headers })),
  modern_treasury: ({ secret, headers, body }) =>
    new ModernTreasury({ apiKey: 'a', organizationID: 'b' }).webhooks.validateSignature(body, headers, { key: secret }),
  replicate: ({ secret, headers, body }) => replicate({ headers, body }, secret),
  onfido: ({ secret, headers, body }) =>
    yes(new WebhookEventVerifier(secret).readPayload(Buffer.from(body), headers['x-sha2-signature'])),
  hubspot: ({ secret, headers, body, url }) => HubSpot.isValid({
    signatureVersion: 'v3', method: 'POST', clientSecret: secret, requestBody: body, url,
    signature: headers['x-hubspot-signature-v3'], timestamp: Number(headers['x-hubspot-request-timestamp']),
  }),
  webflow: ({ secret, headers, body }) =>
    new WebflowClient({ accessToken: 'key' }).webhooks.verifySignature({ headers, body, secret }),
  box: ({ secret, headers, body }) =>
    Box.validateMessage(body, { ...headers, 'box-signature-version': '1', 'box-signature-algorithm': 'HmacSHA256' }, secret),
  coinbase_commerce: ({ secret, headers, body }) =>
    coinbase.verifySigHeader(body, headers['x-cc-webhook-signature'], secret),
  messagebird: ({ secret, headers, body, url }) => yes(messagebird.verify(
    url, body, headers['messagebird-signature-jwt'], Buffer.from(secret),
    Object.assign(new messagebird.VerifyOptions(), { currentTimestamp: now / 1000 }),
  )),
  pusher: ({ secret, headers, body }) => new Pusher({ appId: '1', key: 'k', secret, host: 'h' })
    .webhook({ headers: { ...headers, 'x-pusher-key': 'k', 'content-type': 'application/json' }, rawBody: body })
    .isValid(),
  viber: ({ secret, headers, body }) =>
    new Viber(silent, secret).validateMessage(headers['x-viber-content-signature'], body),
  zoom: ({ secret, headers, body }) => zoom(secret, headers, body),
  shopify: async ({ secret, headers, body, url }) => {
    const given = { 'x-shopify-topic': 'orders/create', 'x-shopify-shop-domain': 'mill.myshopify.com' };
    const more = { 'x-shopify-api-version': '2025-10', 'x-shopify-webhook-id': '7', ...given };
    const rawRequest = { method: 'POST', url, headers: { ...headers, ...more } };
    return (await shopify(secret).webhooks.validate({ rawBody: body, rawRequest })).valid;
  },
  aws_sns: ({ body }) => new Promise((resolve) => new SnsValidator().validate(body, (error) => resolve(!error))),
  google_pubsub: async ({ secret, headers }) => {
    const [audience, email] = secret.split(' ');
    const issuers = ['https://accounts.google.com', 'accounts.google.com'];
    const token = headers.authorization.slice('Bearer '.length);
    const ticket = await new OAuth2Client().verifySignedJwtWithCertsAsync(token, keys, audience, issuers);
    return ticket.getPayload().email === email && ticket.getPayload().email_verified === true;
  },
};

// Zoom's receiver checks a request as it takes it; a listener that is called has a verified event.
async function zoom(secret, headers, body) {
  const receiver = new Zoom({ webhooksSecretToken: secret });
  receiver.init({ eventEmitter: { emit: async () => {} } });
  const answer = await receiver.start()({ body, headers, isBase64Encoded: false }, {});
  return answer.statusCode === 200;
}

const answers = [];
for (const one of cases) {
  try {
    answers.push((await LIBRARIES[one.provider](one)) === true);
  } catch (error) {
    answers.push(process.env.ORACLE_ERRORS ? String(error.stack ?? error) : false);
  }
}
process.stdout.write(JSON.stringify(answers), () => process.exit(0));
