// Access tokens for Google Cloud: a service account's key signs a JWT, which the token endpoint exchanges for a token.

import { AwsV4Signer } from 'aws4fetch'
import { z } from 'zod'
import { fetchBounded } from '../../transport/bounded-body.ts'

const accountSchema = z.lazy(() =>
  z.object({
    client_email: z.string().min(1),
    private_key: z.string().min(1),
    private_key_id: z.string().optional(),
    token_uri: z.url({ protocol: /^https?$/ }).default('https://oauth2.googleapis.com/token'),
  }),
)

const tokenSchema = z.lazy(() =>
  z.object({
    access_token: z.string().min(1),
    expires_in: z.number().positive().default(3600),
  }),
)

/** A token is replaced this long before it expires, so that none expires during a request, milliseconds. */
const renewBeforeMs = 300_000
const exchangeTimeoutMs = 10_000
const mostTokenBytes = 65_536

interface Cached {
  readonly token: string
  readonly times: TokenTimes
}

/**
 * When a token is replaced, by two clocks, whichever comes first: the time of day may be set back, and the other one stands
 * still while the machine sleeps.
 */
interface TokenTimes {
  /** Milliseconds since 1970. */
  readonly day: number
  /** Milliseconds of performance.now(). */
  readonly elapsed: number
}

interface TokenClocks {
  /** Milliseconds since 1970. */
  readonly day: () => number
  /** Milliseconds; never goes back. */
  readonly elapsed: () => number
}

const clocksOfProcess: TokenClocks = { day: Date.now, elapsed: () => performance.now() }

/** Caches tokens by key until shortly before they expire. */
export class GoogleTokens {
  readonly #clocks: TokenClocks
  readonly #cached = new Map<string, Cached>()
  /** Exchanges in progress, which other callers wait for, too. */
  readonly #pending = new Map<string, Promise<Cached>>()

  constructor(clocks = clocksOfProcess) {
    this.#clocks = clocks
  }

  /**
   * A token for this key, which is the JSON of a service account or already a token. Rejects with an Error, without
   * secrets in its message, if the JSON is invalid or the endpoint refuses it, and with the signal's reason.
   */
  async token(key: string, scope: string, signal: AbortSignal): Promise<string> {
    if (!key.trimStart().startsWith('{')) return key
    const id = `${scope} ${key}`
    const known = this.#cached.get(id)
    if (known && this.#isFresh(known)) return known.token
    const exchange = this.#pending.get(id) ?? this.#begin(id, key, scope)
    return (await unlessAborted(exchange, signal)).token
  }

  #isFresh({ times }: Cached): boolean {
    return this.#clocks.day() < times.day && this.#clocks.elapsed() < times.elapsed
  }

  /** Continues if the caller that started it aborts: others may be waiting for it. */
  #begin(id: string, key: string, scope: string): Promise<Cached> {
    const exchange = exchangeKey(key, scope)
      .then(({ token, lastsMs }) => {
        const { day, elapsed } = this.#clocks
        const fresh = { token, times: { day: day() + lastsMs, elapsed: elapsed() + lastsMs } }
        this.#cached.set(id, fresh)
        return fresh
      })
      .finally(() => this.#pending.delete(id))
    this.#pending.set(id, exchange)
    // The caller may have disconnected: an unhandled rejection must not end the process.
    exchange.catch(() => undefined)
    return exchange
  }
}

/** A fresh token, and how long it may be used, milliseconds. */
async function exchangeKey(key: string, scope: string): Promise<{ token: string; lastsMs: number }> {
  const account = accountIn(key)
  const { SignJWT } = await import('jose')
  const assertion = await new SignJWT({ scope })
    .setProtectedHeader({
      alg: 'RS256',
      typ: 'JWT',
      ...(account.private_key_id === undefined ? {} : { kid: account.private_key_id }),
    })
    .setIssuer(account.client_email)
    .setAudience(account.token_uri)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(await privateKeyOf(account.private_key))
  const response = await fetchBounded(
    account.token_uri,
    {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }),
      redirect: 'manual',
      signal: AbortSignal.timeout(exchangeTimeoutMs),
    },
    mostTokenBytes,
  )
  if (!response.ok) throw new Error(`the token endpoint answered with status ${response.status}`)
  const { access_token: token, expires_in } = tokenSchema.parse(await response.json())
  const lifeMs = expires_in * 1000
  return { token, lastsMs: lifeMs - Math.min(renewBeforeMs, lifeMs / 2) }
}

function accountIn(key: string): z.infer<typeof accountSchema> {
  try {
    return accountSchema.parse(JSON.parse(key))
  } catch {
    // The parser's message would quote the key.
    throw new Error("the key is not the JSON of a service account's key")
  }
}

async function privateKeyOf(pem: string): Promise<CryptoKey> {
  const { importPKCS8 } = await import('jose')
  try {
    return await importPKCS8(pem, 'RS256')
  } catch {
    throw new Error('the private key of the service account cannot be read')
  }
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

// Headers for Amazon: a signature of the request (Signature Version 4), or a bearer key.

/** Access key id, secret and, for temporary credentials, session token. */
const signingKey = /^([A-Z0-9]{16,128}):([^:]+)(?::(.+))?$/

/** The region in the host name; an operator's proxy in front of Bedrock has none. */
const regionInHost = /\b[a-z-]+\.([a-z]{2}(?:-[a-z]+)+-\d)\b/
const usualRegion = 'us-east-1'

/** The headers that authorize a POST of this body to this URL. `body` must be sent unchanged. */
export async function awsHeaders(
  key: string,
  service: string,
  url: string,
  body: string,
): Promise<Record<string, string>> {
  const [, accessKeyId, secretAccessKey, sessionToken] = signingKey.exec(key) ?? []
  if (accessKeyId === undefined || secretAccessKey === undefined) return { authorization: `Bearer ${key}` }
  const signer = new AwsV4Signer({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json' },
    body,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service,
    region: regionInHost.exec(new URL(url).hostname)?.[1] ?? usualRegion,
  })
  const { headers } = await signer.sign()
  return Object.fromEntries([...headers].filter(([name]) => name !== 'content-type' && name !== 'host'))
}
