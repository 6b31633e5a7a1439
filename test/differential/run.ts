// Two executables, one provider: `bun test/differential/run.ts OLD NEW [--every 1]`. Every recording is served to both,
// whole, in small pieces and cut off, to clients of three protocols: same answers, same requests to the provider, same
// receipts, or it says where they differ. For changes that must change nothing.

import { parseArgs } from 'node:util'
import { recordedHosts } from '../protocols/recorded-hosts.ts'
import { type Case, cases } from '../support/recordings.ts'
import { everyBytes, replayOf } from '../support/replay-server.ts'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { every: { type: 'string', default: '1' } },
})
const [before, after] = positionals
if (before === undefined || after === undefined) throw new Error('bun test/differential/run.ts OLD NEW')

const recorded = recordedHosts
  .flatMap((host) => cases(host.folder).map((one) => ({ host, one })))
  .filter((_, at) => at % Number(flags.every) === 0)
  .map((each, at) => ({ ...each, id: `c${at}` }))

/** What becomes of an answer on its way; the position of its end, and the size of its pieces. */
const faults = {
  whole: (body: Uint8Array) => [body],
  pieces: (body: Uint8Array) => everyBytes(Math.max(48, Math.ceil(body.length / 40)))(body),
  'cut in the middle': (body: Uint8Array) => [body.subarray(0, body.length >> 1)],
  'cut at its end': (body: Uint8Array) => [body.subarray(0, -9)],
} as const
type Fault = keyof typeof faults

const messages = [{ role: 'user', content: 'Say something about the river, please.' }]
const tools = [{ name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }]
const clients = [
  {
    path: '/chat/completions',
    body: { messages, max_tokens: 500, tools: tools.map((each) => ({ type: 'function', function: each })) },
  },
  {
    path: '/messages',
    body: {
      messages,
      max_tokens: 500,
      tools: tools.map(({ name, parameters }) => ({ name, input_schema: parameters })),
    },
  },
  {
    path: '/responses',
    body: {
      input: messages[0]!.content,
      store: false,
      tools: tools.map((each) => ({ type: 'function', ...each })),
    },
  },
] as const

let fault: Fault = 'whole'
const seen: Record<string, string[]> = { old: [], new: [] }
const byId = new Map(recorded.map(({ id, one }) => [id, one]))
const provider = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const [, side = '', id = ''] = pathname.split('/')
    seen[side]?.push(`${pathname.slice(side.length + 1)} ${await request.text()}`)
    const answer = replayOf(byId.get(id)!)
    return new Response(bodyOf(faults[fault](answer.body)), answer)
  },
})

function bodyOf(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream({
    async pull(controller) {
      await new Promise((resolve) => setImmediate(resolve))
      const piece = pieces[at++]
      if (piece === undefined) controller.close()
      else if (piece.length > 0) controller.enqueue(piece)
    },
  })
}

/** Without what differs from call to call whoever serves it: ids, whose call it was, times, addresses, and how long it took. */
function settled(text: string): string {
  return text
    .replace(/[0-9a-f]{24,32}/g, 'ID')
    .replace(/acct_[0-9a-f]+/g, 'ACCOUNT')
    .replace(/"key":"\w+"/g, '"key":"KEY"')
    .replace(/127\.0\.0\.1:\d+(\/(?:old|new))?/g, 'HERE')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/"(created|created_at|completed_at)":\d+/g, '"$1":0')
    .replace(/"((?:\w+_)?ms)":\d+/g, '"$1":0')
}

const told = ['content-type', 'x-weir-provider', 'x-weir-model', 'x-weir-warnings', 'retry-after']

/** All that a client and its bill show of one call. */
async function call(
  weir: RunningWeir,
  side: string,
  model: string,
  client: (typeof clients)[number],
  stream: boolean,
) {
  seen[side] = []
  const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
  const response = await fetch(weir.baseUrl + client.path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model, ...client.body, stream }),
  })
  const text = await response.text().catch((error: unknown) => `broke off: ${String(error)}`)
  const id = response.headers.get('x-request-id') ?? ''
  const receipt = await fetch(`${weir.baseUrl}/generation?id=${id}`, { headers }).then((each) => each.text())
  const { status } = response
  const shown = told.map((name) => `${name}: ${response.headers.get(name)}`)
  return settled([status, ...shown, ...(seen[side] ?? []), text, receipt].join('\n'))
}

function configOf(side: string): string {
  return JSON.stringify({
    limits: { attempts: 1 },
    timeouts: { first_byte_ms: 5_000, first_byte_reasoning_ms: 5_000, gap_ms: 5_000 },
    bootstrap: { credit_usd: '100000' },
    providers: Object.fromEntries(
      recorded.map(({ id, host }) => [
        id,
        {
          protocol: host.protocol,
          base_url: `http://127.0.0.1:${provider.port}/${side}/${id}`,
          api_key: 'differential',
        },
      ]),
    ),
    models: recorded.map(({ id }) => ({
      id: `${id}/m`,
      price: { input: '1', output: '2', cache_read: '0.5' },
      context_length: 200_000,
      max_output_tokens: 1_000,
    })),
  })
}

function faultsOf({ status, streamed }: Case): readonly Fault[] {
  if (status >= 400) return ['whole']
  return streamed
    ? ['whole', 'pieces', 'cut in the middle', 'cut at its end']
    : ['whole', 'cut in the middle']
}

const [old, now] = await Promise.all([
  startWeir({ config: configOf('old'), command: [before] }),
  startWeir({ config: configOf('new'), command: [after] }),
])
let calls = 0
let differing = 0
try {
  for (const { id, one, host } of recorded) {
    for (const each of faultsOf(one)) {
      fault = each
      for (const client of clients) {
        calls += 1
        const [was, is] = await Promise.all([
          call(old, 'old', `${id}/m`, client, one.streamed),
          call(now, 'new', `${id}/m`, client, one.streamed),
        ])
        if (was === is) continue
        differing += 1
        const at = [...was].findIndex((character, place) => character !== is[place])
        console.log(`${host.folder}/${one.id}, ${each}, ${client.path}, at ${at}:`)
        console.log(`  old …${was.slice(Math.max(0, at - 80), at + 160)}`)
        console.log(`  new …${is.slice(Math.max(0, at - 80), at + 160)}`)
      }
    }
  }
  console.log(`${recorded.length} recordings, ${calls} calls: ${differing} differ`)
  if (differing > 0) process.exitCode = 1
} finally {
  await Promise.all([old.stop(), now.stop()])
  await provider.stop(true)
}
