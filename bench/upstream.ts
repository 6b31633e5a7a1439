// The provider of the benches: fixed answers, as cheap as they can be, also in the protocols of Claude and Gemini. Runs
// as a process; prints its port.
// A model named `drip` streams one chunk each 50 ms, until `DRIP_CHUNKS` are out (default 60).

import { streams } from './translate-streams.ts'

const usage = {
  prompt_tokens: 20,
  completion_tokens: 100,
  total_tokens: 120,
  prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
}
const head = { id: 'chatcmpl-bench', created: 1_767_225_600, model: 'fixed' }

const whole = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'word '.repeat(40).trim(), refusal: null, annotations: [] },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage,
})

const frame = (fields: object) =>
  `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...fields })}\n\n`
const delta = (content: object, finish: string | null) =>
  frame({ choices: [{ index: 0, delta: content, logprobs: null, finish_reason: finish }], usage: null })
const first = delta({ role: 'assistant', content: '' }, null)
const word = delta({ content: 'word ' }, null)
const last = delta({}, 'stop') + frame({ choices: [], usage }) + 'data: [DONE]\n\n'

const encoder = new TextEncoder()
/** 100 events: 97 words between the opening and the two closing frames, in ten writes. */
const writes = [first + word.repeat(9), ...Array<string>(8).fill(word.repeat(11)), last].map((text) =>
  encoder.encode(text),
)

/** As many words in another protocol, in as many writes. */
function otherWrites(protocol: 'anthropic-messages' | 'gemini'): Uint8Array[] {
  const events = streams[protocol]({ texts: Array<string>(97).fill('word '), calls: 0 })
  const perWrite = Math.ceil(events.length / writes.length)
  return writes.map((_, at) => Buffer.concat(events.slice(at * perWrite, (at + 1) * perWrite)))
}
const claude = otherWrites('anthropic-messages')
const gemini = otherWrites('gemini')

function fixedStream(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(pieces[at++]!)
      if (at === pieces.length) controller.close()
    },
  })
}

/** Streams that are being dripped; one timer serves them all. */
const dripping = new Set<{ left: number; controller: ReadableStreamDefaultController<Uint8Array> }>()
const drop = encoder.encode(word)
const drips = Number(process.env['DRIP_CHUNKS'] ?? 60)

setInterval(() => {
  for (const stream of dripping) {
    stream.left -= 1
    if (stream.left > 0) stream.controller.enqueue(drop)
    else {
      dripping.delete(stream)
      stream.controller.enqueue(encoder.encode(last))
      stream.controller.close()
    }
  }
}, 50)

function drippedStream(): ReadableStream<Uint8Array> {
  let entry: { left: number; controller: ReadableStreamDefaultController<Uint8Array> }
  return new ReadableStream({
    start(controller) {
      entry = { left: drips, controller }
      dripping.add(entry)
      controller.enqueue(encoder.encode(first))
    },
    cancel() {
      dripping.delete(entry)
    },
  })
}

/** Some gateways serve no model before they have seen this list. */
const models = JSON.stringify({
  object: 'list',
  data: [{ id: 'fixed', object: 'model', created: head.created, owned_by: 'bench' }],
})

const json = { headers: { 'content-type': 'application/json' } }
const events = { headers: { 'content-type': 'text/event-stream' } }

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    if (request.method === 'GET') return new Response(models, json)
    const body = await request.text()
    if (request.url.endsWith('/messages')) return new Response(fixedStream(claude), events)
    if (request.url.includes('/models/')) return new Response(fixedStream(gemini), events)
    if (!body.includes('"stream":true')) return new Response(whole, json)
    return new Response(/"model":"[^"]*drip"/.test(body) ? drippedStream() : fixedStream(writes), events)
  },
})
console.log(`port ${server.port}`)
