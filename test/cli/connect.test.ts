// `weir connect`: what the Connect page shows, at the command line, and written where it belongs.

import { afterAll, describe, expect, test } from 'bun:test'
import { lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { connectedClients } from '../../src/connect/clients.ts'
import { tempDir } from '../support/tmp.ts'
import { json, run } from './run.ts'

const dir = tempDir('weir-connect-')
afterAll(() => dir.remove())
const home = (name: string) => {
  mkdirSync(dir.join(name), { recursive: true })
  return { cwd: dir.path, env: { HOME: dir.join(name), WEIR_LOCAL_SERVERS_DISCOVER: 'false' } }
}
const key = 'sk-weir-live-abc'

describe('weir connect', () => {
  test('lists every client of the Connect page', async () => {
    const listed = (await json(home('a'), 'connect')) as { id: string }[]
    expect(listed.map(({ id }) => id)).toEqual(connectedClients('').map(({ id }) => id))
  })

  test('prints what a client needs, with the key and the model it is given', async () => {
    const { out, code } = await run(home('a'), 'connect', 'curl', '--model', 'groq/llama-4')
    expect(code).toBe(0)
    expect(out).toContain('http://127.0.0.1:8787/v1/chat/completions')
    expect(out).toContain('Bearer $WEIR_API_KEY')
    expect(out).toContain('"model": "groq/llama-4"')
    expect((await run(home('a'), 'connect', 'curl', '--key', key)).out).toContain(`Bearer ${key}`)
  })

  test('writes a new file for its owner alone, and the printed rest names the variable', async () => {
    const machine = home('b')
    const { out, code } = await run(machine, 'connect', 'codex', '--model', 'sim/echo', '--write')
    expect(code).toBe(0)
    const path = `${machine.env.HOME}/.codex/config.toml`
    expect(Bun.TOML.parse(readFileSync(path, 'utf8'))).toMatchObject({
      model: 'sim/echo',
      model_providers: { weir: { base_url: 'http://127.0.0.1:8787/v1' } },
    })
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(out).toContain(`wrote ${path}`)
    expect(out).toContain('export WEIR_API_KEY=$WEIR_API_KEY')
  })

  test('has Gemini CLI use its variables, with the model, and leaves its other settings', async () => {
    const machine = home('g')
    const path = `${machine.env.HOME}/.gemini/settings.json`
    mkdirSync(`${machine.env.HOME}/.gemini`, { recursive: true })
    writeFileSync(path, '{"ui":{"theme":"dark"},"security":{"auth":{"selectedType":"oauth-personal"}}}')
    const { out, code } = await run(machine, 'connect', 'gemini-cli', '--model', 'openai/gpt-5', '--write')
    expect(code).toBe(0)
    expect(out).toContain('gemini --model openai/gpt-5')
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
      ui: { theme: 'dark' },
      security: { auth: { selectedType: 'gemini-api-key' } },
    })
  })

  test('keeps what is there, and the first copy of it', async () => {
    const machine = home('c')
    const path = `${machine.env.HOME}/.config/opencode/opencode.json`
    mkdirSync(`${machine.env.HOME}/.config/opencode`, { recursive: true })
    const mine = '{"theme":"dark"}'
    writeFileSync(path, mine)
    for (const model of ['sim/echo', 'sim/premium'])
      expect(await json(machine, 'connect', 'opencode', '--key', key, '--model', model, '--write')).toEqual({
        id: 'opencode',
        files: [{ path, backup: `${path}.before-weir` }],
      })
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
      theme: 'dark',
      provider: { weir: { options: { apiKey: key }, models: { 'sim/echo': {}, 'sim/premium': {} } } },
    })
    expect(readFileSync(`${path}.before-weir`, 'utf8')).toBe(mine)
  })

  test('writes through a link, which stays one', async () => {
    const machine = home('link')
    const [folder, real] = [`${machine.env.HOME}/.codex`, dir.join('config-elsewhere.toml')]
    mkdirSync(folder, { recursive: true })
    writeFileSync(real, 'approval_policy = "never"\n')
    symlinkSync(real, `${folder}/config.toml`)
    expect((await run(machine, 'connect', 'codex', '--write')).code).toBe(0)
    expect(lstatSync(`${folder}/config.toml`).isSymbolicLink()).toBe(true)
    expect(readFileSync(real, 'utf8')).toContain('model_providers.weir')
    expect(readFileSync(`${folder}/config.toml.before-weir`, 'utf8')).toBe('approval_policy = "never"\n')
  })

  test('keeps a file of comments alone', async () => {
    const machine = home('comments')
    const path = `${machine.env.HOME}/.continue/config.yaml`
    mkdirSync(`${machine.env.HOME}/.continue`, { recursive: true })
    writeFileSync(path, '# my models\n')
    expect((await run(machine, 'connect', 'continue', '--key', key, '--write')).code).toBe(0)
    expect(readFileSync(path, 'utf8')).toMatch(/^# my models\n[^]*sk-weir-live-abc/)
  })

  test('leaves a file that it does not understand as it is, and says what to add', async () => {
    const machine = home('d')
    const path = `${machine.env.HOME}/.config/opencode/opencode.json`
    mkdirSync(`${machine.env.HOME}/.config/opencode`, { recursive: true })
    const mine = '{ // mine\n}'
    writeFileSync(path, mine)
    const { code, err } = await run(machine, 'connect', 'opencode', '--key', key, '--write')
    expect(code).toBe(1)
    expect(err).toContain('stays as it is')
    expect(err).toContain('"baseURL": "http://127.0.0.1:8787/v1"')
    expect(readFileSync(path, 'utf8')).toBe(mine)
  })

  test.each([
    [['connect', 'emacs'], 2, 'there is no client "emacs"'],
    [['connect', '--write'], 2, '--write needs the name of a client'],
    [['connect', 'curl', '--write'], 1, 'has no file of its own'],
    [['connect', 'opencode', '--write'], 2, 'WEIR_API_KEY'],
    [['connect', 'curl', '--model', 'a"b'], 2, '--model takes an id'],
    [['connect', 'curl', '--key', 'a b'], 2, '--key takes a key'],
  ] as const)('%p is refused', async (argv, code, says) => {
    const ran = await run(home('e'), ...argv)
    expect(ran.code).toBe(code)
    expect(ran.err).toContain(says)
  })
})
