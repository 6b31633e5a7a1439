// S3: no field of a request makes anybody in the operator's network fetch a private address.

import { expect, test } from 'bun:test'
import { refusePrivateMedia } from '../../src/chat/media-urls.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors.ts'

const body = (part: JsonObject): JsonObject => ({
  messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, part] }],
})
const image = (url: string) => body({ type: 'image_url', image_url: { url } })

function imageFrom(url: string): JsonObject {
  return { type: 'image', source: { type: 'url', url } }
}

function refusal(request: JsonObject, allowHosts: readonly string[] = []): unknown {
  try {
    refusePrivateMedia(request, allowHosts)
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
  expect(refusal(body(part))).toEqual(['url_not_allowed', param])
})

test.each([
  ['input[0].content[0].image_url', 'content', { type: 'input_image', image_url: 'http://127.0.0.1/x' }],
  ['input[0].content[0].file_url', 'content', { type: 'input_file', file_url: 'http://127.0.0.1/x' }],
  ['input[0].output[0].image_url', 'output', { type: 'input_image', image_url: 'http://127.0.0.1/x' }],
])('so is what stands in %s of a response', (param, field, part) => {
  expect(refusal({ input: [{ [field]: [part] }] })).toEqual(['url_not_allowed', param])
})

test.each(['https://example.com/x.png', 'data:image/png;base64,AAAA', 'gs://bucket/x.png'])(
  '%s may go on',
  (url) => {
    expect(refusal(image(url))).toBeUndefined()
  },
)

test('a found page names where it is from, and nobody fetches it', () => {
  const page = { type: 'search_result', source: 'http://127.0.0.1/x', title: 'x', content: [] }
  expect(refusal(body(page))).toBeUndefined()
})

test('what the operator allows may be private', () => {
  expect(refusal(image('http://127.0.0.1:8080/x.png'), ['127.0.0.1:8080'])).toBeUndefined()
})

test('requests without parts are none of its business', () => {
  expect(refusal({ messages: [{ role: 'user', content: 'http://127.0.0.1/' }] })).toBeUndefined()
  expect(refusal({ input: 'http://127.0.0.1/' })).toBeUndefined()
})
