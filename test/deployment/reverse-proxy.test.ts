// The guide's proxy configurations, run by the real proxies: streams come through as they are made, below a path too,
// and clients have the addresses that they come from.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { resolve } from 'node:path'
import OpenAI from 'openai'
import { freePort, type ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

/** The first block of a page in this language. */
function snippet(language: string, name = 'proxy.md'): string {
  const page = readFileSync(resolve(import.meta.dir, '../../src/guide', name), 'utf8')
  const found = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page)?.[1]
  if (found === undefined) throw new Error(`the page has no ${language} block`)
  return found
}

interface Proxy {
  readonly program: string
  /** Writes the configuration and gives the command that runs the proxy in the foreground. */
  command(home: TempDir, config: string): readonly string[]
}

const proxies: readonly Proxy[] = [
  {
    program: 'nginx',
    command(home, config) {
      for (const name of ['logs', 'body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(home.join(name))
      const paths = ['client_body_temp_path body', 'proxy_temp_path proxy', 'fastcgi_temp_path fastcgi']
      const more = ['uwsgi_temp_path uwsgi', 'scgi_temp_path scgi', 'access_log off']
      const http = [...paths, ...more].map((line) => `${line};`).join('\n')
      const file = home.join('nginx.conf')
      writeFileSync(
        file,
        `daemon off; user root; pid nginx.pid; error_log stderr; events {} http { ${http}\n${config} }`,
      )
      return ['nginx', '-p', home.path, '-c', file]
    },
  },
  {
    program: 'caddy',
    command(home, config) {
      const file = home.join('Caddyfile')
      writeFileSync(file, `{\n  admin off\n}\n${config}`)
      return ['caddy', 'run', '--adapter', 'caddyfile', '--config', file]
    },
  },
]

let weir: ServedWeir
beforeAll(async () => {
  weir = await serveWeir({ config: 'server: { trusted_proxies: [127.0.0.1] }' })
}, 30_000)
afterAll(() => weir?.stop())

describe.each(proxies.filter(({ program }) => Bun.which(program) !== null))('behind $program', (proxy) => {
  const home = tempDir('weir-proxy-')
  let origin = ''
  let child: Bun.Subprocess | undefined

  beforeAll(async () => {
    const port = await freePort()
    origin = `http://127.0.0.1:${port}`
    const config = snippet(proxy.program === 'nginx' ? 'nginx' : 'caddy')
      .replaceAll('127.0.0.1:8787', `127.0.0.1:${weir.port}`)
      .replace('listen 8080', `listen 127.0.0.1:${port}`)
      .replace(':8080 {', `http://127.0.0.1:${port} {`)
    child = start(proxy, home, config)
    await answering(`${origin}/healthz`, child, home.join('log'))
  }, 30_000)
  afterAll(async () => {
    child?.kill()
    await child?.exited
    home.remove()
  })

  test.each(['/v1', '/weir/v1'])(
    '%s streams each event when it is made',
    async (path) => {
      const client = new OpenAI({ apiKey: weir.key, baseURL: origin + path, maxRetries: 0 })
      const stream = await client.chat.completions.create({
        model: 'sim/slow',
        messages: [{ role: 'user', content: 'Take your time.' }],
        stream: true,
      })
      const arrivals = new Set<number>()
      let text = ''
      for await (const chunk of stream) {
        const delta = chunk.choices[0]?.delta.content
        if (!delta) continue
        text += delta
        arrivals.add(Math.round(performance.now() / 10))
      }
      expect(text).toMatch(/^slow( slow)+$/)
      // A buffered stream arrives all at once, however many pieces it was made in.
      expect(arrivals.size).toBeGreaterThan(3)
    },
    30_000,
  )

  test.each(['/v1', '/weir/v1'])('%s sees clients at their own addresses', async (path) => {
    const owner = ['--account', 'owner@localhost']
    const { stdout } = await weir.command('keys', 'create', ...owner, '--networks', '10.1.0.0/16')
    const claimed = { authorization: `Bearer ${stdout.trim()}`, 'x-forwarded-for': '10.1.2.3' }
    expect(await statusFrom('127.0.0.2', `${origin}${path}/key`, claimed)).toBe(403)
    expect(await statusFrom('127.0.0.1', `${weir.origin}/v1/key`, claimed)).toBe(200)
  })
})

function start(proxy: Proxy, home: TempDir, config: string): Bun.Subprocess {
  const env = { PATH: process.env['PATH'] ?? '', HOME: home.path, XDG_DATA_HOME: home.path }
  const command = proxy.command(home, config)
  return Bun.spawn([...command], { env, stdout: 'ignore', stderr: Bun.file(home.join('log')) })
}

describe.each(proxies.filter(({ program }) => Bun.which(program) !== null))(
  '$program between two gateways',
  (proxy) => {
    test('sends a key to one of them for as long as that answers', async () => {
      const home = tempDir('weir-balancer-')
      const [one, two] = ['one', 'two'].map((name) =>
        Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(name) }),
      )
      const port = await freePort()
      const ofPage = snippet(proxy.program, 'postgresql.md')
        .replace('10.0.0.11:8787', `127.0.0.1:${one!.port}`)
        .replace('10.0.0.12:8787', `127.0.0.1:${two!.port}`)
        .replace(':8080 {', `http://127.0.0.1:${port} {`)
      const server = snippet(proxy.program)
        .replaceAll('127.0.0.1:8787', 'weir')
        .replace('listen 8080', `listen 127.0.0.1:${port}`)
      const child = start(proxy, home, proxy.program === 'nginx' ? `${ofPage}\n${server}` : ofPage)
      try {
        const origin = `http://127.0.0.1:${port}`
        await answering(origin, child, home.join('log'))
        const ask = async (n: number) => {
          const answer = await fetch(`${origin}/v1/key`, { headers: { authorization: `Bearer ${n}` } })
          return answer.text()
        }
        const keys = Array.from({ length: 30 }, (_, n) => n)
        const first = await Promise.all(keys.map(ask))
        expect(new Set(first)).toEqual(new Set(['one', 'two']))
        expect(await Promise.all(keys.map(ask))).toEqual(first)
        await two!.stop(true)
        expect(new Set(await Promise.all(keys.map(ask)))).toEqual(new Set(['one']))
      } finally {
        child.kill()
        await child.exited
        await one!.stop(true)
        home.remove()
      }
    }, 30_000)
  },
)

/** The status of a GET from an address of this machine. */
function statusFrom(localAddress: string, url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const got = request(url, { localAddress, headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    got.on('error', reject)
    got.end()
  })
}

async function answering(url: string, child: Bun.Subprocess, log: string): Promise<void> {
  const deadline = performance.now() + 20_000
  for (;;) {
    const ok = await fetch(url).then(
      (response) => response.ok,
      () => false,
    )
    if (ok) return
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`the proxy did not start:\n${readFileSync(log, 'utf8')}`)
    await Bun.sleep(20)
  }
}
