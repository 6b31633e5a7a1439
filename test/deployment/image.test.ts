// The Dockerfile's final image, laid out by its own lines and entered with chroot: no daemon is needed to see whether the
// executable runs there, as the user and with the environment that the file names.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { tempDir } from '../support/tmp.ts'
import { freePort } from '../support/run-weir.ts'

const root = resolve(import.meta.dir, '../..')
const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
const [build = '', image = ''] = dockerfile.split('FROM scratch')

/** What an instruction of the final stage says. */
function instruction(name: string): string {
  const line = image.split('\n').find((candidate) => candidate.startsWith(`${name} `))
  if (line === undefined) throw new Error(`the Dockerfile has no ${name}`)
  return line.slice(name.length + 1)
}

const environment = Object.fromEntries(
  instruction('ENV')
    .split(' ')
    .map((pair) => pair.split('=', 2) as [string, string]),
)

async function run(command: readonly string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([...command], { cwd: root, env, stdout: 'pipe', stderr: 'pipe' })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { out, err, code }
}

const files = tempDir('weir-image-')
afterAll(() => files.remove())

const enter =
  'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && user=$1 && shift && exec chroot --userspec="$user" "$0" "$@"'

/** Runs a command inside the image, as its user, in a mount namespace of its own. */
const inside = (...command: string[]) => [
  'unshare',
  '--mount',
  'sh',
  '-c',
  enter,
  files.path,
  instruction('USER'),
  ...command,
]

// To enter another root is root's privilege: CI has it.
const asRoot = process.getuid?.() === 0 && process.platform === 'linux'

describe.if(asRoot)('the image', () => {
  beforeAll(async () => {
    const script = /RUN <<'EOS'\n([\s\S]*?)\nEOS\n/.exec(build)?.[1]
    expect(script).toContain('root=/rootfs')
    const laid = await run(['sh', '-c', script!.replace('root=/rootfs', `root=${files.path}`)], {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    })
    expect(laid).toMatchObject({ code: 0, err: '' })
  })

  test('holds the executable, the C library and nothing that could be called a shell', () => {
    expect(readdirSync(files.path).toSorted()).toEqual(
      ['data', 'dev', 'etc', 'lib', 'lib64', 'proc', 'tmp', 'weir'].filter(
        (name) => name !== 'lib64' || process.arch === 'x64',
      ),
    )
    expect(readdirSync(files.join('etc')).toSorted()).toEqual(['group', 'nsswitch.conf', 'passwd'])
    const user = Number(instruction('USER').split(':')[0])
    expect(user).toBeGreaterThan(0)
    expect(statSync(files.join('data'))).toMatchObject({ uid: user, gid: user })
  })

  test('runs the gateway as its user, is healthy by its own check, and keeps its data in the volume', async () => {
    expect(instruction('ENTRYPOINT')).toBe('["/weir"]')
    expect(instruction('CMD')).toBe('["serve"]')
    expect(instruction('VOLUME')).toBe(environment['WEIR_DATA_DIR']!)
    const port = await freePort()
    // Of the environment, the address alone is another: tests listen on loopback.
    const env = {
      ...environment,
      PATH: '/usr/sbin:/usr/bin:/bin',
      WEIR_HOST: '127.0.0.1',
      WEIR_PORT: String(port),
    }
    const server = Bun.spawn(inside('/weir', 'serve'), { env, stdout: 'pipe', stderr: 'pipe' })
    try {
      // A container's log is kept and read by others: the key is in a file of the volume.
      const key = await keyBehind(server.stdout, files.join('data', 'first-key.txt'))
      const check = JSON.parse(/^HEALTHCHECK .* CMD (\[.*\])$/m.exec(image)![1]!) as string[]
      const healthy = await run(inside(...check), env)
      expect(healthy).toEqual({ out: 'ready\n', err: '', code: 0 })

      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'sim/echo',
          messages: [{ role: 'user', content: 'Hello from an image.' }],
        }),
      })
      expect(await response.json()).toMatchObject({
        choices: [{ message: { content: 'Hello from an image.' } }],
      })
      const database = statSync(files.join('data', 'weir.db'))
      expect(database).toMatchObject({ uid: 65_532, mode: 0o100600 })
    } finally {
      server.kill('SIGTERM')
      expect(await server.exited).toBe(0)
    }
    const dead = await run(inside('/weir', 'healthcheck'), env)
    expect(dead).toMatchObject({ code: 1, out: '' })
    expect(dead.err).toContain('nothing answers')
  }, 60_000)
})

/** The owner's key, which the first run has written by the time that it prints its banner, which has none. */
async function keyBehind(output: ReadableStream<Uint8Array>, file: string): Promise<string> {
  let text = ''
  for await (const bytes of output) {
    text += Buffer.from(bytes).toString()
    if (!text.includes('configuration')) continue
    expect(text).not.toMatch(/sk-weir-|wt-weir-/)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    return /sk-weir-live-[\w-]+/.exec(readFileSync(file, 'utf8'))![0]
  }
  throw new Error(`no banner was printed:\n${text}`)
}
