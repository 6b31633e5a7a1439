// The answers of the console's API: the documentation is generated from these closed schemas, builders and the console
// take their types from them, and the journeys check every answer against them. Loaded with the documentation; for
// types at no cost.

import { z } from 'zod'
import { budgetWindows, groupRoles } from '../../accounts/group.ts'
import { type AccessKind, accessKinds } from '../../accounts/identity/identity-store.ts'
import { servedBySchema } from '../../catalog/wire.ts'
import { pools } from '../../credits/pool.ts'
import { eventTypes } from '../../notify/events.ts'
import { type Answers, data, milliseconds, pageOf, time, usd, type Wire } from '../docs/operation.ts'
import { paymentAnswers } from '../payments/answers.ts'
import { requestListSchema, requestSchema } from '../v1/account-documentation.ts'
import { usageSchema } from '../v1/usage.ts'

export type { Page } from '../docs/operation.ts'
export type { UsageView } from '../v1/usage.ts'

// Who is signed in, and what gets into an account.

export const role = z.enum(['user', 'operator'])

export const access = z
  .strictObject(
    Object.fromEntries(accessKinds.map((kind) => [kind, z.int()])) as Record<AccessKind, z.ZodInt>,
  )
  .describe('What lets somebody into the account or acts for it: how many of each work now.')
export type AccessView = Wire<typeof access>

const session = z.strictObject({
  account: z
    .strictObject({
      id: z.string(),
      email: z.string(),
      created_at: time,
      email_verified: z.boolean(),
      has_password: z.boolean(),
      passkeys: z.int(),
      groups: z.int().describe('How many groups it is a member of.'),
      access,
    })
    .nullable()
    .describe('Null for whoever is not signed in.'),
  role: role.nullable(),
  elevated_until: time.nullable().describe('Until when the proof of identity is fresh.'),
  methods: z.array(z.string()).describe('`password`, `passkey`, `oidc:<label>`.'),
  sign_up: z.enum(['closed', 'invite', 'open']),
  mail: z.boolean().describe('Whether this gateway sends mail: without it an operator hands out links.'),
  brand: z.strictObject({
    name: z.string(),
    logo: z.string().nullable().describe('A `data:` address; null for the logo of the program.'),
    accent: z.string().nullable().describe('A colour such as `#0a6482`; null for that of the program.'),
    accent_dark: z.string().nullable(),
    terms_url: z.string().nullable(),
    privacy_url: z.string().nullable(),
    support: z.string().nullable().describe('An e-mail address, or the address of a page.'),
  }),
})
export type SessionView = Wire<typeof session>

const accepted = z.strictObject({ status: z.literal('accepted'), mail: z.boolean() })
const deleted = z.strictObject({ id: z.string(), deleted: z.literal(true) })
export const ended = z.strictObject({ id: z.string(), ended: z.literal(true) })

const openSession = z.strictObject({
  id: z.string(),
  current: z.boolean().describe('Whether it is the one that asks.'),
  created_at: time,
  seen_at: time.nullable(),
  expires_at: time,
  user_agent: z.string().nullable(),
})
export type OpenSessionView = Wire<typeof openSession>

/** An account's open sessions for operators, none of which asks. */
export const sessionOfAccount = openSession.omit({ current: true })

const passkey = z.strictObject({
  id: z.string(),
  name: z.string(),
  created_at: time,
  last_used_at: time.nullable(),
  backed_up: z.boolean().describe('Whether it is kept in more places than one device.'),
})
export type PasskeyView = Wire<typeof passkey>

const identity = z.strictObject({
  issuer: z.string(),
  subject: z.string().describe('Who it is at the issuer.'),
  label: z.string().nullable().describe('Null for an issuer that is not in the configuration any more.'),
  linked_at: time,
})
export type IdentityView = Wire<typeof identity>

/** What `navigator.credentials` takes: defined by WebAuthn. */
const webAuthnOptions = z.looseObject({ challenge: z.string() })

// Keys.

export const key = z.strictObject({
  id: z.string(),
  name: z.string(),
  mode: z.enum(['live', 'test']),
  group: z
    .string()
    .nullable()
    .describe('The group that it was made in; null for a key of the account alone.'),
  state: z.enum(['active', 'paused', 'expired', 'revoked']),
  last4: z.string(),
  created_at: time,
  expires_at: time.nullable(),
  revoked_at: time.nullable(),
  paused_at: time.nullable(),
  paused_by: z
    .enum(['owner', 'operator', 'leak', 'networks'])
    .nullable()
    .describe(
      'What an operator has paused its owner does not resume. leak, networks: frozen, since it was reported as leaked, or used from too many networks.',
    ),
  last_used_at: time.nullable(),
  limit_usd: usd.nullable(),
  limit_window: z.enum(['day', 'week', 'month', 'total']),
  spent_usd: usd.describe('In the window that is open now.'),
  spendable_usd: usd
    .nullable()
    .describe(
      'The least of what its limit leaves, what the budgets of its group leave, and the free purchased credit; null in test mode.',
    ),
  models: z.array(z.string()).nullable(),
  requests_per_minute: z.int().nullable(),
  tokens_per_minute: z.int().nullable(),
  networks: z.array(z.string()).nullable(),
  cache_ttl: z.int().nullable(),
  sees: z.enum(['own', 'all']).describe('Whose calls and responses it may read.'),
  replaced_by: z.string().nullable().describe('The id of the key that has replaced it.'),
})
export type KeyView = Wire<typeof key>

export const newKey = key.extend({
  key: z.string().describe('The key itself, this once.'),
  replaces: z.string().optional(),
  replaced_works_until: time.optional(),
})
export type NewKeyView = Wire<typeof newKey>

/** `hidden`: how many keys were left out because they have ended. */
export const keyPage = pageOf(key).extend({ hidden: z.int() })
export type KeyListView = Wire<typeof keyPage>

// Credit.

export const pool = z.enum(pools)

const lot = z.strictObject({
  id: z.string(),
  pool,
  amount: usd,
  remaining: usd,
  held: usd,
  granted_at: time,
  expires_at: time.nullable(),
})
export type LotView = Wire<typeof lot>

const notice = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('balance_low'), available: usd, threshold: usd }),
  z.strictObject({ kind: z.literal('lot_expiring'), lot: z.string(), remaining: usd, expires_at: time }),
])
export type NoticeView = Wire<typeof notice>

export const credits = z.strictObject({
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
  lots: z.array(lot).describe('Those that live, in the order in which their pool spends them.'),
  notices: z
    .array(notice)
    .describe(
      'What should be known before it is too late; by `credits.low_balance_usd` and `credits.expiring_days`.',
    ),
  total_purchased: usd,
  total_used: usd,
})
export type CreditsView = Wire<typeof credits>

const historyEntry = z.strictObject({
  at: time,
  kind: z.string(),
  pool: pool.nullable(),
  amount: usd.describe('Signed.'),
  lot: z.string().nullable(),
  call: z.string().nullable(),
  model: z.string().nullable(),
  note: z.string().nullable(),
})
export type HistoryEntryView = Wire<typeof historyEntry>

// Calls.

/** Where a call came from. */
const origin = {
  account: z.string().nullable().describe('Null where it is not known.'),
  channel: z.enum(['api', 'app']),
  key_name: z.string().nullable(),
  mode: z.enum(['live', 'test']),
}

export const requestRow = z.strictObject({ ...requestListSchema.shape.data.element.shape, ...origin })
export type RequestRowView = Wire<typeof requestRow>

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
    budget_left: usd.optional(),
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
      'raise_budget',
      'allow_model',
      'change_request',
      'none',
    ]),
    amount: usd.nullable(),
    text: z.string(),
  }),
})
export type RefusalView = Wire<typeof refusal>

export const requestDetail = z.strictObject({
  ...requestSchema.shape.data.shape,
  ...origin,
  refusal: refusal.nullable().describe('Why a call was refused before it was sent.'),
})
export type RequestDetailView = Wire<typeof requestDetail>

/** A call in flight, of the events of `live`. */
const liveCall = z.strictObject({
  id: z.string(),
  model: z.string(),
  key: z.string().nullable(),
  channel: z.enum(['api', 'app']),
  phase: z.enum(['admitted', 'waiting', 'streaming', 'settled']),
  started_at: time,
  first_byte_ms: milliseconds.nullable(),
  output_tokens: z.int().nullable(),
  hold: usd,
})
export type LiveCallView = Wire<typeof liveCall>

// Models, and what points clients at them.

const notCallable = z
  .enum(['no_provider', 'plan_required', 'purchased_credits_required', 'not_chat', 'account_suspended'])
  .nullable()
  .describe('Why it cannot be called; null where it can.')
export type NotCallable = NonNullable<z.output<typeof notCallable>>

const model = z.strictObject({
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
  providers: servedBySchema.describe('Who serves it, and how each has answered in the last hour.'),
  callable: z.strictObject({ api: notCallable, app: notCallable }),
})
export type ModelView = Wire<typeof model>

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
export type ConnectView = Wire<typeof connect>

// Conversations.

const conversation = z.strictObject({
  id: z.string(),
  title: z.string(),
  model: z.string().nullable(),
  last_response: z.string().nullable(),
  folder: z.string().nullable().describe('The name of the folder it lies in.'),
  pinned: z.boolean(),
  created_at: time,
  updated_at: time,
})
export type ConversationView = Wire<typeof conversation>

const openConversation = conversation.extend({
  answering: z.boolean().describe('An answer is being written in it.'),
})
export type OpenConversationView = Wire<typeof openConversation>

/** What the questions of a conversation are asked with. */
export const chatSettings = z.strictObject({
  instructions: z.string().max(20_000).optional().describe('The system prompt.'),
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  max_output_tokens: z.int().min(1).max(10_000_000).optional(),
  reasoning_effort: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
})
export type ChatSettings = Wire<typeof chatSettings>

const share = z.strictObject({
  url: z.string().describe('Whoever has it sees the conversation.'),
  created_at: time.describe('It is shown as it was then.'),
})
const settled = {
  settings: chatSettings.nullable(),
  share: share.nullable(),
  may_share: z.boolean().describe('Whether the operator lets conversations be shared.'),
}
const settledConversation = conversation.extend(settled)
export type SettledConversationView = Wire<typeof settledConversation>

const foundConversation = z.strictObject({
  id: z.string(),
  title: z.string(),
  updated_at: time,
  snippet: z.string().describe('Where the words stand.'),
})
const conversationSearch = z.strictObject({
  data: z.array(foundConversation),
  searched: z.int().describe('How many conversations were read.'),
  of: z.int().describe('How many there are.'),
})
/** A question and its answer from another program. */
export const importedTurn = z.strictObject({
  question: z.string().max(400_000),
  answer: z.string().max(400_000),
  model: z.string().min(1).max(200).nullable(),
})
export type ImportedTurnView = Wire<typeof importedTurn>

const sharedConversation = z.strictObject({
  title: z.string(),
  shared_at: time,
  turns: z.array(
    z.strictObject({
      question: z.string(),
      files: z.array(z.string()).describe('The names of what was attached.'),
      model: z.string(),
      answer: z.string(),
      sources: z.array(z.strictObject({ url: z.string(), title: z.string() })),
    }),
  ),
})
export type SharedConversationView = Wire<typeof sharedConversation>

export type ConversationSearchView = Wire<typeof conversationSearch>

const savedPrompt = z.strictObject({ id: z.string(), name: z.string(), text: z.string(), changed_at: time })
export type SavedPromptView = Wire<typeof savedPrompt>

const turn = z.strictObject({
  response: z.looseObject({ id: z.string() }).describe('As `GET /app/v1/responses/{id}` has it.'),
  input: z.array(z.looseObject({})),
})

// MCP servers and webhooks.

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
export type McpServerView = Wire<typeof mcpServer>

const mcpProbe = z.strictObject({
  ok: z.boolean(),
  tools: z.array(z.string()),
  error: z.string().nullable(),
  needs_authorization: z.boolean().describe('The server refuses because it has to be authorised.'),
})
export type McpProbeView = Wire<typeof mcpProbe>

const webhook = z.strictObject({
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(eventTypes)),
  created_at: time,
})
export type WebhookView = Wire<typeof webhook>

const newWebhook = webhook.extend({ secret: z.string().describe('The secret itself, this once.') })
export type NewWebhookView = Wire<typeof newWebhook>

const attempt = z.strictObject({
  at: time,
  status: z.int().nullable().describe('Of the answer; null where none came.'),
  error: z.string().nullable().describe('Null where it was taken.'),
  ms: z.int(),
})
export type AttemptView = Wire<typeof attempt>

const delivery = z.strictObject({
  id: z.string().describe('`webhook-id` of every attempt.'),
  type: z.string(),
  at: time,
  state: z.enum(['waiting', 'delivered', 'given_up']),
  next_at: time.nullable().describe('When it is tried next.'),
  attempts: z.array(attempt),
})
export type DeliveryView = Wire<typeof delivery>

// Groups.

/** A group that the account is a member of: its own budget and spending there, and the group's. */
const ownGroup = z.strictObject({
  id: z.string(),
  name: z.string(),
  role: z.enum(['admin', 'member']),
  budget_usd: usd.nullable(),
  group_spent_usd: usd,
  limit_usd: usd.nullable().describe('What the account may spend in it; null for no limit of its own.'),
  spent_usd: usd,
  resets_at: time.nullable(),
  has_credit: z.boolean().describe('Whether the group pays, and not the account.'),
})
export type OwnGroupView = Wire<typeof ownGroup>

export const group = z.strictObject({
  id: z.string(),
  name: z.string(),
  parent: z.string().nullable().describe('The group that it stands in.'),
  budget_usd: usd.nullable(),
  budget_window: z.enum(budgetWindows),
  member_budget_usd: usd.nullable(),
  models: z.array(z.string()).nullable(),
  tags: z.record(z.string(), z.string()).nullable(),
  timezone: z.string(),
  warn_at: z.array(z.number()),
  created_at: time,
  spent_usd: usd.describe('In the window that is open now, by it and by all groups in it.'),
  reserved_usd: usd.describe('Held by calls in flight.'),
  window_start: time.nullable(),
  resets_at: time.nullable().describe('Null where the window never ends.'),
  has_credit: z.boolean().describe('Whether it was ever granted credit, with which it pays.'),
})
export type GroupView = Wire<typeof group>

export const groupDetail = group.extend({
  above: z
    .array(z.strictObject({ id: z.string(), name: z.string() }))
    .describe('The groups that it stands in, the nearest first.'),
  credits: credits.nullable().describe('Null for a group without credit of its own.'),
})
export type GroupDetailView = Wire<typeof groupDetail>

const member = z.strictObject({
  account: z.string(),
  email: z.string(),
  role: z.enum(groupRoles),
  budget_usd: usd.nullable().describe("Its own; null for the group's `member_budget_usd`."),
  limit_usd: usd.nullable().describe('Which of the two holds.'),
  spent_usd: usd,
  reserved_usd: usd,
  resets_at: time.nullable(),
  joined_at: time,
})
export type MemberView = Wire<typeof member>

/** A group as its admins see it. */
const administeredGroup = groupDetail.extend({
  above: groupDetail.shape.above.describe('Those that the account administers too, the nearest first.'),
  below: z
    .array(z.strictObject({ id: z.string(), name: z.string() }))
    .describe('The groups that stand in it.'),
})
export type AdministeredGroupView = Wire<typeof administeredGroup>

// By route.

export const groupMemberAnswers: Answers = {
  'GET groups/:group/members': pageOf(member),
  'POST groups/:group/members': member,
  'PATCH groups/:group/members/:account': member,
  'DELETE groups/:group/members/:account': z.strictObject({
    account: z.string(),
    removed: z.literal(true),
  }),
}

export const webhookAnswers: Answers = {
  'GET webhooks': data(z.array(webhook)),
  'POST webhooks': newWebhook,
  'DELETE webhooks/:id': z.strictObject({ id: z.string(), removed: z.literal(true) }),
  'POST webhooks/:id/test': attempt.extend({ ok: z.boolean() }),
  'GET webhooks/:id/deliveries': data(z.array(delivery)),
}

export const mcpServerAnswers: Answers = {
  'GET mcp-servers': data(z.array(mcpServer)),
  'POST mcp-servers': mcpServer,
  'POST mcp-servers/:name/test': mcpProbe,
  'DELETE mcp-servers/:name': z.strictObject({ name: z.string(), removed: z.literal(true) }),
}

export const keyAnswers: Answers = {
  'GET keys': keyPage,
  'POST keys': newKey,
  'PATCH keys/:id': key,
  'DELETE keys/:id': key,
  'POST keys/:id/pause': key,
  'POST keys/:id/resume': key,
  'POST keys/:id/rotate': newKey,
}

export const consoleAnswers: Answers = {
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
  'GET sessions': data(z.array(openSession)),
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
  ...keyAnswers,
  'GET groups': data(z.array(ownGroup)),
  'GET groups/:group': data(administeredGroup),
  ...groupMemberAnswers,
  'GET credits': data(credits),
  'GET credits/history': pageOf(historyEntry),
  ...paymentAnswers,
  'GET usage': z.strictObject(usageSchema.shape),
  'GET requests': pageOf(requestRow),
  'GET requests/:id': data(requestDetail),
  'GET models': data(z.array(model.partial())),
  'GET conversations': data(z.array(openConversation)),
  'POST conversations': settledConversation,
  'GET conversation-search': conversationSearch,
  'GET conversations/:id': openConversation.extend({
    ...settled,
    imported: z.array(importedTurn).describe('What it begins with that was imported.'),
    turns: z.array(turn),
  }),
  'PATCH conversations/:id': settledConversation,
  'POST imported-conversations': settledConversation,
  'POST conversations/:id/share': settledConversation,
  'DELETE conversations/:id/share': settledConversation,
  'GET shared/:token': sharedConversation,
  'GET prompts': data(z.array(savedPrompt)),
  'POST prompts': savedPrompt,
  'PATCH prompts/:id': savedPrompt,
  'DELETE prompts/:id': deleted,
  'DELETE conversations/:id': deleted,
  'GET connect': connect,
  ...mcpServerAnswers,
  'POST mcp-servers/:name/authorize': z.strictObject({
    authorization_url: z.string().describe('Where the browser goes to allow it.'),
  }),
  ...webhookAnswers,
}
