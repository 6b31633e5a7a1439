// A provider at its worst, in a process of its own: what its answers weigh must not slow the watch down. The model's
// name says what it sends. Prints its port, and lives as long as its standard input.

const encoder = new TextEncoder()
const megabyte = 1024 ** 2

const chunkFields = { id: 'chatcmpl-hostile', object: 'chat.completion.chunk', created: 1, model: 'm' }
const usage = { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 }

function eventOf(delta: object, finish: string | null = null, more: object = {}): string {
  const choices = [{ index: 0, delta, finish_reason: finish }]
  return `data: ${JSON.stringify({ ...chunkFields, choices, ...more })}\n\n`
}

const start = eventOf({ role: 'assistant', content: '' })
const ending = endingAfter(usage.completion_tokens)

/** The end of a stream whose output counts so many tokens. */
function endingAfter(completion_tokens: number): string {
  const counted = { ...usage, completion_tokens, total_tokens: usage.prompt_tokens + completion_tokens }
  return `${eventOf({}, 'stop')}data: ${JSON.stringify({ ...chunkFields, choices: [], usage: counted })}\n\ndata: [DONE]\n\n`
}

/** A whole completion whose message, or whose choice, holds more. */
function completion(message: object, choice: object = {}): string {
  const choices = [
    { index: 0, message: { role: 'assistant', content: 'x', ...message }, finish_reason: 'stop', ...choice },
  ]
  return JSON.stringify({ ...chunkFields, object: 'chat.completion', choices, usage })
}

function nested(bytes: number, open = '[', close = ']'): string {
  const depth = Math.floor(bytes / (open.length + close.length))
  return open.repeat(depth) + close.repeat(depth)
}

/** The `most` that fit into so many bytes, with commas between. */
function list(item: string, bytes: number): string {
  return `[${Array(Math.floor(bytes / (item.length + 1)))
    .fill(item)
    .join(',')}]`
}

const logprob = JSON.stringify({
  token: 'river',
  logprob: -0.25,
  bytes: [114, 105, 118, 101, 114],
  top_logprobs: Array.from({ length: 20 }, () => ({
    token: 'river',
    logprob: -0.25,
    bytes: [114, 105, 118, 101, 114],
  })),
})

const callDelta = (text: string) =>
  eventOf({
    tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: text } }],
  })

const streams: Readonly<Record<string, () => string>> = {
  'deep-event': () => `${start}data: {"choices":[],"x":${nested(6 * megabyte)}}\n\n`,
  'deep-objects': () => `${start}data: {"choices":[],"x":${nested(6 * megabyte, '{"a":', '}')}\n\n`,
  'wide-event': () => `${start}data: {"choices":[],"x":${list('{}', 6 * megabyte)}}\n\n${ending}`,
  'full-event': () => `${start}data: {"choices":[],"x":${list('{"a":1}', megabyte / 2)}}\n\n${ending}`,
  'long-event': () => start + eventOf({ content: 'w'.repeat(7 * megabyte) }) + ending,
  'tiny-events': () => start + eventOf({ content: 'w' }).repeat(20_000) + ending,
  'tiny-odd-events': () =>
    start +
    Array.from({ length: 20_000 }, (_, at) => eventOf({ content: 'w' }, null, { [`k${at}`]: at })).join('') +
    ending,
  'tiny-calls': () =>
    start +
    callDelta('{"a') +
    eventOf({ tool_calls: [{ index: 0, function: { arguments: 'w' } }] }).repeat(20_000) +
    ending,
  'many-calls': () =>
    start +
    Array.from({ length: 5_000 }, (_, index) =>
      eventOf({
        tool_calls: [
          { index, id: `call_${index}`, type: 'function', function: { name: 'f', arguments: '{}' } },
        ],
      }),
    ).join('') +
    ending,
  comments: () => start + ': still here\n\n'.repeat(100_000) + ending,
  'blank-lines': () => `${start}${'\n'.repeat(4 * megabyte)}${ending}`,
  stalled: () => start + eventOf({ content: 'weir '.repeat(20) }).repeat(800) + endingAfter(20 * 800),
}

const wholes: Readonly<Record<string, () => string>> = {
  'deep-whole': () => completion({}).replace('{', `{"x":${nested(6 * megabyte)},`),
  'wide-whole': () => completion({}).replace('{', `{"x":${list('{}', 18 * megabyte)},`),
  'logprobs-whole': () =>
    completion({}).replace(
      '"finish_reason"',
      `"logprobs":{"content":${list(logprob, 10 * megabyte)}},"finish_reason"`,
    ),
  'long-whole': () => completion({ content: 'Where the river runs. '.repeat((18 * megabyte) / 22) }),
  'calls-whole': () =>
    completion({
      tool_calls: Array.from({ length: 40_000 }, (_, at) => ({
        id: `call_${at}`,
        type: 'function',
        function: { name: 'f', arguments: '{"a":1}' },
      })),
    }),
  'deep-arguments': () =>
    completion({
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'f', arguments: `{"a":${nested(6 * megabyte)}}` },
        },
      ],
    }),
  small: () => completion({}),
}

const made = new Map<string, Uint8Array<ArrayBuffer>>()

/** Made once, before it is sent: to make it takes longer than to read it. */
function bytesOf(model: string): Uint8Array<ArrayBuffer> {
  const known = made.get(model)
  if (known) return known
  const bytes = encoder.encode((streams[model] ?? wholes[model])!())
  made.set(model, bytes)
  return bytes
}

/** Events at a steady pace, each with its number and the time it was sent. */
function paced(events: number, everyMs: number): ReadableStream<Uint8Array> {
  let sent = 0
  let timer: ReturnType<typeof setInterval>
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(start))
      timer = setInterval(() => {
        const now = performance.timeOrigin + performance.now()
        controller.enqueue(encoder.encode(eventOf({ content: `${sent++}@${now.toFixed(2)};` })))
        if (sent < events) return
        clearInterval(timer)
        controller.enqueue(encoder.encode(ending))
        controller.close()
      }, everyMs)
    },
    cancel: () => clearInterval(timer),
  })
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  maxRequestBodySize: 64 * megabyte,
  async fetch(request) {
    const text = await request.text()
    // Of large prompts nothing is read but the name.
    const model = /"model":"([^"]+)"/.exec(text)?.[1] ?? ''
    if (request.url.endsWith('/embeddings')) {
      const { input } = JSON.parse(text) as { input: string[] }
      const data = input.map((_, index) => ({
        object: 'embedding',
        index,
        embedding: Array(1_536).fill(0.123456789),
      }))
      return Response.json({ object: 'list', data, model, usage: { prompt_tokens: 4, total_tokens: 4 } })
    }
    if (model === 'paced') {
      const [, events, everyMs] = /(\d+) events every (\d+) ms/.exec(text) ?? []
      return new Response(paced(Number(events), Number(everyMs)), {
        headers: { 'content-type': 'text/event-stream' },
      })
    }
    // A question in another protocol's words names no model here.
    if (!streams[model] && !wholes[model]) return Response.json({ error: 'no such model' }, { status: 404 })
    const type = streams[model] ? 'text/event-stream' : 'application/json'
    return new Response(bytesOf(model), { headers: { 'content-type': type } })
  },
})
for (const model of [...Object.keys(streams), ...Object.keys(wholes)]) bytesOf(model)
console.log(`port ${server.port}`)
// Gone with whoever started it.
for await (const _ of Bun.stdin.stream());
process.exit(0)
export {}
