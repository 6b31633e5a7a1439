// The base-URL trap: what a client with a slightly wrong address is told.

import { describe, expect, test } from 'bun:test'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { createRoutes } from '../../src/http/routes.ts'
import type { HttpParts } from '../../src/http/parts.ts'
import { wrongTarget } from '../../src/http/route.ts'
import { LargeBodies } from '../../src/http/intake/read-body.ts'
import { CallLog } from '../../src/observe/call-log.ts'

const quiet = () => undefined
const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
const publicUrl = 'https://models.example.org/weir'
const app = createRoutes({
  body: { maxBodyBytes: 1024, maxHeaderBytes: 16_384, maxDepth: 8 },
  calls: new CallLog({
    log,
    keep: quiet,
    keepTurnedAway: () => undefined,
    keepRefused: quiet,
    countRefusal: quiet,
    usd: String,
  }),
  scheduler: new Scheduler(),
  largeBodies: new LargeBodies(),
  publicUrl: () => publicUrl,
  site: { addressOf: () => '192.0.2.1' },
  now: Date.now,
  log,
} as unknown as HttpParts)

const asked = (method: string, path: string) =>
  wrongTarget({ method, url: `http://127.0.0.1:8787${path}` }, app.routes, publicUrl)

describe('a path that is not quite right names the one that is', () => {
  test.each([
    // asked, meant, the base URL of such clients
    ['POST', '/chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '/v1/v1/chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '//v1/chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '/v1//chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '/v1/chat/completions/', '/v1/chat/completions', '/v1'],
    ['POST', '/v1/chat/completions/chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '/v1/responses/responses', '/v1/responses', '/v1'],
    ['POST', '/api/v1/chat/completions', '/v1/chat/completions', '/v1'],
    ['POST', '/openai/v1/embeddings', '/v1/embeddings', '/v1'],
    ['GET', '/models', '/v1/models', '/v1'],
    ['GET', '/v1/chat/completions/models', '/v1/models', '/v1'],
    ['GET', '/models/sim/echo', '/v1/models/sim/echo', '/v1'],
    ['POST', '/v1/v1/messages', '/v1/messages', ''],
    ['POST', '/messages', '/v1/messages', ''],
    ['POST', '/app/v1/v1/responses', '/app/v1/responses', '/app/v1'],
  ])('%s %s', (method, path, meant, base) => {
    const error = asked(method, path)
    expect(error.code).toBe('not_found')
    expect(error.details.metadata).toEqual({ url: `${publicUrl}${meant}` })
    expect(error.message).toEndWith(
      `It is ${publicUrl}${meant}: the base URL of clients is ${publicUrl}${base}.`,
    )
  })

  test.each([
    ['GET', '/nothing'],
    ['POST', '/v1'],
    ['POST', '/v1/audio/speech'],
    ['GET', '/v1/../etc/passwd'],
    ['GET', `/${'v1/'.repeat(5_000)}`],
  ])('%s %s means nothing', (method, path) => {
    const error = asked(method, path)
    expect([error.code, error.details.metadata]).toEqual(['not_found', undefined])
    expect(error.message.length).toBeLessThan(300)
  })
})

describe('a method that a path does not take', () => {
  test.each([
    ['GET', '/v1/chat/completions', 'POST'],
    ['PUT', '/v1/messages', 'POST'],
    ['POST', '/v1/models', 'GET, HEAD'],
    ['PATCH', '/v1/responses/resp_1', 'DELETE, GET, HEAD'],
    ['DELETE', '/healthz', 'GET, HEAD'],
  ])('%s %s is told those it takes', async (method, path, allow) => {
    const request = new Request(`http://localhost:8787${path}`, {
      method,
      headers: { host: 'localhost:8787' },
    })
    const response = await app.handle(request)
    expect([response.status, response.headers.get('allow')]).toEqual([405, allow])
    expect(await response.text()).toContain('method_not_allowed')
  })
})
