// What helps to run Weir as a service: the systemd unit, the health check, completions, a message from standard input.

import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { tempDir } from '../support/tmp.ts'
import { run } from './run.ts'

const machine = { cwd: '/nowhere' }

describe('weir service print', () => {
  test('prints a unit that starts this executable with its data directory, and nothing but the unit', async () => {
    using dir = tempDir()
    writeFileSync(dir.join('100%.yaml'), '')
    const words = ['--exec', '/opt/my weir/weir', '--config', '100%.yaml', '--user', 'gate']
    const { code, out, err } = await run({ cwd: dir.path }, 'service', 'print', ...words)
    expect(code).toBe(0)
    expect(out).toContain(
      `ExecStart="/opt/my weir/weir" serve --config ${dir.path}/100%%.yaml --data-dir /var/lib/weir\n`,
    )
    expect(out).toContain('User=gate\n')
    expect(out).toContain('CapabilityBoundingSet=\n')
    for (const line of out.trim().split('\n')) expect(line).toMatch(/^(#.*|\[\w+\]|[A-Za-z]+=.*|)$/)
    expect(err).toContain('systemctl enable --now weir')
  })

  test('keeps the one capability that a port below 1024 needs', async () => {
    const { out } = await run(
      { ...machine, env: { WEIR_PORT: '443' } },
      'service',
      'print',
      '--exec',
      '/usr/local/bin/weir',
    )
    expect(out).toContain('AmbientCapabilities=CAP_NET_BIND_SERVICE\n')
  })

  test('waits for the calls in flight at least as long as the gateway does', async () => {
    const { out } = await run(
      { ...machine, env: { WEIR_TIMEOUTS_SHUTDOWN_MS: '120000' } },
      'service',
      'print',
      '--exec',
      '/usr/local/bin/weir',
    )
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(out)?.[1])).toBeGreaterThan(120)
  })

  test.each([['relative/weir'], [undefined]])('refuses %p as the executable', async (path) => {
    const ran = await run(machine, 'service', 'print', ...(path === undefined ? [] : ['--exec', path]))
    expect(ran).toMatchObject({ code: 2, out: '' })
    expect(ran.err).toContain('--exec')
  })

  test('lets a data directory of its own be written, and says how to make it', async () => {
    const words = ['--exec', '/usr/bin/weir', '--data-dir', '/srv/a $b']
    const { out, err } = await run(machine, 'service', 'print', ...words)
    expect(out).toContain('ReadWritePaths="/srv/a $b"\n')
    expect(out).toContain('ExecStart=/usr/bin/weir serve --data-dir "/srv/a $$b"\n')
    expect(out).not.toContain('StateDirectory')
    expect(err).toContain("install -d -m 700 -o weir '/srv/a $b'\n")
  })
})

describe('weir healthcheck', () => {
  test.each([
    [200, 0],
    [503, 1],
  ])('an answer of %i is exit code %i', async (status, code) => {
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: ({ url }) => new Response('', { status: url.endsWith('/readyz') ? status : 404 }),
    })
    const ran = await run({ ...machine, env: { WEIR_PORT: String(server.port) } }, 'healthcheck')
    expect(ran.code).toBe(code)
    expect(ran.out).toBe(code === 0 ? 'ready\n' : '')
  })
})

describe('weir completions', () => {
  const words = async (shell: string, ...typed: string[]) => {
    const { out } = await run(machine, 'completions', shell)
    const script = `${out}\nCOMP_WORDS=(${typed.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${typed.length - 1}; _weir; echo "\${COMPREPLY[@]}"`
    const child = Bun.spawn(['bash', '-c', script], { stdout: 'pipe', stderr: 'inherit' })
    return (await new Response(child.stdout).text()).trim().split(' ')
  }

  test.each([
    [['weir', 'k'], ['keys']],
    [
      ['weir', 'keys', 'r'],
      ['resume', 'revoke', 'rotate'],
    ],
    [['weir', 'keys', 'create', '--acc'], ['--account']],
    // An option and its value before the word do not hide the command.
    [['weir', '--config', 'weir.yaml', 'keys', 'rot'], ['rotate']],
    [['weir', 'credits', 'grant', '--account', 'a', '--po'], ['--pool']],
  ])('in bash %p is completed to %p', async (typed, expected) => {
    expect(await words('bash', ...typed)).toEqual(expected)
  })

  test('zsh reads the same functions, fish has lines of its own', async () => {
    expect((await run(machine, 'completions', 'zsh')).out).toStartWith('autoload -U +X bashcompinit')
    const fish = (await run(machine, 'completions', 'fish')).out
    expect(fish).toContain("complete -c weir -n '__fish_seen_subcommand_from keys; and")
    for (const line of fish.trim().split('\n')) expect(line).toMatch(/^complete -c weir/)
  })

  test('another shell is refused with the names of those that are known', async () => {
    const ran = await run(machine, 'completions', 'tcsh')
    expect(ran).toMatchObject({ code: 2, out: '' })
    expect(ran.err).toContain('bash, zsh, fish')
  })
})
