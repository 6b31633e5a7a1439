// Calls to the gateway: JSON to the console's own origin with the session's cookie; failures are one kind of error.

import { t } from '../strings/text.ts'
import type { Fault } from './wire.ts'

/** A refusal of the gateway, or no answer at all (`code` is then `unreachable`). */
export class CallError extends Error {
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.message)
    this.name = 'CallError'
    this.fault = fault
  }
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** Calls `/console/api/<path>` and returns the body of the answer. Throws CallError. */
export async function call<T>(
  method: Method,
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<T> {
  const response = await send(`/console/api/${path}`, {
    method,
    ...(body === undefined
      ? { headers }
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } }),
  })
  return (await response.json()) as T
}

/** Fetches a path of this origin; resolves with answers that succeeded only. Throws CallError. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response
  try {
    response = await fetch(path, { credentials: 'same-origin', redirect: 'error', ...init })
  } catch (cause) {
    if (init.signal?.aborted) throw cause
    throw new CallError({
      status: 0,
      code: 'unreachable',
      message: t('The gateway does not answer. Is it running?'),
      param: null,
      metadata: {},
    })
  }
  if (response.ok) return response
  const fault = await faultOf(response)
  if (fault.code === 'not_signed_in') sessionOver()
  throw new CallError(fault)
}

let sessionOver: () => void = () => undefined

/** Called when any call shows that the session has ended. */
export function onSessionOver(listener: () => void): void {
  sessionOver = listener
}

async function faultOf(response: Response): Promise<Fault> {
  const fallback: Fault = {
    status: response.status,
    code: `http_${response.status}`,
    message: t('The gateway answered {status}.', { status: response.status }),
    param: null,
    metadata: {},
  }
  try {
    const { error } = (await response.json()) as { error?: Partial<Fault> }
    return { ...fallback, ...error, status: response.status }
  } catch {
    return fallback
  }
}

export function faultIn(thrown: unknown): Fault {
  if (thrown instanceof CallError) return thrown.fault
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return { status: 0, code: 'page_error', message, param: null, metadata: {} }
}
