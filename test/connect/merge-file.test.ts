// What a client needs goes into the configuration its user has: nothing of it is lost, or the file stays as it is.

import { describe, expect, test } from 'bun:test'
import { connectedClients, mergedFile, UnmergeableFile } from '../../src/connect/clients.ts'

const codex = `model = "sim/echo"
model_provider = "weir"

[model_providers.weir]
name = "Weir"
base_url = "http://127.0.0.1:8787/v1"`

describe('TOML', () => {
  test('settings of the root stand before the tables, and comments stay', () => {
    const before = `# mine\nmodel = "gpt-5" # the big one\napproval = "never"\n\n[profiles.fast]\nmodel = "gpt-5-mini"\n`
    const after = mergedFile('toml', before, codex)
    expect(Bun.TOML.parse(after)).toEqual({
      model: 'sim/echo',
      model_provider: 'weir',
      approval: 'never',
      profiles: { fast: { model: 'gpt-5-mini' } },
      model_providers: { weir: { name: 'Weir', base_url: 'http://127.0.0.1:8787/v1' } },
    })
    expect(after).toContain('# mine')
  })

  test('what was written before is replaced, and writing again changes nothing', () => {
    const once = mergedFile('toml', '', codex)
    const other = codex.replace('8787', '9000')
    const twice = mergedFile('toml', once, other)
    expect(twice.match(/\[model_providers\.weir\]/g)).toHaveLength(1)
    expect(twice).toContain('9000')
    expect(mergedFile('toml', twice, other)).toBe(twice)
  })

  test('a file that is written in another way than lines can change is refused', () => {
    const inline = `model_providers = { weir = { name = "old" }, other = { name = "kept" } }\n`
    expect(() => mergedFile('toml', inline, codex)).toThrow(UnmergeableFile)
    expect(() => mergedFile('toml', 'model = \n', codex)).toThrow('it is not understood as TOML')
    const text = `notes = """\n[not.a.table]\nmodel = 1\n"""\n`
    const merged = () => mergedFile('toml', text, codex)
    expect(merged).toThrow(UnmergeableFile)
  })
})

describe('JSON', () => {
  test('other settings and other providers stay', () => {
    const before = JSON.stringify({ theme: 'dark', provider: { mine: { models: {} }, weir: { old: true } } })
    const after = mergedFile('json', before, '{"provider":{"weir":{"npm":"x"}}}')
    expect(JSON.parse(after)).toEqual({
      theme: 'dark',
      provider: { mine: { models: {} }, weir: { old: true, npm: 'x' } },
    })
  })

  test.each(['{ // mine\n "a": 1 }', '[1]', '"text"', '{"a":'])('%s stays as it is', (before) => {
    expect(() => mergedFile('json', before, '{"provider":{}}')).toThrow(UnmergeableFile)
  })
})

describe('YAML', () => {
  const entry = 'models:\n  - name: Weir\n    model: sim/echo'

  test('the entry joins a list, and takes the place of the one of its name', () => {
    const before = '# mine\nversion: 1\nmodels:\n  # local\n  - name: Llama\n    model: llama\n'
    const once = mergedFile('yaml', before, entry)
    expect(once).toContain('# mine')
    expect(once).toContain('# local')
    const twice = mergedFile('yaml', once, entry.replace('sim/echo', 'openai/gpt-5'))
    expect(Bun.YAML.parse(twice)).toEqual({
      version: 1,
      models: [
        { name: 'Llama', model: 'llama' },
        { name: 'Weir', model: 'openai/gpt-5' },
      ],
    })
  })

  test('what a file must have stays as its user named it, and is added where it is missing', () => {
    const whole = `name: Weir\nversion: 1.0.0\n${entry}`
    const merged = (before: string) => Bun.YAML.parse(mergedFile('yaml', before, whole, ['name', 'version']))
    const models = [{ name: 'Weir', model: 'sim/echo' }]
    expect(merged('name: Mine\nrules: [brief]\n')).toEqual({
      name: 'Mine',
      version: '1.0.0',
      rules: ['brief'],
      models,
    })
    expect(merged('')).toEqual({ name: 'Weir', version: '1.0.0', models })
  })

  test('a file without settings takes it as it is', () => {
    expect(Bun.YAML.parse(mergedFile('yaml', '# nothing yet\n', entry))).toEqual(
      Bun.YAML.parse(entry) as object,
    )
  })
})

test('every file that a client is given can be merged into an empty one', () => {
  const files = connectedClients('http://127.0.0.1:8787').flatMap((client) => client.files)
  const named = files.filter(({ path }) => path !== null)
  expect(named.length).toBeGreaterThan(2)
  for (const { language, text } of named) {
    const filled = text.replaceAll('{{key}}', 'sk-1').replaceAll('{{model}}', 'sim/echo')
    const read = { json: JSON.parse, toml: Bun.TOML.parse, yaml: Bun.YAML.parse }[
      language as 'json' | 'toml' | 'yaml'
    ] as (text: string) => object
    expect(read(mergedFile(language as 'json' | 'toml' | 'yaml', '', filled))).toEqual(read(filled))
  }
  expect(named.map(({ text }) => text.includes('http://127.0.0.1:8787'))).toContain(true)
})
