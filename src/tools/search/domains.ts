// Which pages a request allows, by host and path: `example.com` covers its subdomains, `example.com/docs` what lies
// below that path, and one `*` within a path stands for anything (as Anthropic's search allows).

import { GatewayError } from '../../errors.ts'

/** The most rules per request, and the longest, characters. */
const maxRules = 100
const maxRuleCharacters = 253 + 1024

interface Rule {
  readonly host: string
  readonly path: RegExp | undefined
}

/**
 * A filter that allows an address on an allowed domain, if any are named, and on no blocked one. Throws
 * `invalid_request` for a rule that names no domain; `param` is the field of the rules.
 */
export function domainFilter(
  allowed: readonly string[],
  blocked: readonly string[],
  param?: string,
): (url: string) => boolean {
  const within = param === undefined ? '' : `${param}.`
  const allows = rulesOf(allowed, `${within}allowed_domains`)
  const blocks = rulesOf(blocked, `${within}blocked_domains`)
  return (text) => {
    const url = URL.parse(text)
    if (!url) return false
    const fits = (rule: Rule) => fitsRule(rule, url)
    return (allows.length === 0 || allows.some(fits)) && !blocks.some(fits)
  }
}

/** The hosts of rules, without scheme and path: as backends are given them. Throws like `domainFilter`. */
export function hostsOf(rules: readonly string[]): string[] {
  return [...new Set(rulesOf(rules, 'allowed_domains').map(({ host }) => host))]
}

function rulesOf(texts: readonly string[], param: string): Rule[] {
  if (texts.length > maxRules) throw wrong(param, `has more than ${maxRules} entries`)
  return texts.map((text, at) => ruleOf(text, `${param}[${at}]`))
}

function ruleOf(text: string, param: string): Rule {
  const bare = text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/^\*\./, '')
  const url = text.length > maxRuleCharacters ? null : URL.parse(`https://${bare}`)
  const stars = bare.split('*').length - 1
  const isDomain = url && url.username === '' && url.port === '' && !url.host.includes('*')
  if (!isDomain || stars > 1 || url.hostname === '')
    throw wrong(param, 'is not a domain such as example.com or example.com/docs')
  const path = `${url.pathname}${url.search}`.replace(/\/$/, '')
  const host = url.hostname.replace(/\.$/, '')
  if (path === '') return { host, path: undefined }
  const [before = '', after] = path.split('*').map((part) => RegExp.escape(part))
  const pattern = after === undefined ? `${before}(?:[/?#]|$)` : `${before}.*${after}`
  return { host, path: new RegExp(`^${pattern}`) }
}

function fitsRule({ host, path }: Rule, url: URL): boolean {
  const name = url.hostname.replace(/\.$/, '')
  if (name !== host && !name.endsWith(`.${host}`)) return false
  return path === undefined || path.test(url.pathname + url.search)
}

function wrong(param: string, problem: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param} ${problem}.`, param })
}
