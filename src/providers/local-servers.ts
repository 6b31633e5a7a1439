// Inference servers on this machine: asked at start whether they answer, and which models they have.

import type { ProtocolId } from '../protocols/protocol.ts'
import type { Provider } from './provider.ts'

export interface LocalServer {
  readonly id: string
  readonly baseUrl: string
  /** The names it lists. */
  readonly models: readonly string[]
}

/** A list of models is short; whatever is longer is some other server on the port. */
const maxListBytes = 1_000_000

/** Where a server lists its models, and under which keys. */
interface Listing {
  readonly path: string
  readonly list: string
  readonly name: string
}

const usualListing: Listing = { path: '/models', list: 'data', name: 'id' }
const listings: Readonly<Partial<Record<ProtocolId, Listing>>> = {
  ollama: { path: '/api/tags', list: 'models', name: 'name' },
}

/** Asks every local row, all at once, each for at most `timeoutMs`. Those that do not answer are left out. */
export async function findLocalServers(rows: readonly Provider[], timeoutMs: number): Promise<LocalServer[]> {
  const asked = rows
    .filter((row) => row.local && row.transport === 'http' && row.baseUrl !== '')
    .map(async (row) => ({
      id: row.id,
      baseUrl: row.baseUrl,
      models: await modelsOf(row, timeoutMs),
    }))
  const answers = await Promise.all(asked)
  return answers.flatMap(({ models, ...server }) => (models === undefined ? [] : [{ ...server, models }]))
}

/** The model names a server lists; undefined when it does not answer as one. */
export async function modelsOf(
  { baseUrl, protocol, headers }: Pick<Provider, 'baseUrl' | 'protocol' | 'headers'>,
  timeoutMs: number,
): Promise<string[] | undefined> {
  const { path, list, name } = listings[protocol] ?? usualListing
  try {
    const signal = AbortSignal.timeout(timeoutMs)
    const response = await fetch(baseUrl + path, { signal, redirect: 'manual', headers: { ...headers } })
    if (!response.ok || Number(response.headers.get('content-length') ?? 0) > maxListBytes) return undefined
    const body: unknown = await response.json()
    const entries = isRecord(body) ? body[list] : undefined
    if (!Array.isArray(entries)) return undefined
    return entries.flatMap((entry: unknown) => nameIn(entry, name) ?? [])
  } catch {
    // Nothing listens there, or something else does.
    return undefined
  }
}

function nameIn(entry: unknown, key: string): string | undefined {
  const name = isRecord(entry) ? entry[key] : undefined
  return typeof name === 'string' && name !== '' ? name : undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
