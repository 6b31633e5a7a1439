// Removes this process's secrets from outgoing text: whole, encoded, cut short, or masked in the middle, as providers
// repeat a bad key.

/** What stands where a secret stood. */
export const redactedText = '[redacted]'

/** Shorter secrets are not replaced: replacing `a` everywhere would destroy the text and reveal the secret. */
const shortest = 8
/** From this length on parts of a secret are recognised too. */
const shortestWithParts = 20
/** This many characters from its beginning or end identify a secret. */
const telling = 12

/** Keys in the formats of providers, whoever owns them: an error may quote the key of a gateway behind the provider. */
const keyForms = [
  String.raw`\b(?:sk|rk|gsk|xai|csk|pplx|nvapi|hf|r8|fw|tgp|tvly|ghp|glpat)[-_](?=[A-Za-z_\-]{0,64}\d)[A-Za-z0-9_\-]{16,512}`,
  // Masked in the middle: sk-proj-********abcd, gsk_ab...xyz
  String.raw`\b(?:sk|rk|gsk|xai|csk|pplx|nvapi|hf|r8|fw|tgp|tvly)[-_][A-Za-z0-9_\-]{0,24}(?:[*•]{2,64}|\.{3,64}|…)[A-Za-z0-9_\-]{0,12}`,
  String.raw`\bAIza[A-Za-z0-9_\-]{20,}`,
  String.raw`\bya29\.[A-Za-z0-9_\-.]{10,4096}`,
  String.raw`\b(?:AKIA|ASIA|ABIA)[A-Z0-9]{12,}`,
  String.raw`\beyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{1,4096}(?:\.[A-Za-z0-9_\-]{0,4096})?`,
  String.raw`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
]

export type SecretFilter = (text: string) => string

/** A pattern of these secrets in all their forms; undefined if there are none. */
export function patternOf(secrets: readonly string[]): RegExp | undefined {
  const forms = formsOf(secrets)
  return forms.length === 0 ? undefined : new RegExp(forms.join('|'), 'g')
}

/** Returns the function that replaces these secrets and anything in the format of a provider's key. */
export function secretFilter(secrets: readonly string[]): SecretFilter {
  const pattern = new RegExp([...formsOf(secrets), ...keyForms].join('|'), 'g')
  return (text) => text.replace(pattern, redactedText)
}

function formsOf(secrets: readonly string[]): string[] {
  const whole = [...new Set(secrets.flatMap(partsOf))].filter((secret) => secret.length >= shortest)
  // Longest first: otherwise a prefix of a secret would be replaced and leave its rest.
  const exact = [...new Set(whole.flatMap(encodingsOf))].toSorted((a, b) => b.length - a.length)
  return [
    ...whole.filter((secret) => secret.length >= shortestWithParts).flatMap(pieces),
    ...exact.map((form) => RegExp.escape(form)),
  ]
}

/** A secret and its parts: `Bearer x`, AWS keys joined by colons, a service account's JSON. */
function partsOf(secret: string): string[] {
  const bare = /^(?:Bearer|Basic|Token|ApiKey)\s+(\S+)$/i.exec(secret)?.[1]
  if (bare !== undefined) return [secret, bare, ...Buffer.from(bare, 'base64').toString().split(':').slice(1)]
  if (secret.startsWith('{')) return [secret, ...privateKeyIn(secret)]
  return secret.includes(':') ? [secret, ...secret.split(':').filter((part) => part.length >= 16)] : [secret]
}

function privateKeyIn(document: string): string[] {
  const key = /"private_key"\s*:\s*"([^"]+)"/.exec(document)?.[1]
  if (key === undefined) return []
  // Each line of the key separately, since quotations rarely keep line ends.
  return key.split(/\\n|\n/).filter((line) => line.length >= shortestWithParts && !line.includes('-----'))
}

function encodingsOf(secret: string): string[] {
  const basic = [secret, `:${secret}`, `${secret}:`].flatMap((text) => {
    const encoded = Buffer.from(text).toString('base64')
    return [encoded, encoded.replace(/=+$/, ''), Buffer.from(text).toString('base64url')]
  })
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...basic]
}

/**
 * Patterns for a secret that was cut or masked: its beginning, its end, or both around dots or stars. Every repetition
 * is bounded, because the text may be hostile.
 */
function pieces(secret: string): string[] {
  const start = RegExp.escape(secret.slice(0, telling))
  const end = RegExp.escape(secret.slice(-telling))
  const tails = [8, 6, 5, 4, 3].map((length) => RegExp.escape(secret.slice(-length))).join('|')
  return [
    `${start}[A-Za-z0-9_+/=.~*•…-]{0,512}`,
    `[A-Za-z0-9_-]{0,64}${end}`,
    `${RegExp.escape(secret.slice(0, 4))}[A-Za-z0-9_-]{0,40}${mask}(?:[A-Za-z0-9_-]{0,12})`,
    `${mask}(?:${tails})(?![A-Za-z0-9])`,
  ]
}

/** What providers write instead of the middle of a key. The lookbehind makes a long row of stars match once. */
const mask = '(?:(?<![*•.…])(?:[*•.…]{2,64}|…))'
