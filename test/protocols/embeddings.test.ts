// Embeddings in every dialect: what providers are sent, what their answers mean, and what clients may ask.

import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/errors/errors.ts'
import {
  defaultEmbeddingQuirks,
  type EmbeddingRequest,
  toBase64,
  vectorOf,
} from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { parseEmbedding } from '../../src/protocols/embeddings/openai.ts'
import { providerById, providers } from '../../src/providers/registry.ts'
import { processorMs } from '../support/processor-time.ts'

const asked: EmbeddingRequest = { inputs: ['a', 'b'], dimensions: 3, user: 'u', rest: {} }

/** What the provider of this id is sent. */
function sent(id: string, request: Partial<EmbeddingRequest> = {}) {
  const row = providerById(id)!
  const quirks = { ...defaultEmbeddingQuirks, ...row.embeddings }
  return outbounds[row.protocol].embeddings!.lower({ ...asked, ...request }, { model: 'm', quirks })
}

const read = (id: string, body: unknown) => outbounds[providerById(id)!.protocol].embeddings!.read(body)

function codeOf(act: () => unknown): { code: string; param: string | null | undefined } | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { code: error.code, param: error.details.param }
  }
}

describe('a request', () => {
  const openai = { model: 'm', input: ['a', 'b'], dimensions: 3, user: 'u' }
  test.each([
    // provider   path                              body
    ['openai', '/embeddings', { ...openai, encoding_format: 'base64' }],
    ['azure', '/embeddings', { ...openai, encoding_format: 'base64' }],
    ['together', '/embeddings', openai],
    ['fireworks', '/embeddings', openai],
    ['vllm', '/embeddings', openai],
    ['llamacpp', '/embeddings', openai],
    ['sim', '/embeddings', openai],
    ['ollama', '/v1/embeddings', openai],
    ['mistral', '/embeddings', { model: 'm', input: ['a', 'b'], output_dimension: 3 }],
    [
      'gemini',
      '/models/m:batchEmbedContents',
      {
        requests: ['a', 'b'].map((text) => ({
          model: 'models/m',
          outputDimensionality: 3,
          content: { parts: [{ text }] },
        })),
      },
    ],
    [
      'cohere',
      '/embed',
      {
        input_type: 'search_document',
        model: 'm',
        texts: ['a', 'b'],
        embedding_types: ['float'],
        output_dimension: 3,
      },
    ],
  ] as const)('to %s goes to %s as it wants it', (id, path, body) => {
    const lowered = sent(id)
    expect([lowered.path, lowered.body]).toEqual([path, body as unknown as typeof lowered.body])
  })

  test('names what the provider has no word for', () => {
    expect(sent('openai').warnings).toEqual([])
    for (const id of ['mistral', 'gemini', 'cohere']) {
      expect(sent(id).warnings.map(({ param }) => param)).toEqual(['user'])
    }
    const rest = { task_type: 'RETRIEVAL_QUERY', input_type: 'search_query', odd: 1 }
    const google = sent('gemini', { user: undefined, rest })
    expect(google.body).toMatchObject({ requests: [{ taskType: 'RETRIEVAL_QUERY' }, {}] })
    expect(google.warnings.map(({ param }) => param)).toEqual(['input_type', 'odd'])
    expect(sent('cohere', { rest }).body).toMatchObject({ input_type: 'search_query' })
    const { odd: _, ...known } = rest
    const openai = sent('openai', { rest: { ...rest, service_tier: 'priority' } })
    expect(openai.body).toMatchObject(known)
    // What nobody here knows might have a price.
    expect(openai.warnings.map(({ param }) => param)).toEqual(['odd', 'service_tier'])
    expect(openai.body).not.toHaveProperty('service_tier')
  })

  test('in tokens goes to those that read tokens, and is refused by name for the others', () => {
    const inputs = [[1, 2, 3]]
    expect(sent('openai', { inputs }).body['input']).toEqual([[1, 2, 3]])
    for (const id of ['mistral', 'gemini', 'cohere', 'ollama']) {
      expect(codeOf(() => sent(id, { inputs }))).toEqual({ code: 'unsupported_parameter', param: 'input' })
    }
  })

  test('never leaves a field of the client stand over one of ours', () => {
    const rest = { model: 'other', texts: ['x'], embedding_types: ['int8'] }
    expect(sent('openai', { rest }).body['model']).toBe('m')
    expect(sent('cohere', { rest }).body).toMatchObject({ model: 'm', embedding_types: ['float'] })
  })
})

describe('an answer', () => {
  const counted = (answer: ReturnType<typeof read>) =>
    answer.kind === 'vectors' ? [answer.vectors, answer.usage?.input] : answer.fault.kind
  test.each([
    [
      'openai',
      {
        object: 'list',
        data: [
          { index: 1, embedding: [0, 1] },
          { index: 0, embedding: [1, 0] },
        ],
        usage: { prompt_tokens: 5, total_tokens: 5 },
      },
      [
        [
          [1, 0],
          [0, 1],
        ],
        5,
      ],
    ],
    ['openai', { data: [{ index: 0, embedding: toBase64([0.5, -0.25]) }] }, [[[0.5, -0.25]], undefined]],
    ['vllm', { data: [{ embedding: [1] }], usage: { prompt_tokens: 0, total_tokens: 0 } }, [[[1]], 0]],
    ['vllm', { data: [{ embedding: [1] }], usage: { total_tokens: 7 } }, [[[1]], 7]],
    ['vllm', { data: [{ embedding: [1] }], usage: { prompt_tokens: 0, total_tokens: 7 } }, [[[1]], 7]],
    [
      'gemini',
      { embeddings: [{ values: [1, 2] }, { values: [3, 4] }] },
      [
        [
          [1, 2],
          [3, 4],
        ],
        undefined,
      ],
    ],
    ['gemini', { embeddings: [{ values: [1] }], usageMetadata: { promptTokenCount: 7 } }, [[[1]], 7]],
    ['cohere', { embeddings: { float: [[1]] }, meta: { billed_units: { input_tokens: 9 } } }, [[[1]], 9]],
    ['cohere', { embeddings: [[1]], meta: {} }, [[[1]], undefined]],
    ['openai', { error: { message: 'slow', code: 'rate_limit_exceeded' } }, 'rate-limited'],
    ['gemini', { error: { code: 503, status: 'UNAVAILABLE', message: 'x' } }, 'overloaded'],
    ...['openai', 'gemini', 'cohere'].flatMap((id) =>
      [null, [], 'x', {}, { data: 3, embeddings: 3 }].map((body) => [id, body, 'broken'] as const),
    ),
  ] as const)('of %s, %p, is read', (id, body, expected) => {
    expect(counted(read(id, body))).toEqual(expected as ReturnType<typeof counted>)
  })

  test('keeps 32-bit floats exactly through base64', () => {
    const vector = [1, -1, 0, 0.1, 1e-30, 3.4e38].map(Math.fround)
    expect(vectorOf(toBase64(vector))).toEqual(vector)
    // 1.0 as a little-endian 32-bit float.
    expect(toBase64([1])).toBe(Buffer.from([0, 0, 0x80, 0x3f]).toString('base64'))
  })

  test('holds no vector in what is neither numbers nor base64 of them', () => {
    for (const value of ['', 'AAA=', 'not base64!', [], ['x'], null, 3, toBase64([Number.NaN])]) {
      expect(vectorOf(value)).toBeUndefined()
    }
  })
})

describe('a body', () => {
  const parsed = (more: object) => parseEmbedding({ model: 'sim/embed', input: 'x', ...more })
  test.each([
    ['x', ['x']],
    [
      ['x', 'y'],
      ['x', 'y'],
    ],
    [[1, 2], [[1, 2]]],
    [
      [[1], [2, 3]],
      [[1], [2, 3]],
    ],
  ])('with input %p asks for %p', (input, inputs) => {
    expect(parsed({ input }).request.inputs).toEqual(inputs)
    expect(parsed({ input }).envelope.n).toBe(inputs.length)
  })

  test.each([
    [{ input: undefined }, 'input'],
    [{ input: '' }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: {} }, 'input'],
    [{ input: ['x', ''] }, 'input[1]'],
    [{ input: ['x', 3] }, 'input[1]'],
    [{ input: [1, 'x'] }, 'input[1]'],
    [{ input: [1, -1] }, 'input[1]'],
    [{ input: [1.5] }, 'input[0]'],
    [{ input: [[1], []] }, 'input[1]'],
    [{ input: [[1], 'x'] }, 'input[1]'],
    [{ model: 3 }, 'model'],
    [{ encoding_format: 'hex' }, 'encoding_format'],
    [{ dimensions: 0 }, 'dimensions'],
    [{ user: 3 }, 'user'],
  ])('%p is refused for its %s', (more, param) => {
    expect(codeOf(() => parsed(more))).toEqual({ code: 'invalid_request', param })
  })

  test('holds 2,048 inputs and no more', () => {
    expect(parsed({ input: Array(2048).fill('x') }).request.inputs).toHaveLength(2048)
    expect(codeOf(() => parsed({ input: Array(2049).fill('x') }))?.param).toBe('input')
  })

  test('of a chat is told where it belongs, and one that is no object is refused', () => {
    expect(codeOf(() => parseEmbedding({ model: 'sim/echo', messages: [] }))).toEqual({
      code: 'wrong_endpoint',
      param: 'messages',
    })
    for (const body of [null, [], 'x', 3]) {
      expect(codeOf(() => parseEmbedding(body))?.code).toBe('invalid_request')
    }
  })

  test('of 300,000 tokens is read in a moment', () => {
    const input = Array.from({ length: 300_000 }, (_, at) => at)
    const before = processorMs()
    expect(parsed({ input }).request.inputs).toHaveLength(1)
    expect(processorMs() - before).toBeLessThan(250)
  })
})

test('every row that says something of its embeddings speaks a protocol that has them', () => {
  for (const row of providers.filter(({ embeddings }) => embeddings !== undefined)) {
    expect(outbounds[row.protocol].embeddings).toBeDefined()
    for (const quirk of Object.keys(row.embeddings!)) expect(defaultEmbeddingQuirks).toHaveProperty(quirk)
  }
})
