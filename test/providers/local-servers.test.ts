// Inference servers are found by the list of models that their protocol has, and tell what they know of each.

import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { modelsOf } from '../../src/providers/local-servers.ts'
import { providerById } from '../../src/providers/registry.ts'

type Answers = Readonly<Record<string, unknown>>
let answers: Answers = {}
let asked: { readonly path: string; readonly authorization: string | null; readonly body: string }[] = []
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) => {
    const path = new URL(request.url).pathname
    const body = await request.text()
    asked.push({ path, authorization: request.headers.get('authorization'), body })
    const answer = answers[body === '' ? path : `${path} ${body}`]
    if (answer === 'never') await Bun.sleep(10_000)
    return answer === undefined
      ? new Response('no', { status: 404 })
      : answer === 'loading'
        ? Response.json({ error: { message: 'Loading model' } }, { status: 503 })
        : Response.json(answer)
  },
})
afterAll(() => server.stop(true))
beforeEach(() => {
  answers = {}
  asked = []
})
const base = `http://127.0.0.1:${server.port}`
const at = (id: string, path = '') => ({ ...providerById(id)!, baseUrl: base + path })

describe('a local server', () => {
  test('that sends without end is none, and is not read to the end of its time', async () => {
    let sent = 0
    const endless = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () =>
        new Response(
          new ReadableStream({
            pull: async (controller) => {
              await new Promise((resolve) => setImmediate(resolve))
              controller.enqueue(new Uint8Array(65_536).fill(0x20))
              sent += 65_536
            },
          }),
        ),
    })
    const server = { ...providerById('vllm')!, baseUrl: `http://127.0.0.1:${endless.port}/v1` }
    expect(await modelsOf(server, 300)).toEqual({ kind: 'absent' })
    expect(sent).toBeLessThan(20_000_000)
    await endless.stop(true)
  })

  test('of chat completions lists its models under /models, vLLM with their length', async () => {
    answers = {
      '/v1/models': {
        data: [{ id: 'Qwen/Qwen3', max_model_len: 40_960 }, { id: '' }, 7, { id: 'BAAI/bge-m3' }],
      },
    }
    expect(await modelsOf(at('vllm', '/v1'), 1_000)).toEqual({
      kind: 'models',
      models: [
        { name: 'Qwen/Qwen3', contextLength: 40_960, embeds: false },
        { name: 'BAAI/bge-m3', contextLength: undefined, embeds: true },
      ],
    })
  })

  test('llama.cpp says what it was started with, not what the model was trained for', async () => {
    const entry = { id: '/m/qwen.gguf', owned_by: 'llamacpp', meta: { n_ctx_train: 131_072 } }
    answers = {
      '/v1/models': { models: [], data: [entry] },
      '/props': { default_generation_settings: { n_ctx: 4_096 } },
    }
    const model = { name: '/m/qwen.gguf', embeds: false }
    expect(await modelsOf(at('llamacpp', '/v1'), 1_000)).toEqual({
      kind: 'models',
      models: [{ ...model, contextLength: 4_096 }],
    })
    answers = { '/v1/models': answers['/v1/models'] }
    expect(await modelsOf(at('llamacpp', '/v1'), 1_000)).toEqual({
      kind: 'models',
      models: [{ ...model, contextLength: 131_072 }],
    })
  })

  test('LM Studio tells more in its own list, and older versions have only the usual one', async () => {
    const usual = { data: [{ id: 'text-embedding-nomic-embed-text-v1.5' }, { id: 'qwen2-vl' }] }
    const detailed = {
      data: [
        { id: 'text-embedding-nomic-embed-text-v1.5', type: 'embeddings', max_context_length: 2_048 },
        { id: 'qwen2-vl', type: 'vlm', max_context_length: 32_768, loaded_context_length: 4_096 },
      ],
    }
    const models = (first: number | undefined, second: number | undefined) => [
      { name: 'text-embedding-nomic-embed-text-v1.5', contextLength: first, embeds: true },
      { name: 'qwen2-vl', contextLength: second, embeds: false },
    ]
    answers = { '/v1/models': usual, '/api/v0/models': detailed }
    expect(await modelsOf(at('lmstudio', '/v1'), 1_000)).toEqual({
      kind: 'models',
      models: models(2_048, 4_096),
    })
    answers = { '/v1/models': usual }
    expect(await modelsOf(at('lmstudio', '/v1'), 1_000)).toMatchObject({
      models: models(undefined, undefined),
    })
  })

  test('Ollama is asked for each model once', async () => {
    answers = {
      '/api/tags': {
        models: [
          { name: 'llama3.2:latest', digest: 'a' },
          { name: 'small', digest: 'b' },
          { name: 'nomic-embed-text', digest: 'c' },
          { name: 'gone', digest: 'd' },
          { size: 1 },
        ],
      },
      '/api/show {"model":"llama3.2:latest"}': {
        model_info: { 'general.architecture': 'llama', 'llama.context_length': 131_072 },
        capabilities: ['completion', 'tools'],
      },
      '/api/show {"model":"small"}': {
        parameters: 'temperature 0.7\nnum_ctx                        2048',
        model_info: { 'llama.context_length': 131_072 },
        capabilities: ['completion'],
      },
      '/api/show {"model":"nomic-embed-text"}': {
        model_info: { 'nomic-bert.context_length': 2_048 },
        capabilities: ['embedding'],
      },
    }
    const known = new Map()
    const found = {
      kind: 'models' as const,
      models: [
        { name: 'llama3.2:latest', contextLength: 131_072, embeds: false },
        { name: 'small', contextLength: 2_048, embeds: false },
        { name: 'nomic-embed-text', contextLength: 2_048, embeds: true },
        { name: 'gone', embeds: false },
      ],
    }
    expect(await modelsOf(at('ollama'), 1_000, known)).toEqual(found)
    expect(asked).toHaveLength(5)
    expect(await modelsOf(at('ollama'), 1_000, known)).toEqual(found)
    // The list, and what it had no answer to before.
    expect(asked.slice(5).map(({ body }) => body)).toEqual(['', '{"model":"gone"}'])
  })

  test('that wants a key is given it', async () => {
    answers = { '/v1/models': { data: [] } }
    await modelsOf({ ...at('vllm', '/v1'), keys: ['a-key'] }, 1_000)
    expect(asked).toEqual([{ path: '/v1/models', authorization: 'Bearer a-key', body: '' }])
  })

  test.each([
    ['something else answers', { '/v1/models': [] }, 'absent'],
    ['nothing is there', {}, 'absent'],
    ['it loads its model', { '/v1/models': 'loading' }, 'busy'],
    ['it does not answer in time', { '/v1/models': 'never' }, 'busy'],
  ] as const)('where %p', async (_, given, kind) => {
    answers = given
    expect(await modelsOf(at('vllm', '/v1'), 50)).toEqual({ kind })
  })

  test('that does not listen is absent', async () => {
    const gone = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })
    await gone.stop(true)
    expect(await modelsOf({ ...at('ollama'), baseUrl: `http://127.0.0.1:${gone.port}` }, 1_000)).toEqual({
      kind: 'absent',
    })
  })
})

test.each([
  ['nomic-embed-text:latest', true],
  ['text-embedding-3-small', true],
  ['intfloat/e5-mistral-7b-instruct', true],
  ['BAAI/bge-m3', true],
  ['all-minilm', true],
  ['BAAI/bge-reranker-v2-m3', false],
  ['llama3.2', false],
  ['gemma-3-12b', false],
  ['embedded-phi', false],
])('by its name alone, %s embeds: %p', async (id, embeds) => {
  answers = { '/v1/models': { data: [{ id }] } }
  expect(await modelsOf(at('vllm', '/v1'), 1_000)).toMatchObject({ models: [{ embeds }] })
})
