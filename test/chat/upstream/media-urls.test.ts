// S3: no field of a request makes anybody in the operator's network fetch a private address.

import { describe, expect, test } from 'bun:test'
import { checkAddresses } from '../../../src/chat/upstream/lower.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import type { Parts } from '../../../src/protocols/request/prompt-parts.ts'
import { addresses as ofMessages } from '../../../src/protocols/anthropic-messages/inbound/read.ts'
import { inbound as gemini } from '../../../src/protocols/gemini/inbound/inbound.ts'
import { addresses as ofChat } from '../../../src/protocols/openai-chat/inbound/read.ts'
import { fileSource } from '../../../src/protocols/openai/messages.ts'
import { addresses as ofResponses } from '../../../src/protocols/openai-responses/inbound/read.ts'

const body = (part: JsonObject): JsonObject => ({
  messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, part] }],
})
const image = (url: string) => body({ type: 'image_url', image_url: { url } })

function inResponses(field: 'content' | 'output', part: JsonObject): JsonObject {
  return { input: [{ type: 'message', [field]: [part] }] }
}

function imageFrom(url: string): JsonObject {
  return { type: 'image', source: { type: 'url', url } }
}

const rules = { allowHosts: [], providerFiles: false }

/** Chat completions and messages name their media by different members; both are looked at. */
function refusal(request: JsonObject, allowHosts: readonly string[] = [], places: Parts = ofChat): unknown {
  try {
    checkAddresses(request, places, { allowHosts, providerFiles: false })
    return undefined
  } catch (error) {
    return error instanceof GatewayError ? [error.code, error.details.param] : error
  }
}

test.each([
  'http://127.0.0.1:8080/x.png',
  'http://2130706433/x.png',
  'http://0x7f.1/x.png',
  'http://[::ffff:7f00:1]/x.png',
  'http://169.254.169.254/latest/meta-data',
  'http://10.0.0.5/x.png',
  'http://localhost./x.png',
  'http://user@example.com/x.png',
  'file:///etc/passwd',
  'ftp://example.com/x.png',
])('an image at %s is refused by name', (url) => {
  expect(refusal(image(url))).toEqual(['url_not_allowed', 'messages[0].content[1].image_url.url'])
})

test.each<[string, JsonObject]>([
  ['messages[0].content[1].image_url', { type: 'image_url', image_url: 'http://127.0.0.1/x' }],
  ['messages[0].content[1].video_url.url', { type: 'video_url', video_url: { url: 'http://127.0.0.1/x' } }],
  ['messages[0].content[1].file.file_url', { type: 'file', file: { file_url: 'http://127.0.0.1/x' } }],
  ['messages[0].content[1].source.url', imageFrom('http://127.0.0.1/x')],
  [
    'messages[0].content[1].source.url',
    { type: 'document', source: { type: 'url', url: 'http://10.0.0.1/x' } },
  ],
  [
    'messages[0].content[1].content[0].source.url',
    { type: 'tool_result', tool_use_id: 't', content: [imageFrom('http://127.0.0.1/x')] },
  ],
  [
    'messages[0].content[1].source.content[0].source.url',
    { type: 'document', source: { type: 'content', content: [imageFrom('http://127.0.0.1/x')] } },
  ],
])('so is what stands in %s', (param, part) => {
  const places = param.includes('source') ? ofMessages : ofChat
  expect(refusal(body(part), [], places)).toEqual(['url_not_allowed', param])
})

test.each([
  ['input[0].content[0].image_url', 'content', { type: 'input_image', image_url: 'http://127.0.0.1/x' }],
  ['input[0].content[0].file_url', 'content', { type: 'input_file', file_url: 'http://127.0.0.1/x' }],
  ['input[0].output[0].image_url', 'output', { type: 'input_image', image_url: 'http://127.0.0.1/x' }],
])('so is what stands in %s of a response', (param, field, part) => {
  expect(refusal({ input: [{ [field]: [part] }] }, [], ofResponses)).toEqual(['url_not_allowed', param])
})

test.each(['https://example.com/x.png', 'data:image/png;base64,AAAA'])('%s may go on', (url) => {
  expect(refusal(image(url))).toBeUndefined()
})

describe('a file of Cloud Storage, which Google reads with the rights of the operator,', () => {
  test.each(['gs://bucket/x.png', 'GS://bucket/x.png', ' gs://bucket/x.png', 'gs://me@bucket.example/x'])(
    'is refused as %j',
    (url) => {
      const refused = ['url_not_allowed', 'messages[0].content[1].image_url.url']
      expect(refusal(image(url))).toEqual(refused)
      expect(refusal(image(url), ['bucket', 'gs://buck', 'gs://bucket.example'])).toEqual(refused)
    },
  )

  test('is refused as the id of a file', () => {
    const part = { type: 'file', file: { file_id: 'gs://bucket/x.pdf' } }
    expect(refusal(body(part))).toEqual(['url_not_allowed', 'messages[0].content[1].file.file_id'])
  })

  test('may go on where the operator allows its bucket, and nobody else fetches it', () => {
    const request = image('GS://bucket/a/x.png')
    const { addresses } = checkAddresses(request, ofChat, { ...rules, allowHosts: ['gs://bucket'] })
    expect(addresses).toEqual([])
    expect(JSON.stringify(request)).toContain('"gs://bucket/a/x.png"')
  })
})

describe('a file that is stored at a provider, which reads it with the rights of the operator,', () => {
  const google = 'https://generativelanguage.googleapis.com'
  const source = { type: 'file', file_id: 'file_011' }
  const ofFile = (fileUri: string) => ({ contents: [{ parts: [{ fileData: { fileUri } }] }] })
  const named: [string, string, JsonObject, Parts][] = [
    [
      'chat',
      'messages[0].content[1].file.file_id',
      body({ type: 'file', file: { file_id: 'file-1' } }),
      ofChat,
    ],
    [
      'responses',
      'input[0].content[0].file_id',
      { input: [{ content: [{ type: 'input_file', file_id: 'file-1' }] }] },
      ofResponses,
    ],
    [
      'responses',
      'input[0].output[0].file_id',
      { input: [{ output: [{ type: 'input_image', file_id: 'file-1' }] }] },
      ofResponses,
    ],
    ['messages', 'messages[0].content[1].source.file_id', body({ type: 'document', source }), ofMessages],
    [
      'messages',
      'messages[0].content[1].content[0].source.file_id',
      body({ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source }] }),
      ofMessages,
    ],
    [
      'messages',
      'messages[0].content[1].file_id',
      body({ type: 'container_upload', file_id: 'file_011' }),
      ofMessages,
    ],
    ...['files/abc', `${google}/v1beta/files/abc`, `${google}./v1/files/abc`].map(
      (uri): [string, string, JsonObject, Parts] => [
        'Gemini',
        'contents[0].parts[0].fileData.fileUri',
        ofFile(uri),
        gemini.addresses,
      ],
    ),
    ['chat', 'messages[0].content[1].image_url.url', image(`${google}/v1beta/files/abc`), ofChat],
  ]

  test.each(named)('is refused in %s at %s', (_, param, request, places) => {
    expect(refusal(request, [], places)).toEqual(['unsupported_parameter', param])
  })

  test.each(named)('may go on in %s at %s where the operator says so', (_, __, request, places) => {
    expect(checkAddresses(request, places, { ...rules, providerFiles: true }).warnings).toEqual([])
  })

  test('is no file at an address that everybody can read', () => {
    const video = ofFile('https://www.youtube.com/watch?v=tY46Kmm0LOo')
    expect(refusal(video, [], gemini.addresses)).toBeUndefined()
  })
})

test('a found page names where it is from, and nobody fetches it', () => {
  const page = { type: 'search_result', source: 'http://127.0.0.1/x', title: 'x', content: [] }
  expect(refusal(body(page), [], ofMessages)).toBeUndefined()
})

test('what the operator allows may be private', () => {
  expect(refusal(image('http://127.0.0.1:8080/x.png'), ['127.0.0.1:8080'])).toBeUndefined()
})

test('requests without parts are none of its business', () => {
  expect(refusal({ messages: [{ role: 'user', content: 'http://127.0.0.1/' }] })).toBeUndefined()
  expect(refusal({ input: 'http://127.0.0.1/' }, [], ofResponses)).toBeUndefined()
})

describe('S3 an image in the system prompt of a message', () => {
  test('is refused where its address is private', () => {
    const request = { system: [{ type: 'text', text: 'x' }, imageFrom('http://127.0.0.1/x')], messages: [] }
    expect(refusal(request, [], ofMessages)).toEqual(['url_not_allowed', 'system[1].source.url'])
  })
})

describe('S4 what goes on is what was parsed', () => {
  test.each([
    ['http://good.example\\@127.0.0.1:8080/x', 'http://good.example/@127.0.0.1:8080/x'],
    ['http:/\\good.example/x', 'http://good.example/x'],
    ['  HTTPS://GOOD.example:443/a b ', 'https://good.example/a%20b'],
    ['ht\ntp://good.exa\tmple/x', 'http://good.example/x'],
    ['http://good.example#@127.0.0.1/', 'http://good.example/#@127.0.0.1/'],
  ])('%p goes on as %s', (written, forwarded) => {
    const request = image(written)
    const { addresses } = checkAddresses(request, ofChat, rules)
    expect(request).toEqual(image(forwarded))
    expect(addresses).toEqual([{ url: forwarded, param: 'messages[0].content[1].image_url.url' }])
  })

  test.each([
    '//127.0.0.1/x',
    '\\\\127.0.0.1\\x',
    'URL:http://127.0.0.1/x',
    '127.0.0.1:80/x',
    'jar:http://127.0.0.1/!/x',
  ])('%p is no address of anything', (written) => {
    expect(refusal(image(written))).toEqual(['url_not_allowed', 'messages[0].content[1].image_url.url'])
  })
})

describe('bytes are bytes in every place that takes an address as well', () => {
  const mp3 = `//uQxAAA${'AAAASW5mbwAAAA8A'.repeat(100)}`
  const audio = (data: string) => ({ type: 'input_audio', input_audio: { data, format: 'mp3' } })
  const places: [string, (data: string) => JsonObject, Parts][] = [
    ['input_audio.data', (data) => body(audio(data)), ofChat],
    ['file.file_data', (file_data) => body({ type: 'file', file: { file_data } }), ofChat],
    [
      'file_data of responses',
      (file_data) => inResponses('content', { type: 'input_file', file_data }),
      ofResponses,
    ],
    ['input_audio.data of responses', (data) => inResponses('content', audio(data)), ofResponses],
    [
      'file_data of a result',
      (file_data) => inResponses('output', { type: 'input_file', file_data }),
      ofResponses,
    ],
    ['source.data', (data) => body({ type: 'document', source: { type: 'base64', data } }), ofMessages],
    [
      'source.data of a tool result',
      (data) => body({ type: 'tool_result', content: [{ type: 'image', source: { type: 'base64', data } }] }),
      ofMessages,
    ],
    ['inlineData', (data) => ({ contents: [{ parts: [{ inlineData: { data } }] }] }), gemini.addresses],
    [
      'inlineData of a result',
      (data) => ({ contents: [{ parts: [{ functionResponse: { parts: [{ inlineData: { data } }] } }] }] }),
      gemini.addresses,
    ],
  ]

  test.each(places)('%s', (_, request, known) => {
    const texts = [
      mp3,
      '//uQxAAA',
      '//8/',
      '//4AaABlAGwAbABvAA==',
      `//uQ\r\nxAAA\r\n`,
      'file',
      'data',
      '/9j/4AAQ',
      '__-_',
    ]
    // As long as no address is.
    texts.push('/'.repeat(10_000), `//uQ${'A'.repeat(1_000_000)}`)
    for (const data of texts) {
      const asked = request(data)
      expect(checkAddresses(asked, known, rules)).toMatchObject({ addresses: [], warnings: [] })
      expect(asked).toEqual(request(data))
    }
  })

  test.each(places.slice(0, 5))('%s may not be an address that is not allowed', (_, request, known) => {
    for (const address of [
      'http://127.0.0.1/x',
      '//127.0.0.1/x',
      '//2130706433/x',
      ' //0x7f000001',
      '//localhost/x',
      '\\\\localhost\\x',
      '//good.example/x',
      'file:///etc/passwd',
    ])
      expect(refusal(request(address), [], known)).toMatchObject(['url_not_allowed', expect.anything()])
  })

  test('an address in place of a file is one for every protocol', () => {
    expect(fileSource({ file_data: 'https://good.example/x.pdf' }, 'file')).toEqual({
      kind: 'url',
      url: 'https://good.example/x.pdf',
    })
  })
})

describe('S3 an address where nobody expects one', () => {
  test.each<[string, JsonObject]>([
    ['messages[0].content[1].doc_url', body({ type: 'text', text: 'x', doc_url: 'http://127.0.0.1/x' })],
    ['messages[0].content[1].image.href', body({ type: 'image', image: { href: ' http:127.0.0.1/x' } })],
    ['mm_urls', { mm_urls: ['a', 'ht\ttp://127.0.0.1/x'] }],
  ])('is dropped at %s, and named', (param, request) => {
    const { addresses, warnings } = checkAddresses(request, ofChat, rules)
    expect(addresses).toEqual([])
    expect(warnings.map((warning) => warning.param)).toEqual([param])
    expect(JSON.stringify(request)).not.toContain('127.0.0.1')
  })

  test('is refused where an MCP server is named', () => {
    const tools = [{ type: 'mcp', server_label: 'a', server_url: 'http://127.0.0.1/mcp' }]
    expect(refusal({ tools })).toEqual(['url_not_allowed', 'tools[0].server_url'])
  })

  test('is refused where the id of a file may be one', () => {
    const file = body({ type: 'file', file: { file_id: 'file:///etc/passwd' } })
    expect(refusal(file)).toEqual(['url_not_allowed', 'messages[0].content[1].file.file_id'])
  })

  test('is left to the model where it is words', () => {
    const request: JsonObject = {
      messages: [
        { role: 'user', content: 'http://127.0.0.1/' },
        { role: 'assistant', content: null, tool_calls: [{ function: { arguments: 'http://127.0.0.1/' } }] },
        { role: 'tool', content: [{ type: 'text', text: 'http://127.0.0.1/' }] },
      ],
      tools: [{ type: 'function', function: { parameters: { $id: 'http://localhost/schema' } } }],
      metadata: { from: 'http://localhost/' },
    }
    expect(refusal(request)).toBeUndefined()
    const items = [{ type: 'local_shell_call', action: { command: ['curl', 'http://localhost:3000'] } }]
    expect(refusal({ input: items }, [], ofResponses)).toBeUndefined()
  })
})

describe('S2 fields that name a destination', () => {
  test.each([
    'api_base',
    'base_url',
    'baseUrl',
    'api-base',
    'custom_host',
    'azure_endpoint',
    'aws_bedrock_runtime_endpoint',
    'endpoint',
    'host',
    'proxy',
    'webhook_url',
    'callbacks',
    'sagemaker_base_url',
  ])('%s is dropped, and named', (field) => {
    const request: JsonObject = {
      model: 'a/b',
      [field]: 'evil.example:8080',
      extra_body: { [field]: 'x', keep: 1 },
    }
    const { warnings } = checkAddresses(request, ofChat, rules)
    expect(request).toEqual({ model: 'a/b', extra_body: { keep: 1 } })
    expect(warnings.map(({ param }) => param)).toEqual([field, `extra_body.${field}`])
  })

  test.each(['prompt_cache_key', 'top_k', 'chat_template_kwargs', 'ghost', 'based_on'])(
    '%s is not',
    (field) => {
      const request: JsonObject = { [field]: { host: 'x' } }
      expect(checkAddresses(request, ofChat, rules).warnings).toEqual([])
      expect(request).toEqual({ [field]: { host: 'x' } })
    },
  )
})
