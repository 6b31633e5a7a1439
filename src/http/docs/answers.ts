// The answers about webhooks, in the console's API and the admin API.

import { z } from 'zod'
import { pools } from '../../credits/pool.ts'
import { eventTypes } from '../../notify/webhook.ts'
import { adminPaymentAnswers, paymentAnswers } from '../payments/documentation.ts'
import { providersSchema } from '../service/documentation.ts'
import { requestListSchema, requestSchema } from '../v1/account-documentation.ts'
import { usageSchema } from '../v1/usage.ts'
import { type Answers, data, pageOf, time, usd } from './operation.ts'

const webhook = z.strictObject({
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(eventTypes)),
  created_at: time,
})
const attempt = z.strictObject({
  at: time,
  status: z.int().nullable().describe('Of the answer; null where none came.'),
  error: z.string().nullable().describe('Null where it was taken.'),
  ms: z.int(),
})
const delivery = z.strictObject({
  id: z.string().describe('`webhook-id` of every attempt.'),
  type: z.string(),
  at: time,
  state: z.enum(['waiting', 'delivered', 'given_up']),
  next_at: time.nullable().describe('When it is tried next.'),
  attempts: z.array(attempt),
})

const webhookAnswers: Answers = {
  'GET webhooks': data(z.array(webhook)),
  'POST webhooks': webhook.extend({ secret: z.string().describe('The secret itself, this once.') }),
  'DELETE webhooks/:id': z.strictObject({ id: z.string(), removed: z.literal(true) }),
  'POST webhooks/:id/test': attempt.extend({ ok: z.boolean() }),
  'GET webhooks/:id/deliveries': data(z.array(delivery)),
}

// The answers of the console's API. The documentation is generated from these closed schemas, and the journeys check
// every answer against them.

const role = z.enum(['user', 'operator'])

const access = z
  .strictObject({
    password: z.int(),
    passkeys: z.int(),
    identities: z.int(),
    sessions: z.int(),
    links: z.int(),
    keys: z.int(),
    management_keys: z.int(),
    webhooks: z.int(),
    mcp_servers: z.int(),
    conversations: z.int(),
  })
  .describe('What lets somebody into the account or acts for it: how many of each work now.')

const session = z.strictObject({
  account: z
    .strictObject({
      id: z.string(),
      email: z.string(),
      created_at: time,
      email_verified: z.boolean(),
      has_password: z.boolean(),
      passkeys: z.int(),
      access,
    })
    .nullable()
    .describe('Null for whoever is not signed in.'),
  role: role.nullable(),
  elevated_until: time.nullable().describe('Until when the proof of identity is fresh.'),
  methods: z.array(z.string()).describe('`password`, `passkey`, `oidc:<label>`.'),
  sign_up: z.enum(['closed', 'invite', 'open']),
  mail: z.boolean().describe('Whether this gateway sends mail: without it an operator hands out links.'),
})

const accepted = z.strictObject({ status: z.literal('accepted'), mail: z.boolean() })
const deleted = z.strictObject({ id: z.string(), deleted: z.literal(true) })
const ended = z.strictObject({ id: z.string(), ended: z.literal(true) })

const passkey = z.strictObject({
  id: z.string(),
  name: z.string(),
  created_at: time,
  last_used_at: time.nullable(),
  backed_up: z.boolean().describe('Whether it is kept in more places than one device.'),
})

const identity = z.strictObject({
  issuer: z.string(),
  subject: z.string().describe('Who it is at the issuer.'),
  label: z.string().nullable().describe('Null for an issuer that is not in the configuration any more.'),
  linked_at: time,
})

/** What `navigator.credentials` takes: defined by WebAuthn. */
const webAuthnOptions = z.looseObject({ challenge: z.string() })

const key = z.strictObject({
  id: z.string(),
  name: z.string(),
  mode: z.enum(['live', 'test']),
  state: z.enum(['active', 'expired', 'revoked']),
  last4: z.string(),
  created_at: time,
  expires_at: time.nullable(),
  revoked_at: time.nullable(),
  last_used_at: time.nullable(),
  limit_usd: usd.nullable(),
  limit_window: z.enum(['day', 'week', 'month', 'total']),
  spent_usd: usd.describe('In the window that is open now.'),
  spendable_usd: usd
    .nullable()
    .describe('The lesser of what its limit leaves and the free purchased credit; null in test mode.'),
  models: z.array(z.string()).nullable(),
  requests_per_minute: z.int().nullable(),
  tokens_per_minute: z.int().nullable(),
  networks: z.array(z.string()).nullable(),
  sees: z.enum(['own', 'all']).describe('Whose calls and responses it may read.'),
  replaced_by: z.string().nullable().describe('The id of the key that has replaced it.'),
})

const newKey = key.extend({
  key: z.string().describe('The key itself, this once.'),
  replaces: z.string().optional(),
  replaced_works_until: time.optional(),
})

const pool = z.enum(pools)

const credits = z.strictObject({
  currency: z.literal('USD'),
  held: usd,
  debt: usd,
  credit_line: z.string().nullable().describe('How much it may owe: US dollars, or `unlimited`.'),
  spendable: z.strictObject({
    api: usd.describe('What one API call could hold now.'),
    app: usd.describe('The same for a chat with a flash-class model.'),
  }),
  pools: z.array(
    z.strictObject({
      type: pool,
      remaining: usd,
      held: usd,
      api_spendable: z.boolean(),
      resets_at: time.nullable(),
    }),
  ),
  lots: z
    .array(
      z.strictObject({
        id: z.string(),
        pool,
        amount: usd,
        remaining: usd,
        held: usd,
        granted_at: time,
        expires_at: time.nullable(),
      }),
    )
    .describe('Those that live, in the order in which their pool spends them.'),
  notices: z
    .array(
      z.discriminatedUnion('kind', [
        z.strictObject({ kind: z.literal('balance_low'), available: usd, threshold: usd }),
        z.strictObject({
          kind: z.literal('lot_expiring'),
          lot: z.string(),
          remaining: usd,
          expires_at: time,
        }),
      ]),
    )
    .describe(
      'What should be known before it is too late; by `credits.low_balance_usd` and `credits.expiring_days`.',
    ),
  total_purchased: usd,
  total_used: usd,
})

const historyEntry = z.strictObject({
  at: time,
  kind: z.string(),
  pool: z.string().nullable(),
  amount: usd.describe('Signed.'),
  lot: z.string().nullable(),
  call: z.string().nullable(),
  model: z.string().nullable(),
  note: z.string().nullable(),
})

/** Where a call came from. */
/** Keys, and how many were left out because they have ended. */
const keyPage = pageOf(key).extend({ hidden: z.int() })

const origin = {
  channel: z.enum(['api', 'app']),
  key_name: z.string().nullable(),
  mode: z.enum(['live', 'test']),
}

const requestRow = z.strictObject({ ...requestListSchema.shape.data.element.shape, ...origin })

const refusal = z.strictObject({
  rule: z.string(),
  code: z.string(),
  rules: z.array(
    z.strictObject({
      id: z.string(),
      code: z.string(),
      asks: z.string(),
      outcome: z.enum(['passed', 'fired', 'not_reached']),
    }),
  ),
  figures: z.strictObject({
    needed: usd.optional(),
    available: usd.optional(),
    held: usd.optional(),
    key_limit_left: usd.optional(),
    resets_at: time.nullable().optional(),
    pools: z
      .array(z.strictObject({ type: pool, remaining: usd, free: usd, counted: z.boolean() }))
      .optional(),
  }),
  act: z.strictObject({
    kind: z.enum([
      'top_up',
      'other_model',
      'wait',
      'raise_key_limit',
      'allow_model',
      'change_request',
      'none',
    ]),
    amount: usd.nullable(),
    text: z.string(),
  }),
})

const requestDetail = data(
  z.strictObject({
    ...requestSchema.shape.data.shape,
    ...origin,
    refusal: refusal.nullable().describe('Why a call was refused before it was sent.'),
  }),
)

const reason = z
  .enum(['no_provider', 'plan_required', 'purchased_credits_required', 'not_chat', 'account_suspended'])
  .nullable()
  .describe('Why it cannot be called; null where it can.')

const model = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    provider: z.string(),
    context_length: z.int().nullable(),
    max_output_tokens: z.int().nullable(),
    input: usd.describe('For a million tokens, as the other prices.'),
    output: usd,
    cache_read: usd,
    access: z.enum(['open', 'premium']),
    flash_class: z.boolean(),
    pools: z.array(pool),
    reasoning: z.boolean(),
    images: z.boolean(),
    files: z.boolean(),
    kind: z.enum(['chat', 'embeddings']),
    callable: z.strictObject({ api: reason, app: reason }),
  })
  .partial()

const conversation = z.strictObject({
  id: z.string(),
  title: z.string(),
  model: z.string().nullable(),
  last_response: z.string().nullable(),
  created_at: time,
  updated_at: time,
})

const openConversation = conversation.extend({
  answering: z.boolean().describe('An answer is being written in it.'),
})

const turn = z.strictObject({
  response: z.looseObject({ id: z.string() }).describe('As `GET /app/v1/responses/{id}` has it.'),
  input: z.array(z.looseObject({})),
})

const connect = z.strictObject({
  base_url: z.string(),
  clients: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string(),
      about: z.string(),
      files: z.array(z.strictObject({ path: z.string().nullable(), language: z.string(), text: z.string() })),
    }),
  ),
})

const mcpServer = z.strictObject({
  name: z.string(),
  url: z.string(),
  headers: z.array(z.string()).describe('Their names.'),
  authorized: z.boolean().describe('It is sent a token by OAuth.'),
  needs_authorization: z
    .boolean()
    .describe(
      'Its owner has to authorise it: for the first time, or because it has refused the token since.',
    ),
  created_at: time,
  changed_at: time,
})

export const consoleAnswers: Answers = {
  ...webhookAnswers,
  ...paymentAnswers,
  'GET session': session,
  'POST sign-up': accepted,
  'POST sign-in': session,
  'POST sign-out': session,
  'POST password': session,
  'POST reset': accepted,
  'POST reset/confirm': session,
  'POST verify': z.strictObject({
    email_verified: z
      .boolean()
      .describe(
        'False for whoever is not signed in to the account: sign in and try again, or set a new password by reset/confirm.',
      ),
  }),
  'POST link': session,
  'POST elevate': session,
  'GET sessions': data(
    z.array(
      z.strictObject({
        id: z.string(),
        current: z.boolean().describe('Whether it is the one that asks.'),
        created_at: time,
        seen_at: time.nullable(),
        expires_at: time,
        user_agent: z.string().nullable(),
      }),
    ),
  ),
  'DELETE sessions/:id': ended,
  'DELETE account': session,
  'POST passkeys/options': webAuthnOptions,
  'POST passkeys': passkey,
  'POST passkeys/challenge': webAuthnOptions,
  'POST passkeys/sign-in': session,
  'GET passkeys': data(z.array(passkey)),
  'PATCH passkeys/:id': passkey,
  'DELETE passkeys/:id': deleted,
  'GET identities': data(z.array(identity)),
  'POST identities/link': z.strictObject({ url: z.string().describe('Where the browser goes to sign in.') }),
  'DELETE identities': z.strictObject({ issuer: z.string(), subject: z.string(), unlinked: z.literal(true) }),
  'GET keys': keyPage,
  'POST keys': newKey,
  'PATCH keys/:id': key,
  'DELETE keys/:id': key,
  'POST keys/:id/rotate': newKey,
  'GET credits': data(credits),
  'GET credits/history': pageOf(historyEntry),
  'GET usage': z.strictObject(usageSchema.shape),
  'GET requests': pageOf(requestRow),
  'GET requests/:id': requestDetail,
  'GET models': data(z.array(model)),
  'GET conversations': data(z.array(openConversation)),
  'POST conversations': conversation,
  'GET conversations/:id': openConversation.extend({ turns: z.array(turn) }),
  'PATCH conversations/:id': conversation,
  'DELETE conversations/:id': deleted,
  'GET connect': connect,
  'GET mcp-servers': data(z.array(mcpServer)),
  'POST mcp-servers': mcpServer,
  'POST mcp-servers/:name/test': z.strictObject({
    ok: z.boolean(),
    tools: z.array(z.unknown()),
    error: z.unknown(),
    needs_authorization: z.boolean().describe('The server refuses because it has to be authorised.'),
  }),
  'POST mcp-servers/:name/authorize': z.strictObject({
    authorization_url: z.string().describe('Where the browser goes to allow it.'),
  }),
  'DELETE mcp-servers/:name': z.strictObject({ name: z.string(), removed: z.literal(true) }),
}

// The answers of the admin API, like console-answers.ts for the console's.

const account = z.strictObject({
  id: z.string(),
  email: z.string(),
  role: z.enum(['user', 'operator']),
  created_at: time,
  suspended: z.boolean(),
  email_verified: z.boolean(),
})

const link = z.strictObject({
  url: z.string().describe('Its secret stands in the fragment.'),
  expires_at: time,
})

const overview = z.strictObject({
  accounts: z.int(),
  suspended: z.int(),
  calls_in_flight: z.int(),
  today: z.strictObject({ calls: z.int(), errors: z.int(), cost: usd, charged: usd }),
  catalog: z.strictObject({ date: z.string(), models: z.int(), callable: z.int() }),
  providers: z.int(),
  store: z.enum(['writable', 'unavailable']),
})

const catalog = z.strictObject({
  date: z.string(),
  models: z.int(),
  callable: z.int(),
  sources: z.array(z.strictObject({ name: z.string(), version: z.string(), date: z.string() })),
  changes: z
    .strictObject({
      added: z.array(z.string()),
      removed: z.array(z.string()),
      changed: z.array(
        z.strictObject({
          id: z.string(),
          fields: z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() })),
        }),
      ),
    })
    .nullable()
    .describe('Of an imported file against the bundled catalog; null where that is in use.'),
  overrides: z.array(z.looseObject({ id: z.string() })).describe('The entries of the configuration.'),
  unpriced: z.array(z.strictObject({ id: z.string(), reason: z.string() })),
})

const settings = z.strictObject({
  file: z.string().nullable(),
  settings: z.array(
    z.strictObject({ path: z.string(), value: z.unknown(), origin: z.string(), env: z.string() }),
  ),
})

const act = z.strictObject({
  id: z.int(),
  at: time,
  operator: z.string().describe('The id of an account, or `cli:` and a user of the system.'),
  what: z.string(),
  subject: z.string(),
  before: z.unknown(),
  after: z.unknown(),
})

const audit = z.strictObject({
  ok: z.boolean(),
  journal_entries: z.int(),
  head_hash: z.string().nullable(),
  checks: z.array(z.strictObject({ name: z.string(), ok: z.boolean(), detail: z.string().nullable() })),
  calls: z.int().optional().describe('Of an audit of one day.'),
  not_checked: z.array(z.string()).optional(),
  replaced: z.unknown().optional(),
})

const managementKey = z.strictObject({
  id: z.string(),
  account: z.string(),
  name: z.string(),
  state: z.enum(['active', 'expired', 'revoked']),
  last4: z.string(),
  created_at: time,
  expires_at: time.nullable(),
  revoked_at: time.nullable(),
  networks: z.array(z.string()).nullable(),
})

const adminAnswersSession = z.strictObject({
  id: z.string(),
  created_at: time,
  seen_at: time.nullable(),
  expires_at: time,
  user_agent: z.string().nullable(),
})

const ofAccount = ['GET', 'POST', 'DELETE'].flatMap((method) =>
  ['mcp-servers', 'mcp-servers/:name', 'mcp-servers/:name/test'].flatMap((path) => {
    const answer = consoleAnswers[`${method} ${path}`]
    return answer ? [[`${method} accounts/:account/${path}`, answer] as const] : []
  }),
)

export const adminAnswers: Answers = {
  'GET overview': overview,
  'GET requests': pageOf(requestRow),
  'GET requests/:id': requestDetail,
  'GET usage': z.strictObject(usageSchema.shape),
  'GET providers': z.strictObject(providersSchema.shape),
  'GET catalog': catalog,
  'GET settings': settings,
  'GET acts': pageOf(act),
  'POST audit': data(audit),
  'GET accounts': pageOf(account),
  'POST accounts': account,
  'GET accounts/:account': data(account.extend({ credits, access })),
  'POST accounts/:account/grant': z.strictObject({
    lot: z.string().nullable(),
    granted: z
      .boolean()
      .describe('False if this grant was booked before, under the same id: nothing was added.'),
    pool: z.enum(pools),
    usd,
    credits,
  }),
  'POST accounts/:account/credit-line': data(account.extend({ credits })),
  'POST accounts/:account/suspend': account,
  'POST accounts/:account/resume': account,
  'POST accounts/:account/role': account.extend({
    link: link.nullable().describe('Signs the new operator in, once. Null if nobody became one.'),
    access,
  }),
  'POST accounts/:account/link': link,
  'POST invitations': link,
  'GET accounts/:account/sessions': data(z.array(adminAnswersSession)),
  'DELETE accounts/:account/sessions/:session': z.strictObject({ id: z.string(), ended: z.literal(true) }),
  'GET accounts/:account/keys': keyPage,
  'POST accounts/:account/keys': newKey,
  'PATCH accounts/:account/keys/:id': key,
  'DELETE accounts/:account/keys/:id': key,
  'POST accounts/:account/keys/:id/rotate': newKey,
  'GET management-keys': data(z.array(managementKey)),
  'DELETE management-keys/:key': managementKey,
  'POST management-keys': managementKey.extend({ key: z.string().describe('The key itself, this once.') }),
  ...Object.fromEntries(ofAccount),
  ...Object.fromEntries(
    Object.entries(webhookAnswers).map(([route, answer]) => [
      route.replace(' ', ' accounts/:account/'),
      answer,
    ]),
  ),
  ...adminPaymentAnswers,
}
