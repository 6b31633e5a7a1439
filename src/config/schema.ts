// Every setting with its default, its bounds and its description: the one schema that configuration is checked by,
// that environment names are derived from, and that `config show` and the reference are made from.

import { z } from 'zod'
import { modelOverrideSchema, premiumOutputRate } from '../catalog/row.ts'
import { failpoints, parseFailpoint } from '../credits/ledger/failpoint.ts'
import { formatUsdPerMillion, parseUsdPerMillion } from '../credits/money.ts'
import { brandSettings } from './brand.ts'
import { accountSettings, creditSettings, keySettings, mailSettings, networkRange } from './accounts.ts'
import {
  baseUrl,
  day,
  grantedUsd,
  listenHost,
  masterKey,
  milliseconds,
  note,
  section,
  whole,
} from './fields.ts'
import {
  hookSettings,
  maskSettings,
  limitSettings,
  mcpSettings,
  providerSchema,
  rateLimitSettings,
  searchSettings,
  streamSettings,
  timeoutSettings,
} from './serving.ts'
import { alarmSettings, logExportSettings } from './operating.ts'
import { storeSettings } from './store.ts'
import { paymentSettings, subscriptionSettings } from './payments.ts'

const modelPattern = z.string().regex(/^\S{1,200}$/, 'must be a model id, perhaps with stars')

export const configSchema = z.strictObject({
  server: section({
    host: note(listenHost.default('127.0.0.1'), 'The address to listen on', { aliases: ['WEIR_HOST'] }),
    port: whole('The port to listen on; 0 takes a free one', 8787, 0, 65_535, ['WEIR_PORT']),
    processes: whole(
      'Equal gateways of this machine on one port, started by one parent (Linux); more than one needs `store.url`',
      1,
      1,
      64,
    ),
    warm_up: note(
      z.boolean().default(true),
      'Whether the gateway makes calls of its own before it is ready, for at most a third of a second, so that the first ones ' +
        'of its clients are not slow. They are in memory alone: nothing is charged or logged',
    ),
    public_url: note(
      baseUrl.optional(),
      'The address under which clients reach the gateway, without /v1, such as https://models.example.org; links in ' +
        'errors begin with it (the address it listens on)',
    ),
    max_body_bytes: whole('The largest request body', 10 * 1024 * 1024, 1024, 1024 ** 3),
    max_header_bytes: whole('The most all headers of a request may measure', 16_384, 1024, 1024 ** 2),
    // Bun counts idleness in whole seconds and takes at most 255 of them.
    idle_timeout_ms: milliseconds(
      'A connection that sends nothing for so long is closed',
      10_000,
      1000,
      255_000,
    ),
    websocket: note(
      z.boolean().default(true),
      'Whether responses are served over a WebSocket at GET /v1/responses; clients are told by 426 where not',
    ),
    cors_origins: note(
      z
        .array(
          z
            .string()
            .regex(
              /^(\*|https?:\/\/(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:\d{1,5})?|(chrome|moz)-extension:\/\/[a-z0-9-]+)$/,
              'must be * or an origin such as https://app.example, in small letters and without a path',
            ),
        )
        .default(['*']),
      'Web pages that may call /v1 from a browser, by origin; `*` is all, an empty list is none. Never with cookies',
    ),
    trusted_proxies: note(
      z.array(networkRange).default([]),
      "Proxies whose X-Forwarded-For is believed, as addresses or ranges such as 10.0.0.0/8; nobody else's is",
    ),
  }),
  data_dir: note(
    z.string().min(1).default('./weir-data'),
    'Where the database and all state live; ~/ is the home directory',
  ),
  store: storeSettings,
  bootstrap: section({
    credit_usd: note(
      grantedUsd.default('100'),
      'Purchased credit that the first run grants to the owner account, US dollars',
    ),
    show: note(
      z.enum(['auto', 'print', 'file']).default('auto'),
      'Where the first run shows the key and the sign-in link: printed, or in first-key.txt of the data folder, for its user ' +
        'alone, so that no journal keeps them. auto: a file where systemd reads the output',
    ),
  }),
  brand: brandSettings,
  accounts: accountSettings,
  keys: keySettings,
  mail: mailSettings,
  credits: creditSettings,
  payments: paymentSettings,
  webhooks: section({
    timeout_ms: milliseconds('The longest that a webhook may take to answer', 10_000, 100, 60_000),
    every_ms: milliseconds('How often messages that are due are looked for', 1_000, 50, 60_000),
    watch_ms: milliseconds(
      'How often accounts with webhooks are looked at for low balances, expiring lots and keys at their limit',
      60_000,
      100,
    ),
  }),
  subscriptions: subscriptionSettings,
  providers: z
    .record(
      z
        .string()
        .regex(
          /^[a-z0-9][a-z0-9._-]{0,63}$/,
          'a provider id is lower case letters, digits, dot, dash, underscore',
        ),
      providerSchema,
    )
    .default({}),
  models: note(z.array(modelOverrideSchema).default([]), 'Adds to, or overrides, the bundled catalog'),
  aliases: note(
    z.record(z.string().regex(/^\S{1,200}$/, 'must be a name without spaces'), z.string().min(1)).default({}),
    'Other names of models and routes: `gpt: openai/gpt-5`',
  ),
  catalog: section({
    offer: note(
      z.array(modelPattern).default([]),
      'Only these models are offered, by id; a star stands for any text, as in openai/*. A route may lead to others',
    ),
    hide: note(
      z.array(modelPattern).default([]),
      'These models are not offered, by id, with stars as in offer',
    ),
    bare_names: note(
      z.boolean().default(false),
      'Whether a name without a provider is that of its maker, where exactly one has it: gpt-5 means openai/gpt-5',
    ),
  }),
  cache: section({
    max_bytes: note(
      z.int().min(0).default(67_108_864),
      'What answers take that are given again to requests that ask for it (`cache`), in memory; one takes at most an eighth of it; 0 keeps none',
    ),
  }),
  premium: section({
    output_usd_per_million: note(
      z
        .string('must be written as a string, "25"')
        .refine(
          (text) => parseUsdPerMillion(text) !== undefined,
          'must be US dollars per million tokens, such as "25"',
        )
        .default(formatUsdPerMillion(premiumOutputRate)),
      'A model whose output costs at least this much is premium unless its entry under models says otherwise',
    ),
  }),
  search: searchSettings,
  secrets: section({
    master_key: note(
      z
        .union([masterKey.transform((key) => [key]), z.array(masterKey)], {
          error: 'must be text, or a list of it',
        })
        .default([]),
      'Encrypts what is entrusted to the gateway (tokens of MCP servers, keys of providers that are entered while it runs): at least 32 random characters, as from ' +
        '`openssl rand -base64 32`; of a list the first encrypts and all decrypt. Without it nothing secret is taken',
      { secret: true },
    ),
  }),
  mcp: mcpSettings,
  egress: section({
    allow_hosts: note(
      z
        .array(
          z
            .string()
            .regex(
              /^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?|gs:\/\/[a-z0-9._-]+)$/,
              'must be host, host:port or gs://bucket',
            ),
        )
        .default([]),
      "Private addresses that users' requests may reach (MCP servers, images), as host or host:port; as gs://bucket " +
        'also files of Cloud Storage, which Google reads with the rights of the operator',
    ),
    provider_files: note(
      z.boolean().default(false),
      'Whether requests may name files by their ids that are stored at a provider: it reads them with the rights of ' +
        "the operator, so that everybody could name everybody's",
    ),
    file_bytes: whole(
      'The largest image or file that is fetched for a request',
      20 * 1024 ** 2,
      1024,
      256 * 1024 ** 2,
    ),
    request_bytes: whole(
      'The most bytes of images and files that are fetched for one request',
      50 * 1024 ** 2,
      1024,
      1024 ** 3,
    ),
    timeout_ms: milliseconds(
      'How long fetching the images and files of one request may take',
      15_000,
      10,
      600_000,
    ),
  }),
  hooks: hookSettings,
  masks: maskSettings,
  timeouts: timeoutSettings,
  stream: streamSettings,
  limits: limitSettings,
  rate_limits: rateLimitSettings,
  ledger: section({
    hold_default_output_tokens: whole(
      'Output tokens held, at least, for a request that names no maximum',
      4_096,
      1,
      10_000_000,
    ),
    lease_ms: milliseconds(
      'How long a call belongs to the process that runs it without a sign of life',
      60_000,
      1000,
    ),
    sweep_ms: milliseconds('How often abandoned calls are ended and expired credit is booked', 15_000, 50),
    clock_back_ms: milliseconds(
      "How far the clock may be behind the ledger's time, which never runs backwards, before nothing is admitted",
      3_600_000,
      1000,
      10 * 365 * 86_400_000,
    ),
    group_max: whole('The most ledger commands that share one commit', 64, 1, 10_000),
    group_wait_ms: milliseconds('The longest a ledger command waits for others to commit with', 2, 0, 1_000),
    queue_max: whole(
      'Ledger commands that may wait; beyond it new calls are refused with 503',
      10_000,
      1,
      10_000_000,
    ),
  }),
  idempotency: section({
    keep_ms: milliseconds('How long an Idempotency-Key and its answer are remembered', day, 1000, 7 * day),
    answer_bytes: whole(
      'The largest answer kept for its Idempotency-Key; a larger one is not replayed',
      4 * 1024 * 1024,
      1024,
      64 * 1024 ** 2,
    ),
    account_bytes: whole(
      'How much of answers is kept for the Idempotency-Keys of an account; one beyond that is not replayed',
      1024 ** 3,
      0,
      1024 ** 4,
    ),
  }),
  responses: section({
    retention_ms: whole(
      'How long a response of POST /v1/responses is stored, milliseconds',
      30 * day,
      1000,
      3650 * day,
      ['WEIR_RESPONSES_RETENTION'],
    ),
    // As much as a body plus an answer: a client that sends a file can continue by the id alone.
    stored_bytes: whole(
      'The largest response that is stored, with its input; a larger one says `store: false`',
      12 * 1024 * 1024,
      1024,
      64 * 1024 ** 2,
    ),
    account_bytes: whole(
      'How much an account may have stored; a response beyond that says `store: false`',
      1024 ** 3,
      0,
      1024 ** 4,
    ),
  }),
  retention: section({
    requests: milliseconds('How long the request log keeps a call', 90 * day, 1000, 3650 * day),
    signatures: milliseconds(
      "How long a tool call's thought signature is kept for clients that drop it",
      day,
      1000,
      365 * day,
    ),
    // Longer than the credit of a payment lives; never so short that a refund is forgotten before its payment comes.
    payment_events: milliseconds(
      'How long the messages of payment processors are kept',
      400 * day,
      30 * day,
      3650 * day,
    ),
  }),
  log: section({
    level: note(
      z.enum(['debug', 'info', 'warn', 'error']).default('info'),
      'The least important lines to write',
    ),
    format: note(
      z.enum(['auto', 'json', 'pretty']).default('auto'),
      '`auto` is pretty in a terminal and JSON lines everywhere else',
    ),
    prompts: note(
      z.boolean().default(false),
      'Whether the words of requests and answers may appear in the log',
    ),
    export: logExportSettings,
  }),
  alarms: alarmSettings,
  local_servers: section({
    discover: note(
      z.boolean().optional(),
      'Look for inference servers on this machine; left out, only where the database is on it, too',
    ),
    every_ms: milliseconds('How often to look for servers that have come or gone', 15_000, 100),
    timeout_ms: milliseconds('How long each of them may take to answer', 500, 10, 30_000),
  }),
  test: section({
    failpoint: note(
      z
        .string()
        .refine((text) => parseFailpoint(text) !== undefined, {
          error: 'must be a known point and a count, such as hold-decided:17',
        })
        .optional(),
      `For trials of recovery: kills the process, as -9 does, when calls pass a point for the nth time (point:n). Points: ${Object.keys(failpoints).join(', ')}`,
    ),
  }),
})

/** All settings of the gateway, checked and complete. Names are those of weir.yaml. */
export type Config = z.output<typeof configSchema>
