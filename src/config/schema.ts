// Every setting with its default, its bounds and its description: the one schema that configuration is checked by,
// that environment names are derived from, and that `config show` and the reference are made from.

import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { z } from 'zod'
import { modelOverrideSchema, premiumOutputRate } from '../catalog/row.ts'
import { failpoints, parseFailpoint } from '../credits/ledger/failpoint.ts'
import { formatUsdPerMillion, parseUsd, parseUsdPerMillion } from '../credits/money.ts'
import {
  accountSettings,
  creditSettings,
  isLoopback,
  keySettings,
  mailSettings,
  networkRange,
} from './accounts.ts'
import {
  baseUrl,
  day,
  grantedUsd,
  listenHost,
  masterKey,
  milliseconds,
  note,
  secret,
  section,
  usdAmount,
  usdText,
  whole,
} from './fields.ts'
import { paymentSettings, subscriptionSettings } from './payments.ts'
import {
  hookSettings,
  limitSettings,
  maskSettings,
  mcpSettings,
  providerSchema,
  rateLimitSettings,
  searchSettings,
  streamSettings,
  timeoutSettings,
} from './serving.ts'

// Settings of the brand: whose gateway it is, as its customers see it.

/** Type of an image by the end of its file's name. */
const imageTypes: Readonly<Record<string, string>> = {
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
}
const mostLogoBytes = 32 * 1024
/** The console's panel in both themes, which colours of a brand stand on. */
const panels = { light: [255, 255, 255], dark: [21, 26, 28] } as const
/** As WCAG asks of text. */
const leastContrast = 4.5
/** How much of a colour is in the surface of what is chosen: see `--accent-soft` of the console. */
const softShare = 0.1

function isWebAddress(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '')
}

const publicUrl = z.string().refine(isWebAddress, 'must be an address such as https://host/terms')

export const brandSettings = section({
  name: note(
    z.string().trim().min(1).max(60).optional(),
    'What the gateway is called in the console, the chat, mails and receipts (Weir)',
  ),
  logo: note(
    z
      .string()
      .refine((path) => logoFault(path) === undefined, { error: ({ input }) => logoFault(String(input)) })
      .optional(),
    'A file with its logo, SVG, PNG or WebP of at most 32 kB; it is shown 26 pixels high',
  ),
  colors: section({
    accent: note(
      accentOn('light').optional(),
      'The colour of buttons and links on white, such as "#0a6482"; texts of it can be read, or it is refused',
    ),
    accent_dark: note(accentOn('dark').optional(), 'The same in the dark theme, such as "#67c5e2"'),
  }),
  terms_url: note(publicUrl.optional(), 'Where its terms are; the sign-in and the menu link them'),
  privacy_url: note(publicUrl.optional(), 'Where its privacy policy is'),
  support: note(
    z
      .string()
      .refine(
        (text) => isWebAddress(text) || z.email().safeParse(text).success,
        'must be an e-mail address or an address such as https://host/help',
      )
      .optional(),
    'Where customers get help: an e-mail address, or the address of a page',
  ),
})

/** The logo as an address that needs no request. Throws where `logoFault` tells why. */
export function logoUrl(path: string): string {
  return `data:${imageTypes[extname(path).toLowerCase()]};base64,${readFileSync(path).toString('base64')}`
}

function logoFault(path: string): string | undefined {
  if (imageTypes[extname(path).toLowerCase()] === undefined)
    return 'must be a file that ends with .svg, .png or .webp'
  try {
    const bytes = readFileSync(path).length
    return bytes > mostLogoBytes ? `has ${bytes} bytes, more than ${mostLogoBytes}` : undefined
  } catch (error) {
    return `cannot be read: ${error instanceof Error ? error.message : String(error)}`
  }
}

type Rgb = readonly [red: number, green: number, blue: number]

function accentOn(theme: keyof typeof panels) {
  return z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, { error: 'must be a colour such as "#0a6482"', abort: true })
    .refine((text) => contrastOf(text, panels[theme]) >= leastContrast, {
      error: ({ input }) => {
        const found = contrastOf(String(input), panels[theme]).toFixed(1)
        const way = theme === 'light' ? 'a darker' : 'a lighter'
        return `has a contrast of ${found} : 1 with what it stands on, and texts need ${leastContrast} : 1: take ${way} one`
      },
    })
}

/** Of a colour with the surface that it is mixed into, which is where it is read worst. */
function contrastOf(text: string, panel: Rgb): number {
  const color = [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16)) as unknown as Rgb
  const soft = panel.map((part, at) => part * (1 - softShare) + color[at]! * softShare) as unknown as Rgb
  const [a, b] = [luminanceOf(color), luminanceOf(soft)]
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
}

/** WCAG 2.2, relative luminance. */
function luminanceOf(color: Rgb): number {
  const [red, green, blue] = color.map((part) => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}

// Settings of what a gateway tells those who run it: its request log elsewhere, and alarms.

/** An address that takes messages; it may hold a token in its path or its query. */
const hookUrl = z.string().refine(
  (text) => {
    const url = URL.parse(text)
    return (
      (url?.protocol === 'https:' || url?.protocol === 'http:') && url.username === '' && url.password === ''
    )
  },
  { error: 'must be an address such as https://example.org/hooks/weir, without a user and a password' },
)

export const logExportSettings = section({
  every_ms: milliseconds('How often rows of the request log are sent', 60_000, 100),
  batch_rows: whole('The most rows that are sent together', 5_000, 1, 100_000),
  s3: section({
    endpoint: note(
      baseUrl.optional(),
      'An S3-compatible store for the rows of the request log, such as https://s3.eu-central-1.amazonaws.com',
    ),
    bucket: note(
      z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/, 'must be the name of a bucket')
        .optional(),
      'The bucket that they are written to',
    ),
    region: note(z.string().min(1).max(64).default('us-east-1'), 'Its region, as requests are signed for it'),
    access_key: note(
      secret.optional(),
      'The access key: text, ${ENVIRONMENT_NAME} or file:/path; it needs no right but to write objects',
      { secret: true },
    ),
    secret_key: note(secret.optional(), 'Its secret', { secret: true }),
    prefix: note(
      z
        .string()
        .regex(/^[A-Za-z0-9_.~/-]{0,200}$/, 'must be letters, digits and _.~-/')
        .default('weir/requests'),
      'What the names of the objects begin with; the day follows',
    ),
  }),
  webhook: section({
    url: note(hookUrl.optional(), 'An address that takes rows of the request log, instead of a store'),
    secret: note(secret.optional(), 'What the messages are signed with, as those of webhooks', {
      secret: true,
    }),
  }),
})

const share = z.number().positive().max(1)

/** Monthly budgets of calendar months in UTC. */
const monthUsd = usdText.refine((text) => (parseUsd(text) ?? 0n) > 0n, { error: 'must be more than nothing' })

export const alarmSettings = section({
  mail: note(
    z.array(z.string().regex(/^[^\s@]+@[^\s@]+$/, 'must be an e-mail address')).default([]),
    'Addresses that are told when something is wrong, and when it is over; they need mail.smtp_url',
  ),
  webhook: section({
    url: note(hookUrl.optional(), 'An address that is told the same'),
    secret: note(secret.optional(), 'What the messages are signed with, as those of webhooks', {
      secret: true,
    }),
  }),
  every_ms: milliseconds('How often is looked whether something is wrong', 60_000, 100),
  provider_down_ms: milliseconds(
    'How long a provider must not have answered before that is told; 0 never',
    120_000,
    0,
  ),
  installation_month_usd: note(
    monthUsd.optional(),
    'What all calls of a calendar month (UTC) may cost, US dollars; nothing is refused for it',
  ),
  account_month_usd: note(monthUsd.optional(), 'The same for what each account spends'),
  shares: note(
    z.array(share).max(10).default([0.8, 1]),
    'The shares of these budgets that are told of, each once a month; groups have shares of their own (warn_at)',
  ),
  sudden_spend_factor: whole(
    'How many times what is usual at this hour, or on this day, of the week is told as sudden spending; 0 never',
    3,
    0,
    1_000,
  ),
  sudden_spend_least_usd: usdAmount('How much more than usual it must be', '10'),
  refusals_factor: whole(
    'How many times the refusals of the last day are told as rising; 0 never',
    5,
    0,
    1_000,
  ),
  refusals_least: whole('How many in a quarter of an hour there must be', 100, 1, 1_000_000),
  audit: note(
    z.boolean().default(true),
    'Whether each day is audited after its end, and audits that are not clean are told',
  ),
  disk_free_percent: whole(
    'How much of the disk must be free, percent, else that is told; 0 never',
    10,
    0,
    99,
  ),
  webhooks_waiting: whole(
    'How many messages to webhooks may wait before that is told; 0 for any',
    1_000,
    0,
    100_000,
  ),
})

// Where the ledger and everything else is kept: SQLite in the data directory, or a PostgreSQL that is named here.

/** How far a server is trusted: `verify-full` asks for a certificate for its name, `verify-ca` for any of the authority. */
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const

export const storeSettings = section({
  url: note(
    z
      .string()
      .refine((text) => addressFault(text) === undefined, {
        error: (issue) => addressFault(String(issue.input)),
      })
      .optional(),
    'A PostgreSQL (15 or newer) that keeps everything in place of SQLite, such as postgres://weir@db.example.org:5432/weir. ' +
      'Its certificate is verified (sslmode=verify-full) unless it is on this machine',
    { secret: true },
  ),
  password: note(secret.optional(), 'The password for store.url, where that has none', { secret: true }),
  ca: note(
    z.string().min(1).optional(),
    "A file with the certificates (PEM) of the authority that has signed the one of store.url; the system's own where it is left out",
  ),
  prepare: note(
    z.boolean().default(true),
    'Whether statements are prepared. No for a pooler that shares connections by transaction, such as PgBouncer before 1.21',
  ),
})

type StoreSettings = z.output<typeof storeSettings>

/** What is wrong with an address, without quoting it: it holds a password. */
function addressFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^postgres(ql)?:$/.test(url.protocol) || url.hostname === '')
    return 'must be an address such as postgres://weir@db.example.org:5432/weir'
  if (url.pathname.length < 2) return 'must name the database: postgres://weir@db.example.org:5432/weir'
  if (url.username === '') return 'must name the user: postgres://weir@db.example.org:5432/weir'
  const other = [...url.searchParams.keys()].find((name) => name !== 'sslmode' && name !== 'application_name')
  // One may be a password: only its name is told.
  if (other !== undefined)
    return `has ${other}, which is not known here: sslmode and application_name are, and store.password and store.ca are settings`
  const mode = url.searchParams.get('sslmode')
  if (mode !== null && !sslModes.some((known) => known === mode))
    return `has an sslmode that is not one of ${sslModes.join(', ')}`
  return undefined
}

/** What is wrong with the settings of the store taken together, by the name of the one to change. */
export function storeFault(
  settings: Readonly<Record<string, unknown>>,
): { readonly name: string; readonly problem: string } | undefined {
  const { url, ca, password } = settings
  if (typeof url !== 'string') {
    const [alone] = Object.entries({ password, ca }).filter(([, value]) => value !== undefined)
    return alone && { name: alone[0], problem: 'says nothing without store.url' }
  }
  if (addressFault(url) !== undefined) return undefined
  const { hostname, searchParams, password: written } = new URL(url)
  if (written !== '' && password !== undefined)
    return { name: 'password', problem: 'is one too many: store.url has one' }
  if (searchParams.get('sslmode') === 'require' && ca === undefined && !isLoopback(hostname))
    return {
      name: 'url',
      problem:
        'has sslmode=require, which believes any certificate: leave it out to have the certificate verified, and name ' +
        'its authority in store.ca',
    }
  return undefined
}

/** A server in the terms of the client: the mode and the password are in the address. */
interface StoreServer {
  readonly url: string
  readonly ca: string | undefined
  readonly prepare: boolean
}

/**
 * Where the store is: a server, or the data directory alone. With certificates of an authority `require` asks for the right
 * name, too. Throws where `store.ca` cannot be read.
 */
export function storePlace({
  data_dir: dataDir,
  store,
}: {
  readonly data_dir: string
  readonly store: StoreSettings
}): { readonly dataDir: string; readonly server: StoreServer | undefined } {
  return { dataDir, server: serverOf(store) }
}

/** The server at an address that is no setting. Throws with what is wrong with it, without quoting it. */
export function serverAt(url: string, ca: string | undefined): StoreServer {
  const problem = addressFault(url) ?? storeFault({ url, ca })?.problem
  if (problem !== undefined) throw new Error(problem)
  return serverOf({ url, ca, prepare: true })!
}

function serverOf({ url, password, ca, prepare }: StoreSettings): StoreServer | undefined {
  if (url === undefined) return undefined
  const address = new URL(url)
  if (password !== undefined) address.password = encodeURIComponent(password)
  if (!address.searchParams.has('sslmode') && (ca !== undefined || !isLoopback(address.hostname)))
    address.searchParams.set('sslmode', 'verify-full')
  return { url: address.href, ca: ca === undefined ? undefined : authoritiesIn(ca), prepare }
}

function authoritiesIn(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown)
    throw new Error(`store.ca cannot be read: ${reason}`, { cause: thrown })
  }
}

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
      'Whether the gateway makes calls of its own before it is ready, for at most a fifth of a second: the first ones of its ' +
        'clients are quicker then. It takes about ten megabytes from the start that it would take with them. They are in ' +
        'memory alone: nothing is charged or logged',
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
