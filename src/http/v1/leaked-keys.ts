// POST /v1/keys/leaked: for whoever has found a key.

import { z } from 'zod'
import { parseQuery, readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'

const mostBytes = 4_096

export const leakReport = z.strictObject({
  key: z.string().min(1).max(512).describe('The whole key, which is the proof.'),
})

/** Takes the report. The answer is the same whether there is such a key or not. */
export async function reportLeak(parts: HttpParts, request: Request): Promise<Response> {
  const body = { ...parts.body, maxBodyBytes: Math.min(parts.body.maxBodyBytes, mostBytes) }
  refuseByHeaders(request.headers, body)
  const { json } = await readJson(request, { body, scheduler: parts.scheduler })
  parts.leaks.onReport(parseQuery(leakReport, json).key, parts.site.addressOf(request))
  return Response.json({ received: true }, { status: 202 })
}
