// The provider of the soak: `bun provider-child.ts <faults in a thousand> <seconds>`; prints its port. Its model decides
// the answer: `whole`, a short `stream`, or a `drip` of so many seconds. Faults come in turn: refused, limited, cut, garbage.

const [perMille = '50', dripSeconds = '30'] = process.argv.slice(2)

const usage = { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 }
const dripWords = 60
const dripPauseMs = (Number(dripSeconds) * 1000) / dripWords
const cutAfterWords = 3

const head = { id: 'chatcmpl-soak', created: 1_767_225_600, model: 'soak' }
const frame = (fields: object) =>
  `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...fields })}\n\n`
const delta = (content: object, finish: string | null) =>
  frame({ choices: [{ index: 0, delta: content, finish_reason: finish }] })
const opening = delta({ role: 'assistant', content: '' }, null)
const word = delta({ content: 'word ' }, null)
const closing = `${delta({}, 'stop')}${frame({ choices: [], usage })}data: [DONE]\n\n`
const whole = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'word word' }, finish_reason: 'stop' }],
  usage,
})
const eventStream = { headers: { 'content-type': 'text/event-stream' } }

type Fault = 'refused' | 'limited' | 'cut' | 'garbage'
const faults: readonly Fault[] = ['refused', 'limited', 'cut', 'garbage']
let asked = 0
let failed = 0

/** Spread evenly, so that every run has the same. */
function nextFault(): Fault | undefined {
  asked++
  if (Math.floor((asked * Number(perMille)) / 1000) === failed) return undefined
  return faults[failed++ % faults.length]
}

const encoder = new TextEncoder()

/** Words with pauses between them; a cut one ends without its closing. */
function words(count: number, pauseMs: number, cut: boolean): Response {
  let timer: Timer | undefined
  let left = cut ? Math.min(count, cutAfterWords) : count
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode(opening))
      const next = () => {
        if (left-- > 0) {
          controller.enqueue(encoder.encode(word))
          timer = setTimeout(next, pauseMs)
          return
        }
        if (!cut) controller.enqueue(encoder.encode(closing))
        controller.close()
      }
      next()
    },
    cancel: () => clearTimeout(timer),
  })
  return new Response(body, eventStream)
}

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { model, stream } = (await request.json()) as { model: string; stream?: boolean }
    const fault = nextFault()
    if (fault === 'refused') return Response.json({ error: { message: 'broken' } }, { status: 500 })
    if (fault === 'limited')
      return Response.json(
        { error: { message: 'slow down' } },
        { status: 429, headers: { 'retry-after': '0' } },
      )
    if (fault === 'garbage') return new Response('<html>', { headers: { 'content-type': 'text/html' } })
    if (model === 'drip') return words(dripWords, dripPauseMs, fault === 'cut')
    if (stream === true) return words(8, 5, fault === 'cut')
    return fault === 'cut'
      ? new Response(whole.slice(0, 40), { headers: { 'content-type': 'application/json' } })
      : new Response(whole, { headers: { 'content-type': 'application/json' } })
  },
})
console.log(server.port)
