// Formulas in an answer. Their LaTeX is no markdown: `\\` would lose a backslash, and `_` would become emphasis.

import type { MarkedExtension, Tokens } from 'marked'

// Each is bounded, so that an answer of many beginnings without an end is not searched to its end for each.

/** Between `$$`, or `\[` and `\]`. */
const displayed = String.raw`\$\$(?!\$)[^]{1,4000}?\$\$|\\\[[^]{1,4000}?\\\]`
/** Between `\(` and `\)`, or dollar signs that stand at the formula and at no other word: "$5 and $10" is none. */
const inSentence = String.raw`\\\((?:(?!\n[ \t]*\n)[^]){1,1000}?\\\)|\$(?![\s$])(?:\\.|[^\\$\n\x60]){0,1000}?(?<!\s)\$(?!\w)`

const block = new RegExp(`^ {0,3}(?:${displayed})[ \\t]*(?:\\n|$)`)
const inline = new RegExp(`^(?:${displayed}|${inSentence})`)
const inlineStart = /(?<![\\\w])\$|(?<!\\)\\[([]/

export interface Formula {
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
