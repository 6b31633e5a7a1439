// Opens many streams at once and counts what arrives. Runs as a process:
// `bun bench/streams.ts <url> <key> <model> <count>`; prints `open` when all have begun, and a JSON line at the end.

const [url, key, model, count] = process.argv.slice(2)
if (url === undefined || key === undefined || model === undefined || count === undefined) {
  throw new Error('usage: bun bench/streams.ts <url> <key> <model> <count>')
}

const body = JSON.stringify({
  model,
  stream: true,
  messages: [{ role: 'user', content: 'drip' }],
  max_tokens: 128,
})
const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
const total = Number(count)
let begun = 0
let complete = 0
let events = 0
const failures = new Map<string, number>()

async function open(): Promise<void> {
  const response = await fetch(url!, { method: 'POST', headers, body })
  if (!response.ok || response.body === null) throw new Error(`status ${response.status}`)
  let tail = ''
  let isFirst = true
  const decoder = new TextDecoder()
  for await (const bytes of response.body) {
    if (isFirst && ++begun === total) console.log('open')
    isFirst = false
    const text = decoder.decode(bytes, { stream: true })
    for (let at = text.indexOf('data: '); at >= 0; at = text.indexOf('data: ', at + 6)) events += 1
    tail = (tail + text).slice(-32)
  }
  if (tail.endsWith('data: [DONE]\n\n')) complete += 1
  else throw new Error('cut')
}

const started = performance.now()
await Promise.all(
  Array.from({ length: total }, () =>
    open().catch((thrown: unknown) => {
      const reason = thrown instanceof Error ? thrown.message : String(thrown)
      failures.set(reason, (failures.get(reason) ?? 0) + 1)
    }),
  ),
)
const seconds = (performance.now() - started) / 1000
console.log(JSON.stringify({ begun, complete, events, seconds, failures: Object.fromEntries(failures) }))
process.exit(0)

// Without an import or export the type checker would take this file for a script, its names for global.
export {}
