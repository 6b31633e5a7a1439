// Secrets in the configuration: `file:/path` is read, placeholders are refused, what is shown is masked.

import { settings } from '../settings.ts'
import { type Draft, isTree, type Path } from './draft.ts'

/** The text of a file, undefined if there is none; throws if it cannot be read. */
export type ReadFile = (path: string) => string | undefined

/** The text of a secret's file without the line break editors leave at its end; undefined when it is of no use. */
export function readSecretFile(draft: Draft, path: Path, file: string, read: ReadFile): string | undefined {
  try {
    const text = read(file)?.trim()
    if (text) return text
    draft.fault(
      path,
      text === undefined
        ? `names the file ${file}, which does not exist`
        : `names the file ${file}, which is empty`,
    )
  } catch (thrown) {
    draft.fault(path, `names the file ${file}, which cannot be read: ${reasonOf(thrown)}`)
  }
  return undefined
}

/** Replaces `file:/path` by the file's text in every secret, and notes the secrets that cannot be real. */
export function resolveSecrets(draft: Draft, read: ReadFile): void {
  const providers = draft.get(['providers'])
  for (const id of isTree(providers) ? Object.keys(providers) : []) {
    resolveKeys(draft, ['providers', id, 'api_key'], read)
    const deployments = draft.get(['providers', id, 'deployments'])
    for (const at of Array.isArray(deployments) ? deployments.keys() : [])
      resolveKeys(draft, ['providers', id, 'deployments', at, 'api_key'], read)
    const headers = draft.get(['providers', id, 'headers'])
    for (const [name, value] of isTree(headers) ? Object.entries(headers) : []) {
      if (typeof value === 'string') replace(draft, ['providers', id, 'headers', name], value, read)
    }
  }
  const hooks = draft.get(['hooks'])
  for (const at of Array.isArray(hooks) ? hooks.keys() : []) {
    const path = ['hooks', at, 'secret']
    const written = draft.get(path)
    if (typeof written === 'string') replace(draft, path, written, read)
  }
  for (const { path, secret } of settings()) {
    if (!secret || path.includes('*')) continue
    const written = draft.get(path)
    if (typeof written === 'string') replace(draft, path, written, read)
    if (Array.isArray(written)) for (const at of written.keys()) replaceItem(draft, path, written, at, read)
  }
}

/** A key, or a list of keys. */
function resolveKeys(draft: Draft, path: Path, read: ReadFile): void {
  const keys = draft.get(path)
  if (typeof keys === 'string') replace(draft, path, keys, read)
  if (Array.isArray(keys)) for (const at of keys.keys()) replaceItem(draft, path, keys, at, read)
}

function replace(draft: Draft, path: Path, written: string, read: ReadFile): void {
  const text = fetchSecret(draft, path, written, read)
  const parent = draft.get(path.slice(0, -1))
  if (isTree(parent)) parent[path.at(-1)!] = text
}

function replaceItem(draft: Draft, path: Path, keys: unknown[], at: number, read: ReadFile): void {
  const written: unknown = keys[at]
  if (typeof written === 'string') keys[at] = fetchSecret(draft, [...path, at], written, read)
}

/** The secret itself. One that is of no use stays as it was written: its fault has been noted. */
function fetchSecret(draft: Draft, path: Path, written: string, read: ReadFile): string {
  const text = written.startsWith('file:')
    ? readSecretFile(draft, path, written.slice('file:'.length), read)
    : written
  if (text === undefined) return written
  // A header may hold spaces, and so may the secret of an OAuth client (RFC 6749, appendix A.2).
  const mayHoldSpaces = path[2] === 'headers' || path[2] === 'client_secret'
  const problem = mayHoldSpaces ? placeholderProblem(text) : secretProblem(text)
  if (problem) draft.fault(path, problem)
  return text
}

/** What is wrong with a key, without quoting it; undefined if nothing is. */
export function secretProblem(text: string): string | undefined {
  // The key of a service account is a JSON document, with the spaces and line breaks of one.
  if (!text.startsWith('{') && /[\s\p{Cc}]/u.test(text))
    return 'holds a space or a line break, which no key does'
  return placeholderProblem(text)
}

const placeholder =
  /^(change[-_ ]?(me|this|it)|replace[-_ ]?(me|this|it)|(your|insert)[-_ ].*|(sk-)?your[a-z_-]*key.*|placeholder|todo|(sk-)?[x*.…]{3,})$/i

export function placeholderProblem(text: string): string | undefined {
  const unfilled =
    placeholder.test(text) || text.includes('...') || text.includes('…') || /^<[^>]*>$/.test(text)
  return unfilled ? 'is a placeholder, not a secret: put the real one in, or leave it out' : undefined
}

/** A secret as it may be shown: its last four characters when it is long enough to spare them. */
export function maskSecret(secret: string): string {
  return secret.length >= 20 ? `****${secret.slice(-4)}` : '****'
}

/** The operating system's reason, without the path that the caller has named already. */
export function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown)
  return 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : thrown.message
}
