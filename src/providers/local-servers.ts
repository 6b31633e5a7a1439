// Inference servers on this machine: asked at start whether they answer, and which models they have.

import type { Provider } from './provider.ts'

export interface LocalServer {
  readonly id: string
  readonly baseUrl: string
  /** The names it lists under `/models`. */
  readonly models: readonly string[]
}

/** A list of models is short; whatever is longer is some other server on the port. */
const maxListBytes = 1_000_000

/** Asks every local row, all at once, each for at most `timeoutMs`. Those that do not answer are left out. */
export async function findLocalServers(rows: readonly Provider[], timeoutMs: number): Promise<LocalServer[]> {
  const asked = rows
    .filter((row) => row.local && row.transport === 'http' && row.baseUrl !== '')
    .map(async (row) => ({
      id: row.id,
      baseUrl: row.baseUrl,
      models: await modelsOf(row.baseUrl, timeoutMs),
    }))
  const answers = await Promise.all(asked)
  return answers.flatMap(({ models, ...server }) => (models === undefined ? [] : [{ ...server, models }]))
}

/** The model names a server lists; undefined when it does not answer as one. */
export async function modelsOf(
  baseUrl: string,
  timeoutMs: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<string[] | undefined> {
  try {
    const signal = AbortSignal.timeout(timeoutMs)
    const response = await fetch(`${baseUrl}/models`, { signal, redirect: 'manual', headers })
    if (!response.ok || Number(response.headers.get('content-length') ?? 0) > maxListBytes) return undefined
    const list: unknown = await response.json()
    if (typeof list !== 'object' || list === null || !('data' in list) || !Array.isArray(list.data))
      return undefined
    return list.data.flatMap((entry: unknown) => idOf(entry) ?? [])
  } catch {
    // Nothing listens there, or something else does.
    return undefined
  }
}

function idOf(entry: unknown): string | undefined {
  const named = typeof entry === 'object' && entry !== null && 'id' in entry
  return named && typeof entry.id === 'string' && entry.id !== '' ? entry.id : undefined
}
