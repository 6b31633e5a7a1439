// The reference: the least a proxy on this runtime can do, `Bun.serve` and `fetch`, bytes passed through.
// Runs as a process: `bun bench/proxy.ts <upstream origin>`; prints its port.

const upstream = process.argv[2]
if (upstream === undefined) throw new Error('usage: bun bench/proxy.ts <upstream origin>')

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const answer = await fetch(upstream + pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'accept-encoding': 'identity' },
      body: await request.text(),
      signal: request.signal,
    })
    return new Response(answer.body, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type') ?? 'application/json' },
    })
  },
})
console.log(`port ${server.port}`)

// Without an import or export the type checker would take this file for a script, its names for global.
export {}
