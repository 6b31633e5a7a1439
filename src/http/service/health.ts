// GET /healthz, GET /readyz and GET /metrics for whatever monitors the process, and GET /v1/errors.

import { errorReference } from '../../errors/errors.ts'
import { commit, version } from '../../version.ts'
import type { Route } from '../route.ts'

export const getHealth: Route<unknown> = {
  method: 'GET',
  path: '/healthz',
  handle: () => Response.json({ status: 'ok', version, commit }),
  takesNoHost: true,
  skipsScheduler: true,
  operation: async () => (await import('./documentation.ts')).health,
}

/** Not ready while the gateway warms up or its database cannot be written, and from the moment that it is told to stop. */
export const getReadiness: Route = {
  method: 'GET',
  path: '/readyz',
  handle: async (parts) => {
    const writable = await parts.ledger.writable()
    const warming = parts.warming()
    const leaving = parts.leaving()
    const ready = writable && !warming && !leaving
    const body = {
      status: ready ? 'ready' : 'not ready',
      store: writable ? 'writable' : 'unavailable',
      warming,
      draining: leaving,
    }
    return Response.json(body, { status: ready ? 200 : 503 })
  },
  takesNoHost: true,
  skipsScheduler: true,
  operation: async () => (await import('./documentation.ts')).readiness,
}

/** The code is loaded with the first request, as all that operators ask for. */
export const getMetrics: Route = {
  method: 'GET',
  path: '/metrics',
  handle: async (parts, { request }) => (await import('../admin/metrics.ts')).metrics(parts, request),
  operation: async () => (await import('./documentation.ts')).metrics,
}

export const listErrors: Route = {
  method: 'GET',
  path: '/v1/errors',
  handle: ({ publicUrl }) => Response.json({ object: 'list', data: errorReference(publicUrl()) }),
  operation: async () => (await import('./documentation.ts')).errors,
}
