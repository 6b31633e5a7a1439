// The text of an answer before it is rendered: its formulas, the blocks that are finished, and what of its code is a page.

import type { MarkedExtension, Tokens } from 'marked'

// Formulas in an answer. Their LaTeX is no markdown: `\\` would lose a backslash, and `_` would become emphasis.

// Each is bounded, so that an answer of many beginnings without an end is not searched to its end for each.

/** Between `$$`, or `\[` and `\]`. */
const displayed = String.raw`\$\$(?!\$)[^]{1,4000}?\$\$|\\\[[^]{1,4000}?\\\]`
/** Between `\(` and `\)`, or dollar signs that stand at the formula and at no other word: "$5 and $10" is none. */
const inSentence = String.raw`\\\((?:(?!\n[ \t]*\n)[^]){1,1000}?\\\)|\$(?![\s$])(?:\\.|[^\\$\n\x60]){0,1000}?(?<!\s)\$(?!\w)`

const block = new RegExp(`^ {0,3}(?:${displayed})[ \\t]*(?:\\n|$)`)
const inline = new RegExp(`^(?:${displayed}|${inSentence})`)
const inlineStart = /(?<![\\\w])\$|(?<!\\)\\[([]/

interface Formula {
  /** As it was written, with what it stands between. */
  readonly text: string
  readonly latex: string
  /** On a line of its own, not within one. */
  readonly displayed: boolean
}

function tokenOf(type: string, form: RegExp, text: string): Tokens.Generic | undefined {
  const raw = form.exec(text)?.[0]
  return raw === undefined ? undefined : { type, raw, formula: formulaOf(raw.trim()) }
}

function formulaOf(text: string): Formula {
  const delimiter = text.startsWith('$') && !text.startsWith('$$') ? 1 : 2
  return {
    text,
    latex: text.slice(delimiter, -delimiter),
    displayed: text.startsWith('$$') || text.startsWith(String.raw`\[`),
  }
}

/** Whether a text may have formulas. Not all that look so at first are some. */
export function mayHaveFormulas(text: string): boolean {
  return inlineStart.test(text)
}

/** To be used by `marked`; `shown` makes the HTML of a formula. */
export function formulas(shown: (formula: Formula) => string): MarkedExtension {
  return {
    extensions: [
      {
        // Its lines may look like those of a list.
        name: 'formula',
        level: 'block',
        tokenizer: (text) => tokenOf('formula', block, text),
        renderer: ({ formula }) => `<p>${shown(formula as Formula)}</p>\n`,
      },
      {
        name: 'inlineFormula',
        level: 'inline',
        start: (text) => {
          const at = text.search(inlineStart)
          return at === -1 ? undefined : at
        },
        tokenizer: (text) => tokenOf('inlineFormula', inline, text),
        renderer: ({ formula }) => shown(formula as Formula),
      },
    ],
  }
}

// The text of an answer, cut into blocks of markdown as it grows. A block that is finished never changes again, so it is
// parsed and rendered once; parsing the whole answer for each piece of it would take quadratic time.

export interface Blocks {
  /** Finished; each ends with its newline. */
  readonly done: readonly string[]
  /** How many characters the finished blocks have. */
  readonly start: number
  /** Up to where lines have been looked at. */
  readonly scanned: number
  /** What closes the code block that is open: three backticks, or more, or tildes. */
  readonly fence: string | null
  /** The line before was blank: a new block may begin. */
  readonly afterBlank: boolean
}

export const noBlocks: Blocks = { done: [], start: 0, scanned: 0, fence: null, afterBlank: false }

/** A list without blank lines is cut between its items when it is longer. */
const longList = 4_000

/** Continues after `blocks`: `text` is the whole text so far. */
export function cut(blocks: Blocks, text: string): Blocks {
  let { start, scanned, fence, afterBlank } = blocks
  const done = [...blocks.done]
  for (let end = text.indexOf('\n', scanned); end !== -1; end = text.indexOf('\n', scanned)) {
    const line = text.slice(scanned, end)
    if (fence !== null) {
      if (closes(line, fence)) fence = null
    } else {
      const indented = /^\s/.test(line)
      const cutsList = scanned - start > longList && /^(?:[-*+]|\d{1,9}[.)])\s/.test(line)
      if (line.trim() !== '' && !indented && (afterBlank || cutsList) && scanned > start) {
        done.push(text.slice(start, scanned))
        start = scanned
      }
      fence = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? null
    }
    afterBlank = fence === null && line.trim() === ''
    scanned = end + 1
  }
  return { done, start, scanned, fence, afterBlank }
}

function closes(line: string, fence: string): boolean {
  const marks = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line)?.[1]
  return marks !== undefined && marks[0] === fence[0] && marks.length >= fence.length
}

/** The lines that say where the links of a text lead (`[docs]: https://example.com`), often at its end. */
export function definitionsIn(text: string): readonly string[] {
  return text.match(/^ {0,3}\[[^\]\n]{1,200}\]:[ \t]+<?https?:\/\/\S+.*$/gim) ?? []
}

/** Those of them that a block refers to, as one text. */
export function definitionsFor(block: string, definitions: readonly string[]): string {
  if (definitions.length === 0) return ''
  const words = block.toLowerCase()
  const refersTo = (line: string) =>
    words.includes(line.slice(line.indexOf('['), line.indexOf(']') + 1).toLowerCase())
  return definitions.filter(refersTo).join('\n')
}

// HTML and SVG that a model wrote, shown as it will look: in a frame without an origin, which reaches nobody.

/** A whole page of what a block of code holds; undefined where it is not shown as a page. */
export function pageOf(language: string, text: string): string | undefined {
  const name = language.toLowerCase()
  const begin = text.trimStart().slice(0, 500).toLowerCase()
  const isMarkup = name === '' || name === 'xml' || name === 'markup'
  if (name === 'svg' || (isMarkup && /^(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*)?<svg[\s>]/.test(begin)))
    return `<!doctype html><meta charset="utf-8"><style>html{height:100%}body{margin:0;min-height:100%;display:grid;place-items:center}svg{max-width:100%;height:auto}</style>${text}`
  if (name === 'html' || name === 'htm' || (name === '' && /^<(?:!doctype html|html)[\s>]/.test(begin)))
    return text
  return undefined
}
