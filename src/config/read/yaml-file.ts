// weir.yaml: parsed with line numbers, `${NAME}` filled in from the environment.

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Node } from 'yaml'
import { type Draft, isTree, type Path, printPath } from './draft.ts'
import { settingAt } from '../settings.ts'
import { coerceText } from './environment.ts'

type Environment = Readonly<Record<string, string | undefined>>

interface Reference {
  readonly written: string
  readonly name: string
  readonly fallback: string | undefined
}

// `$${NAME}` stands for the text `${NAME}` itself.
const reference = /(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}\n]*))?\}/g
const token = /\u{E000}(\d+)\u{E001}/gu

/** Reads the text of a configuration file into the draft; every fault is noted with its line. */
export function readYaml(draft: Draft, file: string, text: string, env: Environment): void {
  // References become inert tokens before YAML sees them: `{ api_key: ${KEY} }` is not YAML otherwise, and a value
  // with a colon or a quote in it must not be read as more than a value.
  const references: Reference[] = []
  const inert = text.replace(
    reference,
    (written, escape: string, name: string, fallback: string | undefined) => {
      if (escape) return written.slice(1)
      references.push({ written, name, fallback })
      return `\u{E000}${references.length - 1}\u{E001}`
    },
  )
  const lines = new LineCounter()
  const document = parseDocument(inert, { lineCounter: lines, merge: true, prettyErrors: false })
  if (document.errors.length > 0) {
    for (const error of document.errors) {
      const line = lines.linePos(error.pos[0]).line
      draft.faults.push({
        path: file,
        problem: `is not YAML: ${error.message}`,
        nearest: undefined,
        origin: { kind: 'file', file, line },
      })
    }
    return
  }
  const root: unknown = document.toJS()
  if (root === null || root === undefined) return
  if (!isTree(root)) {
    draft.faults.push({
      path: file,
      problem: 'must be a mapping of settings',
      nearest: undefined,
      origin: undefined,
    })
    return
  }
  markLines(draft, file, lines, document.contents, [])
  Object.assign(draft.tree, expandedTree({ draft, env, references }, root, []))
}

function markLines(draft: Draft, file: string, lines: LineCounter, node: Node | null, path: Path): void {
  if (isMap(node)) {
    for (const { key, value } of node.items) {
      if (!isScalar(key)) continue
      const here = [...path, String(key.value)]
      draft.mark(here, { kind: 'file', file, line: key.range ? lines.linePos(key.range[0]).line : undefined })
      if (isMap(value) || isSeq(value)) markLines(draft, file, lines, value, here)
    }
  } else if (isSeq(node)) {
    node.items.forEach((item, at) => {
      if (!isMap(item) && !isSeq(item) && !isScalar(item) && !isAlias(item)) return
      const here = [...path, at]
      draft.mark(here, {
        kind: 'file',
        file,
        line: item.range ? lines.linePos(item.range[0]).line : undefined,
      })
      markLines(draft, file, lines, item, here)
    })
  }
}

interface Expansion {
  readonly draft: Draft
  readonly env: Environment
  readonly references: readonly Reference[]
}

/** A value whose variable is not set: the setting counts as absent. */
const absent = Symbol('absent')

function expandedTree(expansion: Expansion, tree: object, path: Path): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(tree)) {
    if (key === '__proto__') {
      expansion.draft.fault([...path, key], 'unknown key')
      continue
    }
    const filled = expandValue(expansion, value, [...path, key])
    if (filled !== absent) result[key] = filled
  }
  return result
}

function expandValue(expansion: Expansion, value: unknown, path: Path): unknown {
  if (typeof value === 'string') return expandedText(expansion, value, path)
  if (Array.isArray(value)) {
    return value
      .map((item, at) => expandValue(expansion, item, [...path, at]))
      .filter((item) => item !== absent)
  }
  // An empty section (`providers:` with everything commented out) is a section without settings.
  if (value === null) return absent
  return isTree(value) ? expandedTree(expansion, value, path) : value
}

function expandedText({ draft, env, references }: Expansion, text: string, path: Path): unknown {
  if (!text.includes('\u{E000}')) return text
  const unset: string[] = []
  const filled = text.replace(token, (_, index: string) => {
    const { name, fallback } = references[Number(index)]!
    const value = env[name] || fallback
    if (value === undefined) unset.push(name)
    return value ?? ''
  })
  if (unset.length === 0) {
    const setting = settingAt(path.map(String))
    // A list of keys can be written as one here: what fills in a key is that key, commas and all.
    return setting && setting.kind !== 'keys' ? coerceText(setting.kind, filled) : filled
  }
  if (text.replace(token, '') !== '') {
    draft.fault(path, `names the environment variable ${unset.join(', ')}, which is not set`)
  } else {
    draft.warn(
      printPath(path),
      `names the environment variable ${unset.join(', ')}, which is not set: taken as not given`,
    )
    draft.unmark(path)
  }
  return absent
}
