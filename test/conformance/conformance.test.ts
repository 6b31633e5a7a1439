// `weir conformance`: our own gateway holds all of it, and a server that is wrong in one way is found wrong in that way.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { conformanceCases } from '../../src/conformance/cases.ts'
import { type Report, runCases } from '../../src/conformance/trial.ts'
import type { CommandResult } from '../support/run-inside.ts'
import { runWeir, type ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { tempDir } from '../support/tmp.ts'

let weir: ServedWeir
beforeAll(async () => {
  weir = await serveWeir()
})
afterAll(async () => {
  await weir.stop()
  temporary.remove()
})

const temporary = tempDir('weir-conformance-')
const { path: folder } = temporary
const run = (...args: string[]): Promise<CommandResult> => runWeir(['conformance', ...args], { cwd: folder })

describe('this gateway', () => {
  test('holds every case of every protocol, and says so on a page', async () => {
    const page = join(folder, 'report.html')
    const { code, stdout } = await run(weir.baseUrl, '--key', weir.key, '--json', '--html', page)
    const { results, scores, model } = JSON.parse(stdout) as Report
    expect(results.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
    expect(scores['all']).toEqual({ passed: conformanceCases.length, failed: 0, left_out: 0 })
    expect([code, model]).toEqual([0, 'sim/tools'])
    expect(readFileSync(page, 'utf8')).toContain(`<td><code>chat/stream</code></td>`)
  })

  test('names what cannot be tried', async () => {
    const failing = async (...args: string[]) => (await run(weir.baseUrl, '--key', weir.key, ...args)).stderr
    expect(await failing('--protocol', 'chat,smtp')).toContain('there is no protocol "smtp"')
    expect(await failing('--timeout', '0')).toContain('--timeout takes seconds')
    expect((await run('ftp://x', '--key', 'k')).stderr).toContain('takes an address')
    expect((await run('http://127.0.0.1:1', '--key', 'k')).stderr).toContain('does not answer')
  })
})

test('every case has a name of its own', () => {
  expect(new Set(conformanceCases.map(({ id }) => id)).size).toBe(conformanceCases.length)
})

/** A server that passes everything on to ours, but for what is done to an answer's text. */
function spoiledBy(
  mend: (text: string, path: string) => string,
  status?: (path: string) => number | undefined,
) {
  return Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const own = status?.(pathname)
      if (own !== undefined) return new Response('{}', { status: own })
      const headers = new Headers(request.headers)
      for (const name of ['host', 'content-length', 'accept-encoding']) headers.delete(name)
      const body = request.method === 'POST' ? await request.text() : undefined
      const answer = await fetch(weir.origin + pathname + search, {
        method: request.method,
        headers,
        ...(body === undefined ? {} : { body }),
      })
      const type = answer.headers.get('content-type') ?? ''
      const text = mend(await answer.text(), pathname)
      return new Response(text, { status: answer.status, headers: { 'content-type': type } })
    },
  })
}

async function failedAt(
  server: ReturnType<typeof spoiledBy>,
): Promise<{ failed: string[]; leftOut: string[] }> {
  const base = `http://127.0.0.1:${server.port}/v1`
  const target = { base, key: weir.key, model: 'sim/tools', timeoutMs: 10_000 }
  const results = await runCases(conformanceCases, target, () => undefined)
  await server.stop(true)
  const named = (wanted: string) => results.filter(({ verdict }) => verdict === wanted).map(({ id }) => id)
  return { failed: named('failed'), leftOut: named('left_out') }
}

describe('a server', () => {
  test.each<[string, (text: string, path: string) => string, string[]]>([
    [
      'whose totals do not add up',
      (text) => text.replace(/"total_tokens":\d+/, '"total_tokens":1'),
      ['chat/whole', 'chat/stream-usage', 'responses/whole'],
    ],
    [
      'that never says [DONE]',
      (text) => text.replace('data: [DONE]\n\n', ''),
      ['chat/stream', 'chat/stream-usage'],
    ],
    [
      'that spoils arguments',
      (text) => text.replaceAll('{\\"city\\"', '[\\"city\\"'),
      ['chat/call', 'chat/call-streamed', 'responses/call'],
    ],
    [
      'whose errors have no object',
      (text) => text.replace('{"error":{', '{"fault":{'),
      [
        'chat/key',
        'chat/model',
        'chat/json',
        'chat/messages',
        'responses/key',
        'responses/input',
        'responses/previous',
        'gemini/key',
      ],
    ],
    [
      'that skips a number',
      (text) => text.replace('"sequence_number":2', '"sequence_number":7'),
      ['responses/stream'],
    ],
    ['that does not name its events', (text) => text.replaceAll(/^event: .*\n/gm, ''), ['messages/stream']],
    [
      'that forgets why it ended',
      (text) => text.replace(/"(stop_reason|finishReason|finish_reason)":"[^"]*"/, '"$1":null'),
      [
        'chat/whole',
        'chat/stream',
        'chat/call',
        'chat/result',
        'chat/schema',
        'messages/whole',
        'messages/stream',
        'messages/call',
        'gemini/whole',
        'gemini/stream',
      ],
    ],
  ])('%s is found', async (_, mend, wanted) => {
    const { failed, leftOut } = await failedAt(spoiledBy(mend))
    expect(failed).toEqual(expect.arrayContaining(wanted))
    expect([failed.length - wanted.length < 4, leftOut]).toEqual([true, []])
  })

  test('that speaks chat completions alone is scored by these', async () => {
    const elsewhere = (path: string) => (/completions|models$|models\//.test(path) ? undefined : 404)
    const { failed, leftOut } = await failedAt(
      spoiledBy(
        (text) => text,
        (path) => (path.startsWith('/v1beta') ? 404 : elsewhere(path)),
      ),
    )
    expect(failed).toEqual([])
    expect(leftOut).toEqual(
      conformanceCases
        .filter(({ protocol }) => ['responses', 'messages', 'gemini'].includes(protocol))
        .map(({ id }) => id),
    )
  })
})
