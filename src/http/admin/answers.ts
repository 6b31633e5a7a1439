// The answers of the admin API, like ../console/answers.ts for the console's.

import { z } from 'zod'
import {
  access,
  credits,
  ended,
  group,
  groupDetail,
  groupMemberAnswers,
  keyAnswers,
  mcpServerAnswers,
  pool,
  requestDetail,
  requestRow,
  role,
  sessionOfAccount,
  webhookAnswers,
} from '../console/answers.ts'
import { type Answers, data, pageOf, time, usd, type Wire } from '../docs/operation.ts'
import { adminPaymentAnswers } from '../payments/answers.ts'
import { providersSchema } from '../service/documentation.ts'
import { usageSchema } from '../v1/usage.ts'
import {
  changedSettings,
  configReload,
  keptConfiguration,
  settings,
  settingsTest,
} from './settings-answers.ts'

export type {
  ChangedSettingsView,
  ConfigurationView,
  KeptConfigurationView,
  SettingsTestView,
} from './settings-answers.ts'

const account = z.strictObject({
  id: z.string(),
  email: z.string(),
  role,
  created_at: time,
  suspended: z.boolean(),
  email_verified: z.boolean(),
})
export type AccountView = Wire<typeof account>

const accountEntry = account.extend({
  balance_usd: usd.describe(
    'Purchased credit, less what is owed, and with the credit of the month that its next call gets.',
  ),
  spent_usd: usd.describe('What its calls were charged in this calendar month, UTC.'),
  last_call_at: time
    .nullable()
    .describe('Its last call, refused ones included; the day of it where the request log holds it no more.'),
})
export type AccountEntryView = Wire<typeof accountEntry>

const accountDetail = account.extend({
  monthly_credit_usd: usd.nullable().describe('What it has each month; null for nothing.'),
  credits,
  access,
})
export type AccountDetailView = Wire<typeof accountDetail>

const link = z.strictObject({
  url: z.string().describe('Its secret stands in the fragment.'),
  expires_at: time,
})
export type LinkView = Wire<typeof link>

const invited = z.strictObject({
  address: z.string(),
  name: z.string(),
  account: z.string().describe('Its id.'),
  state: z.enum(['opened', 'there']).describe('`opened`: now; `there`: it had an account.'),
  url: z
    .string()
    .nullable()
    .describe(
      'Signs in for the first time, once. Null for who has been in the account, or has a link that still works, and where links let nobody in.',
    ),
  expires_at: time.nullable(),
})
export type InvitedView = Wire<typeof invited>

const roleAnswer = account.extend({
  link: link.nullable().describe('Signs the new operator in, once. Null if nobody became one.'),
  access,
})
export type RoleView = Wire<typeof roleAnswer>

const grant = z.strictObject({
  lot: z.string().nullable(),
  granted: z
    .boolean()
    .describe('False if this grant was booked before, under the same id: nothing was added.'),
  pool,
  usd,
  credits,
})
export type GrantView = Wire<typeof grant>

const overview = z.strictObject({
  accounts: z.int(),
  suspended: z.int(),
  calls_in_flight: z.int(),
  today: z.strictObject({ calls: z.int(), errors: z.int(), cost: usd, charged: usd }),
  catalog: z.strictObject({ date: z.string(), models: z.int(), callable: z.int() }),
  providers: z.int(),
  store: z.enum(['writable', 'unavailable']),
})
export type OverviewView = Wire<typeof overview>

export type ProviderView = Wire<typeof providersSchema>['data'][number]

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
export type CatalogView = Wire<typeof catalog>

const act = z.strictObject({
  id: z.int(),
  at: time,
  operator: z.string().describe('The id of an account, or `cli:` and a user of the system.'),
  what: z.string(),
  operator_email: z.string().nullable().describe('The address of that account; null for a command.'),
  subject: z.string(),
  subject_email: z.string().nullable().describe('The address, where the subject is an account.'),
  before: z.unknown(),
  after: z.unknown(),
})
export type ActView = Wire<typeof act>

const ofOperator = {
  account_email: z.string().nullable().describe('The address of the account.'),
}
const operatorRequest = requestRow.extend(ofOperator)
export type OperatorRequestView = Wire<typeof operatorRequest>
const operatorRequestDetail = requestDetail.extend(ofOperator)

const search = z.strictObject({
  data: z.array(
    z.strictObject({
      kind: z.enum(['account', 'key', 'management_key', 'request', 'payment', 'voucher', 'group']),
      id: z.string(),
      title: z
        .string()
        .describe(
          'The address, the name and last letters of the key, the model, the amount, or the name of the group.',
        ),
      account: z.strictObject({ id: z.string(), email: z.string() }).nullable(),
      at: time.describe('When it was made; of a call, when it ended.'),
      state: z.string().describe('Of a call `served`, or the code of its error.'),
      href: z.string().describe('Its page of the console.'),
    }),
  ),
})
export type SearchView = Wire<typeof search>

const duplicateCall = operatorRequest.extend({
  started_at: time,
  charged: usd.describe('What was paid for it; its cost less what the operator paid.'),
  on_credit: usd.describe('The part of it that is owed, on the credit line.'),
  paid_by: z.string().nullable().describe('The account, or the group, whose credit paid; null if none did.'),
  drawn: z.array(z.strictObject({ pool: z.string(), lot: z.string(), amount: usd })),
  idempotency_key: z.string().nullable().describe('Null if it had none, or that is forgotten.'),
})
export type DuplicateCallView = Wire<typeof duplicateCall>

const duplicates = z.strictObject({
  data: z.array(
    z.strictObject({
      verdict: z
        .enum(['one_call', 'not_charged', 'charged_once', 'sent_again', 'look_alike', 'different'])
        .describe(
          '`one_call`: all ids are of one call. `sent_again`: the same body was charged more than once. `look_alike`: so it seems, but whether the bodies were the same is not known.',
        ),
      differ: z
        .array(z.enum(['account', 'key', 'model', 'prompt_tokens', 'body']))
        .describe('In what the calls are not the same.'),
      count: z.int().describe('How many calls they are.'),
      calls: z.array(duplicateCall).describe('The first of them, by when they began.'),
    }),
  ),
  looked: z.int().describe('How many calls were looked at.'),
  missing: z.array(z.string()).describe('Ids that no call has.'),
})
export type DuplicatesView = Wire<typeof duplicates>

const keyCheck = z.strictObject({
  id: z.enum(['key', 'account', 'group', 'member_budget', 'budget', 'credit', 'limit', 'models', 'networks']),
  code: z.string().nullable().describe('What calls are refused with because of it; null if it refuses none.'),
  remedy: z.string().nullable().describe('What would change that.'),
  name: z.string().nullable().describe('The group that it is about.'),
  by: z
    .enum(['owner', 'operator', 'leak', 'networks'])
    .nullable()
    .describe('Who has revoked or paused the key, or why it is frozen.'),
  at: time
    .nullable()
    .describe(
      'Since when the key is revoked or paused, or when it expires; when a limit or a budget begins anew.',
    ),
  limit: usd.nullable().describe('Of a limit or a budget; of credit, what is left of it.'),
  spent: usd.nullable(),
  reserved: usd.nullable(),
  names: z.array(z.string()).nullable().describe('The models, or networks, that alone are allowed.'),
})
export type KeyCheckView = Wire<typeof keyCheck>

const keyChecks = z.strictObject({
  checks: z.array(keyCheck),
  refusals: z
    .array(
      z.strictObject({
        code: z.string(),
        calls: z.int(),
        status: z.int(),
        last_at: time,
        last_id: z.string(),
        model: z.string().nullable().describe('Of the last of them.'),
      }),
    )
    .describe(
      'What calls with the key were refused with, or failed with, in the last week; the latest first.',
    ),
})
export type KeyChecksView = Wire<typeof keyChecks>

const audit = z.strictObject({
  ok: z.boolean(),
  journal_entries: z.int(),
  head_hash: z.string().nullable(),
  checks: z.array(z.strictObject({ name: z.string(), ok: z.boolean(), detail: z.string().nullable() })),
  calls: z.int().optional().describe('Of an audit of one day.'),
  not_checked: z.array(z.string()).optional(),
  replaced: z.unknown().optional(),
})
export type AuditView = Wire<typeof audit>

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
  scope: z.enum(['admin', 'scim']).describe('`scim` for provisioning alone.'),
})
export type ManagementKeyView = Wire<typeof managementKey>

const newManagementKey = managementKey.extend({ key: z.string().describe('The key itself, this once.') })
export type NewManagementKeyView = Wire<typeof newManagementKey>

// By route.

const ofAccount = Object.entries({ ...keyAnswers, ...mcpServerAnswers, ...webhookAnswers }).map(
  ([route, answer]) => [route.replace(' ', ' accounts/:account/'), answer] as const,
)

export const adminAnswers: Answers = {
  'GET overview': overview,
  'GET requests': pageOf(operatorRequest),
  'GET requests/:id': data(operatorRequestDetail),
  'GET search': search,
  'GET duplicates': duplicates,
  'GET accounts/:account/keys/:id/checks': data(keyChecks),
  'GET usage': z.strictObject(usageSchema.shape),
  'GET providers': z.strictObject(providersSchema.shape),
  'GET catalog': catalog,
  'GET settings': settings,
  'GET config': keptConfiguration,
  'PATCH config': changedSettings,
  'POST config/preview': changedSettings,
  'POST config/test': settingsTest,
  'POST config/undo': changedSettings,
  'POST config/reload': configReload,
  'GET acts': pageOf(act),
  'POST audit': data(audit),
  'GET accounts': pageOf(accountEntry),
  'POST accounts': account,
  'GET accounts/:account': data(accountDetail),
  'POST accounts/:account/grant': grant,
  'DELETE accounts/:account': z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  'POST accounts/:account/monthly-credit': data(accountDetail),
  'POST accounts/:account/credit-line': data(account.extend({ credits })),
  'POST accounts/:account/suspend': account,
  'POST accounts/:account/resume': account,
  'POST accounts/:account/role': roleAnswer,
  'POST accounts/:account/link': link,
  'POST invitations': link,
  'POST invitations/list': data(z.array(invited)),
  'GET accounts/:account/sessions': data(z.array(sessionOfAccount)),
  'DELETE accounts/:account/sessions/:session': ended,
  ...Object.fromEntries(ofAccount),
  'GET groups': pageOf(group),
  'POST groups': group,
  'GET groups/:group': data(groupDetail),
  'PATCH groups/:group': group,
  'DELETE groups/:group': z.strictObject({ id: z.string(), deleted: z.literal(true) }),
  ...groupMemberAnswers,
  'POST groups/:group/grants': grant,
  'GET management-keys': data(z.array(managementKey)),
  'DELETE management-keys/:key': managementKey,
  'POST management-keys': newManagementKey,
  ...adminPaymentAnswers,
}
