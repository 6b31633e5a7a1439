// The guide tells the truth: its references are those of the program, its links lead somewhere, and every block of
// every page runs, one after the other as a reader would, against a gateway of its own.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { guideFiles, guidePage, guideParts } from '../../src/guide/pages.ts'
import { anchorOf } from '../../src/http/docs/docs.ts'
import { post } from '../support/call-gateway.ts'
import { run as runCommand } from '../cli/run.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { makeReferences } from './references.ts'

const root = resolve(import.meta.dir, '../..')
const pages = guideParts.flatMap((part) => part.pages)
const texts = [...pages, { name: 'README', text: readFileSync(join(root, 'README.md'), 'utf8') }]

interface Block {
  readonly page: string
  readonly language: string
  /** It is shown only: it installs something, or needs a file of the reader's. */
  readonly shown: boolean
  readonly text: string
}

const blocks: readonly Block[] = texts.flatMap(({ name, text }) =>
  [...text.matchAll(/^```(\w+)( shown)?\n([\s\S]*?)^```$/gm)].map(([, language, shown, body]) => ({
    page: name,
    language: language!,
    shown: shown !== undefined,
    text: body!,
  })),
)
const blocksIn = (language: string) =>
  blocks
    .filter((block) => block.language === language && !block.shown)
    .map((block) => [`${block.page}: ${block.text.split('\n')[0]}`, block] as const)

test('the references are those of the program: bun run guide:generate', async () => {
  for (const [file, text] of Object.entries(await makeReferences()))
    expect({ file, text: readFileSync(join(root, 'src/guide', file), 'utf8') }).toEqual({ file, text })
})

test('every link leads to a page, and to a section that it has', () => {
  const anchors = new Map(
    pages.map(({ name, text }) => [
      name,
      [...text.matchAll(/^##+ (.+)$/gm)].map(([, head]) => anchorOf(head!)),
    ]),
  )
  const wrong = texts.flatMap(({ name, text }) =>
    [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, href]) => href!)
      .filter((href) => !/^(https?:|\.github\/)/.test(href))
      .filter((href) => {
        const [to = '', anchor] = href
          .replace(/^(src\/guide\/)/, '')
          .replace(/\.md(?=#|$)/, '')
          .split('#')
        if (to === 'errors' || to.startsWith('api')) return false
        if (guideFiles[to] !== undefined) return false
        const page = to === '' ? name : to
        return !anchors.has(page) || (anchor !== undefined && !anchors.get(page)!.includes(anchor))
      })
      .map((href) => `${name}: ${href}`),
  )
  expect(wrong).toEqual([])
})

test('the board and the alerts ask for figures that there are', () => {
  const known = new Set(
    [...guidePage('metrics')!.text.matchAll(/^- \*\*`(\w+)`\*\*/gm)].map(([, name]) => name!),
  )
  const asked = Object.entries(guideFiles).flatMap(([file, { text }]) =>
    [...text.matchAll(/\b(?:weir|process)_\w+/g)].map(([name]) => ({
      file,
      name: name.replace(/_bucket$/, ''),
    })),
  )
  expect(asked.length).toBeGreaterThan(40)
  expect(asked.filter(({ name }) => !known.has(name))).toEqual([])
  const { panels } = JSON.parse(guideFiles['grafana.json']!.text) as { panels: unknown[] }
  expect(panels.length).toBeGreaterThan(20)
  const rules = Bun.YAML.parse(guideFiles['alerts.yaml']!.text) as {
    groups: { rules: Readonly<Record<string, unknown>>[] }[]
  }
  for (const rule of rules.groups.flatMap((group) => group.rules))
    expect(rule).toMatchObject({
      alert: expect.any(String),
      expr: expect.any(String),
      labels: expect.anything(),
    })
})

test('no paragraph is longer than 90 words', () => {
  const long = texts
    .filter(({ name }) => !['settings', 'commands'].includes(name))
    .flatMap(({ name, text }) =>
      text
        .replace(/```[\s\S]*?```/g, '')
        .split(/\n\n|\n(?=- |\d+\. |\|)/)
        .filter((paragraph) => paragraph.split(/\s+/).length > 90)
        .map((paragraph) => `${name}: ${paragraph.slice(0, 60)}`),
    )
  expect(long).toEqual([])
})

test('the README is short', () => {
  expect(texts.at(-1)!.text.length).toBeLessThanOrEqual(9 * 1024)
})

test('weir guide lists every page, and weir help prints one as weir guide does', async () => {
  using home = tempDir()
  const machine = { cwd: home.path }
  const list = await runCommand(machine, 'guide')
  for (const { name, title } of pages)
    expect(list.out).toMatch(new RegExp(`^  ${name} +${title.slice(0, 9)}`, 'm'))
  for (const words of [
    ['guide', 'costs'],
    ['help', 'costs'],
  ])
    expect(await runCommand(machine, ...words)).toEqual({ code: 0, out: guidePage('costs')!.text, err: '' })
  expect((await runCommand(machine, 'guide', 'alerts.yaml')).out).toBe(guideFiles['alerts.yaml']!.text)
  expect((await runCommand(machine, 'help', 'keys')).out).toContain('weir keys')
  expect((await runCommand(machine, 'guide', 'nowhere')).code).toBe(2)
})

test('weir config explain says what a setting means, for names and for parts of them', async () => {
  using home = tempDir()
  const machine = { cwd: home.path, env: { WEIR_PORT: '9000' } }
  const one = await runCommand(machine, 'config', 'explain', 'server.port')
  expect(one.out).toContain('The port to listen on')
  expect(one.out).toContain('default: 8787')
  expect(one.out).toContain('here: 9000')
  expect((await runCommand(machine, 'config', 'explain', 'first_byte')).out).toContain(
    'timeouts.first_byte_ms',
  )
  const near = await runCommand(machine, 'config', 'explain', 'server.prt')
  expect(near).toMatchObject({ code: 2, err: expect.stringContaining('server.port') })
})

describe('every block', () => {
  let weir: ServedWeir
  let home: TempDir
  let request: string

  beforeAll(async () => {
    weir = await serveWeir({ config: 'search: { backend: sim }' })
    home = tempDir('weir-guide-')
    const asked = await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
    request = asked.requestId
  }, 60_000)
  afterAll(async () => {
    await weir?.stop()
    home?.remove()
  })

  /** The addresses and names of the guide, replaced by those of this gateway. */
  const here = (text: string) =>
    text
      .replaceAll('http://127.0.0.1:8787', weir.origin)
      .replaceAll('req_…', request)
      .replaceAll('sk-weir-live-…', weir.key)

  /** A command line of one line, as a shell divides it. */
  const wordsOf = (line: string) =>
    [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
      ([, single, double, bare]) => single ?? double ?? bare ?? '',
    )

  async function runScript(text: string): Promise<void> {
    const env = { ...process.env, WEIR_API_KEY: weir.key }
    const child = Bun.spawn(['bash', '-euo', 'pipefail', '-c', text], {
      cwd: home.path,
      env,
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ])
    expect({
      code: await child.exited,
      err: err.split('\n').filter((line) => line.includes('rror')),
    }).toEqual({ code: 0, err: [] })
    expect(out).not.toContain('"error":{')
  }

  test('of a page is run, or shown for a reason', () => {
    // What is shown only: what installs, what needs a file or an account of the reader's, and how programs are set up.
    const shown = blocks
      .filter((block) => block.shown && !block.page.startsWith('client-'))
      .map(({ page }) => page)
    expect(shown.length).toBeLessThan(blocks.filter((block) => !block.shown).length / 4)
  })

  test('in a shell does what it says', async () => {
    for (const [name, { text }] of blocksIn('sh')) {
      let script = ''
      for (const line of here(text).split(/(?<!\\)\n/)) {
        const bare = line.replace(/\s+#.*$/, '').trim()
        if (!bare.startsWith('weir ')) {
          script += `${line}\n`
          continue
        }
        const words = wordsOf(bare).slice(1)
        // It must exist in the folder where a reader would be.
        const files = words.map((word) => (/\.(db|json|html)$/.test(word) ? home.join(word) : word))
        const url = ['chat', 'route'].includes(words[0]!) ? ['--url', weir.baseUrl, '--key', weir.key] : []
        const tried = words[0] === 'conformance' ? [weir.baseUrl, '--key', weir.key] : []
        const exec = words[0] === 'service' ? ['--exec', '/usr/local/bin/weir'] : []
        const ran = await weir.command(...files, ...url, ...tried, ...exec)
        // The doctor finds that no provider has a key here.
        const expected = words[0] === 'doctor' ? [0, 1] : [0]
        expect({
          name,
          line: bare,
          isExpected: expected.includes(ran.code),
          err: expected.includes(ran.code) ? '' : ran.stderr,
        }).toEqual({
          name,
          line: bare,
          isExpected: true,
          err: '',
        })
      }
      if (script.trim() !== '') await runScript(script)
    }
  }, 120_000)

  test.each(blocksIn('yaml'))('of weir.yaml has no fault: %s', async (_, { text }) => {
    const env = {
      OPENAI_API_KEY: 'k',
      TAVILY_API_KEY: 'k',
      NEW_MASTER_KEY: randomBytes(32).toString('base64'),
      OLD_MASTER_KEY: randomBytes(32).toString('base64'),
    }
    const withSecrets = text.replaceAll(/file:\/run\/secrets\/([\w-]+)/g, `file:${home.path}/$1`)
    for (const [, file] of withSecrets.matchAll(/file:([^\s,}]+)/g)) writeFileSync(file!, 'secret-of-a-file')
    writeFileSync(home.join('weir.yaml'), withSecrets)
    const checked = await runCommand({ cwd: home.path, env }, 'config', 'check')
    expect({ code: checked.code, text: checked.out + checked.err }).toMatchObject({ code: 0 })
  })

  test.each(blocksIn('json'))('of JSON can be read: %s', (_, { text }) => {
    expect(JSON.parse(text)).toBeObject()
  })

  test.each(blocksIn('js'))('of JavaScript runs: %s', async (_, { page, text }) => {
    const file = join(root, `test/guide/.block-${page}-${Bun.hash(text).toString(36)}.mjs`)
    writeFileSync(file, here(text))
    try {
      const env = { ...process.env, WEIR_API_KEY: weir.key }
      const child = Bun.spawn([process.execPath, file], { env, stdout: 'pipe', stderr: 'pipe' })
      const [out, err] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
      ])
      expect({ code: await child.exited, err }).toEqual({ code: 0, err: '' })
      expect(out).toMatch(/river|Where to/)
    } finally {
      await Bun.file(file).delete()
    }
  })

  test.skipIf(Bun.which('python3') === null).each(blocksIn('python'))(
    'of Python can be read: %s',
    async (_, { text }) => {
      const child = Bun.spawn(['python3', '-c', 'import ast, sys; ast.parse(sys.stdin.read())'], {
        stdin: new Blob([text]),
        stderr: 'pipe',
      })
      expect(await new Response(child.stderr).text()).toBe('')
    },
  )
})
