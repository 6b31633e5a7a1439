// The repository stands alone: a clone with nothing beside it builds and passes its tests.

import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { recordingsDir } from './support/recordings.ts'

const root = resolve(import.meta.dir, '..')
const self = relative(root, import.meta.path)

/** Everything that is run: data below test/fixtures is only read. */
const files = [...new Bun.Glob('{src,test,bench,drizzle,.ci}/**').scanSync({ cwd: root, dot: true })]
  .filter((file) => !file.startsWith('test/fixtures/') || file.endsWith('.ts'))
  .filter((file) => !file.endsWith('.json') && !file.endsWith('.snap'))
  .concat(['package.json', 'tsconfig.json', 'bunfig.toml', '.knip.json', '.oxlintrc.json'])
  .toSorted()

/** Climbs in a string that starts with `..`, in one behind a folder in a template, or in arguments of `join`. */
const climbs = /(['"`]|\}\/|"\)\/)(\.\.(?:\/\.\.|['"`],\s*['"`]\.\.)*)(?=[/'"`])/g
/** Climbs that start at the repository's own folder. */
const climbsFromRoot = /(?:\broot\b|\bcwd\(\))\)?,\s*['"`]\.\.|\$\{root\}\/\.\./g
/** Files of the machine that are opened by their absolute path; the kernel's own, and the list of users, are everywhere. */
const opensAbsolute =
  /\b(?:read(?:File|dir|TextFile)(?:Sync)?|createReadStream|exists(?:Sync)?|stat(?:Sync)?|cp(?:Sync)?|copyFile(?:Sync)?|file|from|import|join|resolve)\s*\(?\s*['"`](\/(?!proc\/|sys\/|dev\/|etc\/passwd\b)[\w.-]+\/[^'"`]*)['"`]/g

/** Each path in the text of a file of the repository that leads out of it. */
function leaving(file: string, text: string): string[] {
  const climbed = [...text.matchAll(climbs)]
    .map(([, , steps]) => steps!.replaceAll(/['"`],\s*['"`]/g, '/'))
    .filter((steps) => relative(root, resolve(root, dirname(file), steps)).startsWith('..'))
  const fromRoot = [...text.matchAll(climbsFromRoot)].map(([found]) => found)
  const absolute = [...text.matchAll(opensAbsolute)].map(([, path]) => path!)
  return [...climbed, ...fromRoot, ...absolute]
}

describe('the repository', () => {
  test('has no path that leaves it', () => {
    expect(files.length).toBeGreaterThan(400)
    const found = files
      .filter((file) => file !== self)
      .flatMap((file) =>
        leaving(file, readFileSync(join(root, file), 'utf8')).map((path) => `${file}: ${path}`),
      )
    expect(found).toEqual([])
  })

  test.each([
    [`import { a } from '../../../elsewhere/a.ts'`],
    [`resolve(import.meta.dir, '../../../shared/data')`],
    [`join(import.meta.dir, '..', '..', '..', 'shared')`],
    ['readFileSync(`${import.meta.dir}/../../../data.json`)'],
    [`join(root, '../data')`],
    [`readFileSync('/srv/data/a.json', 'utf8')`],
    [`Bun.file("/home/somebody/a.json")`],
  ])('would notice %s', (text) => {
    expect(leaving('test/support/a.ts', text)).not.toEqual([])
  })

  test.each([
    [`import { a } from '../../src/a.ts'`],
    [`resolve(import.meta.dir, '../..')`],
    [`fetch(\`\${url}/v1/../../etc/passwd\`)`],
    [`readFileSync('/proc/self/status', 'utf8')`],
    ['read(`/requests/${requestId}`)'],
  ])('lets %s be', (text) => {
    expect(leaving('test/support/a.ts', text)).toEqual([])
  })

  test('holds recordings of under 20 MB, each with its source and licence', () => {
    const names = readdirSync(recordingsDir, { recursive: true, encoding: 'utf8' })
    const bytes = names.reduce((sum, name) => sum + statSync(join(recordingsDir, name)).size, 0)
    expect(bytes).toBeLessThan(20_000_000)
    const notice = readFileSync(join(recordingsDir, 'NOTICE.md'), 'utf8')
    const metas = names.filter((name) => name.endsWith('meta.json'))
    expect(metas.length).toBeGreaterThan(500)
    const unnamed = metas.filter((name) => {
      const { source } = JSON.parse(readFileSync(join(recordingsDir, name), 'utf8')) as {
        source: { repo: string; commit: string; licence: string }
      }
      return !notice.includes(`| ${source.repo} | ${source.commit} | ${source.licence} |`)
    })
    expect(unnamed).toEqual([])
  })
})
