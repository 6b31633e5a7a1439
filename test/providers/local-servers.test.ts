// Servers on this machine are found by the list of models that their protocol has.

import { afterAll, describe, expect, test } from 'bun:test'
import { findLocalServers, modelsOf } from '../../src/providers/local-servers.ts'
import { providerById } from '../../src/providers/registry.ts'

const answers: Readonly<Record<string, unknown>> = {
  '/v1/models': { object: 'list', data: [{ id: 'Qwen/Qwen3' }, { id: '' }, 7] },
  '/api/tags': { models: [{ name: 'llama3.2:latest', model: 'llama3.2:latest' }, { size: 1 }] },
  '/odd/models': [],
}
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: (request) => {
    const answer = answers[new URL(request.url).pathname]
    return answer === undefined ? new Response('no', { status: 404 }) : Response.json(answer)
  },
})
afterAll(() => server.stop(true))
const base = `http://127.0.0.1:${server.port}`
const [ollama, vllm] = ['ollama', 'vllm'].map((id) => providerById(id)!)

describe('a local server', () => {
  test('of chat completions lists models under /models, Ollama under /api/tags', async () => {
    const rows = [
      { ...ollama!, baseUrl: base },
      { ...vllm!, baseUrl: `${base}/v1` },
    ]
    expect(await findLocalServers(rows, 1_000)).toEqual([
      { id: 'ollama', baseUrl: base, models: ['llama3.2:latest'] },
      { id: 'vllm', baseUrl: `${base}/v1`, models: ['Qwen/Qwen3'] },
    ])
  })

  test('that answers something else, or nothing, is none', async () => {
    expect(await modelsOf({ ...vllm!, baseUrl: `${base}/odd` }, 1_000)).toBeUndefined()
    expect(await modelsOf({ ...ollama!, baseUrl: `${base}/v1` }, 1_000)).toBeUndefined()
  })
})
