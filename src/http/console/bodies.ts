// The request bodies of /console/api, and what is checked of their values beyond the schema.

import { z } from 'zod'
import { isNetwork } from '../../accounts/identity/sign-in-limits.ts'
import { creditAmount, type Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'

const email = z.string().max(256)
/** The rules for passwords are checked elsewhere, with explanations; the bound keeps hashing cheap. */
const password = z.string().min(1).max(1_024)
const token = z.string().max(128)

export const credentialsBody = z.strictObject({ email, password })
export const emptyBody = z.strictObject({})
export const passwordBody = z.strictObject({ password, current: password.optional() })
export const resetBody = z.strictObject({ email })
export const confirmResetBody = z.strictObject({ token, password })
export const tokenBody = z.strictObject({ token })
export const deleteAccountBody = z.strictObject({ confirm: email })

/** The JSON of `navigator.credentials`, checked by the WebAuthn library. */
const credential = z.record(z.string(), z.unknown())

export const elevateBody = z.union([z.strictObject({ password }), z.strictObject({ passkey: credential })])

/** Of a key, a passkey or a group. */
export const shortName = z
  .string()
  .trim()
  .min(1)
  .max(100)
  .regex(/^[^\p{Cc}]*$/u, 'must not hold control characters')

export const passkeyBody = z.strictObject({ response: credential, name: shortName.optional() })
export const provePasskeyBody = z.strictObject({ response: credential })
export const renamePasskeyBody = z.strictObject({ name: shortName })

export const unlinkBody = z.strictObject({ issuer: z.string().max(2_048), subject: z.string().max(2_048) })

export const time = z.iso.datetime({ offset: true })
export const usdAmount = z
  .string()
  .regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be US dollars such as "5" or "0.50"')
const perMinute = z.int().min(1).max(1_000_000_000)

/** Addresses, or ranges such as `10.0.0.0/8`. */
export const networkNames = z.array(z.string().max(64)).min(1).max(100)

/** Ids such as `openai/gpt-5`, `openai/*`, or `*`. */
export const modelNames = z
  .array(
    z
      .string()
      .max(256)
      .regex(/^(\*|[^/\s]+\/\S+)$/, 'must be provider/model, provider/* or *'),
  )
  .min(1)
  .max(1_000)
  .nullable()

/** Thirty days, as a request may ask for. */
const longestCacheSeconds = 2_592_000

const keyFields = {
  name: shortName,
  expires_at: time.nullable(),
  limit_usd: usdAmount.nullable(),
  limit_window: z.enum(['day', 'week', 'month', 'total']),
  models: modelNames,
  requests_per_minute: perMinute.nullable(),
  tokens_per_minute: perMinute.nullable(),
  networks: networkNames.nullable(),
  cache_ttl: z
    .int()
    .min(1)
    .max(longestCacheSeconds)
    .nullable()
    .describe('Seconds that an answer is given again for, where a request has no `cache` of its own.'),
}

const { name, ...keyLimits } = keyFields

/** What a client calls its request, so that the same one again is known. */
export const requestId = z.string().min(1).max(128).optional()

export const createKeyBody = z.strictObject({
  name,
  id: requestId.describe(
    'An id of yours for the request: the same one again makes no second key, and is refused.',
  ),
  mode: z.enum(['live', 'test']).optional(),
  group: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'must be the id of a group')
    .nullable()
    .optional()
    .describe(
      'A group that the account is a member of: the key spends the credit of the group, if it has any, within its budgets.',
    ),
  sees: z
    .enum(['own', 'all'])
    .optional()
    .describe(
      'Whose calls and responses it may read: `own` for those of its line (itself, what it replaces, what replaces it), ' +
        'which is the default, `all` for those of the account; a test key sees those of test keys alone.',
    ),
  ...z.strictObject(keyLimits).partial().shape,
})
export const changeKeyBody = z.strictObject(keyFields).partial()
/** `0`, or a time such as `30m`, `24h` or `7d`. */
export const rotateKeyBody = z.strictObject({
  overlap: z
    .string()
    .regex(/^(0|[1-9]\d{0,5}[smhd])$/, 'must be 0, or a time such as 30m, 24h or 7d')
    .optional(),
})

/** What an operator names of a grant of credit. */
export const grantFields = {
  usd: usdAmount,
  id: requestId.describe('An id of yours for the grant: the same one never grants twice.'),
  expires_at: z.union([z.literal('never'), time]).optional(),
  note: z.string().max(500).optional(),
}

export const inviteBody = z.strictObject({ email, role: z.enum(['user', 'operator']).optional() })

/** Milliseconds since 1970. Throws `invalid_request` for a time that has passed. */
export function futureTime(param: string, text: string, now: number): number {
  const at = Date.parse(text)
  if (!(at > now)) throw invalid(`${param} has passed.`, param)
  return at
}

/** The same, `never`, or null where nothing is said. */
export function endOfGrant(text: string | undefined, now: number): number | 'never' | null {
  if (text === undefined) return null
  return text === 'never' ? text : futureTime('expires_at', text, now)
}

/** More than zero, at most the limit of a lot. Throws `invalid_request`. */
export function amountOf(param: string, text: string): Pico {
  const amount = creditAmount(text)
  if (amount !== undefined) return amount
  throw invalid(`${param} takes US dollars such as "10" or "0.50", above 0 and at most 1000000.`, param)
}

/** Throws `invalid_request` for the first that is neither an address nor a range. */
export function requireNetworks(networks: readonly string[]): readonly string[] {
  const at = networks.findIndex((text) => !isNetwork(text))
  if (at < 0) return networks
  throw invalid(`networks.${at} must be an address or a range such as 10.0.0.0/8.`, `networks.${at}`)
}

export function invalid(message: string, param?: string): GatewayError {
  return new GatewayError('invalid_request', { message, ...(param === undefined ? {} : { param }) })
}
