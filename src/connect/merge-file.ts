// Adds a client's settings to its user's configuration file, keeping everything else, comments included.

import { isDeepStrictEqual } from 'node:util'
import { isMap, isSeq, parseDocument } from 'yaml'

type Values = Readonly<Record<string, unknown>>
type Language = 'json' | 'toml' | 'yaml'

/** The file cannot be changed without losing something of it. */
export class UnmergeableFile extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'UnmergeableFile'
  }
}

/**
 * The text of `existing` with the settings of `addition` in it, which stand above what was there, except for those
 * named in `keeps` (YAML only). Throws UnmergeableFile for a file that is not understood, or could not be changed
 * exactly.
 */
export function mergedFile(
  language: Language,
  existing: string,
  addition: string,
  keeps: readonly string[] = [],
): string {
  const before = parseFile(language, existing)
  const kept = keeps.filter((name) => Object.hasOwn(before, name))
  const added = kept.length === 0 ? addition : withoutRoots(addition, kept)
  const wanted = mergeValues(before, parseFile(language, added))
  const text = writers[language](existing, added, wanted)
  if (!isDeepStrictEqual(parseFile(language, text), wanted))
    throw new UnmergeableFile('its settings could not be changed without losing others')
  return text
}

const writers: Readonly<Record<Language, (existing: string, addition: string, wanted: Values) => string>> = {
  json: (_existing, _addition, wanted) => `${JSON.stringify(wanted, null, 2)}\n`,
  toml: (existing, addition) => withToml(existing, addition),
  yaml: (existing, addition) => withYaml(existing, addition),
}

function parseFile(language: Language, text: string): Values {
  try {
    const value: unknown =
      text.trim() === ''
        ? {}
        : language === 'json'
          ? JSON.parse(text)
          : language === 'toml'
            ? Bun.TOML.parse(text)
            : (parseDocument(text).toJS() ?? {})
    if (isValues(value)) return JSON.parse(JSON.stringify(value)) as Values
  } catch (cause) {
    throw new UnmergeableFile(`it is not understood as ${language.toUpperCase()}`, { cause })
  }
  throw new UnmergeableFile('it holds no settings')
}

/** Maps are merged; lists take the new entries, those of the same name in the place of the old. */
function mergeValues(before: Values, more: Values): Values {
  const all = Object.entries(more).map(([name, value]) => {
    const old = before[name]
    if (isValues(old) && isValues(value)) return [name, mergeValues(old, value)]
    if (Array.isArray(old) && Array.isArray(value)) return [name, mergedList(old, value)]
    return [name, value]
  })
  return { ...before, ...Object.fromEntries(all) }
}

function mergedList(before: readonly unknown[], more: readonly unknown[]): readonly unknown[] {
  const list = [...before]
  for (const entry of more) {
    const at = list.findIndex((old) => isSameName(old, entry))
    if (at === -1) list.push(entry)
    else list[at] = entry
  }
  return list
}

function isSameName(a: unknown, b: unknown): boolean {
  return isValues(a) && isValues(b) && typeof a['name'] === 'string' && a['name'] === b['name']
}

/** Settings of the root go before the first table; a table of the addition replaces the one with its name. */
function withToml(existing: string, addition: string): string {
  const [root, ...tables] = sections(addition)
  let [head = '', ...kept] = sections(existing)
  for (const line of root!.split('\n').filter((text) => text.trim() !== '')) {
    const name = line.slice(0, line.indexOf('=')).trim()
    const old = new RegExp(`^[ \\t]*${name}[ \\t]*=.*$`, 'm')
    head = old.test(head) ? head.replace(old, () => line) : `${line}\n${head}`
  }
  const headers = tables.map(headerOf)
  kept = kept.filter((table) => !headers.includes(headerOf(table)))
  const parts = [head, ...kept, ...tables].map((part) => part.trimEnd()).filter((part) => part !== '')
  return `${parts.join('\n\n')}\n`
}

/** The text before the first table, and each table with its header. */
function sections(text: string): string[] {
  return text.split(/^(?=[ \t]*\[)/m).reduce<string[]>((all, part, at) => {
    if (at === 0 && /^[ \t]*\[/.test(part)) all.push('')
    all.push(part)
    return all
  }, [])
}

function headerOf(table: string): string {
  return table.trim().split('\n', 1)[0]!.trim()
}

function withoutRoots(yaml: string, names: readonly string[]): string {
  const document = parseDocument(yaml)
  for (const name of names) document.delete(name)
  return document.toString()
}

function withYaml(existing: string, addition: string): string {
  const document = parseDocument(existing)
  // Nothing, or comments alone.
  if (document.contents === null) return `${existing.trimEnd()}\n${addition}`.trimStart()
  const more = parseFile('yaml', addition)
  for (const [name, value] of Object.entries(more)) {
    const old = document.get(name)
    if (!isSeq(old) || !Array.isArray(value)) document.set(name, document.createNode(value))
    else
      for (const entry of value as unknown[]) {
        const at = old.items.findIndex((item) => isMap(item) && isSameName(item.toJS(document), entry))
        if (at === -1) old.add(document.createNode(entry))
        else old.items[at] = document.createNode(entry)
      }
  }
  return document.toString()
}

function isValues(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
