// GET /metrics: the figures of the gateway for Prometheus, with a management key. They are the operator's business, and
// the port that serves them is often everybody's.

import { version } from '../../version.ts'
import type { HttpParts } from '../parts.ts'
import { operatorOf } from '../console/api.ts'

const startedAt = Date.now() - performance.now()

/** The figures as text. Throws and rejects as the admin API does for whoever has no management key. */
export async function metrics(parts: HttpParts, request: Request): Promise<Response> {
  await operatorOf(parts, request)
  const { ledger, chat, ready, sockets, metrics: calls } = parts
  const writable = await ledger.writable()
  const text = calls.text([
    { name: 'weir_build_info', help: 'The version that runs.', value: 1, labels: { version } },
    { name: 'weir_calls_in_flight', help: 'Calls that run now.', value: chat.inFlight.size },
    { name: 'weir_sockets_open', help: 'WebSockets that are open now.', value: sockets.size },
    { name: 'weir_ready', help: 'Whether /readyz says ready.', value: writable && ready() ? 1 : 0 },
    { name: 'weir_store_writable', help: 'Whether the database can be written.', value: writable ? 1 : 0 },
    {
      name: 'process_start_time_seconds',
      help: 'When the process has started, seconds since 1970.',
      value: Math.round(startedAt / 1000),
    },
    {
      name: 'process_resident_memory_bytes',
      help: 'The memory of the process; workers have their own.',
      value: process.memoryUsage.rss(),
    },
  ])
  return new Response(text, {
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
  })
}
