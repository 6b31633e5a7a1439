// Formulas in an answer: their LaTeX is shown as the model wrote it. As markdown, `\\` would lose a backslash and `_` would
// become emphasis.

import type { MarkedExtension, Tokens } from 'marked'

// Each is bounded, so that an answer of many beginnings without an end is not searched to its end for each.

/** Between `$$`, or `\[` and `\]`. */
const displayed = String.raw`\$\$(?!\$)[^]{1,4000}?\$\$|\\\[[^]{1,4000}?\\\]`
/** Between `\(` and `\)`, or dollar signs that stand at the formula and at no other word: "$5 and $10" is none. */
const inSentence = String.raw`\\\((?:(?!\n[ \t]*\n)[^]){1,1000}?\\\)|\$(?![\s$])(?:\\.|[^\\$\n\x60]){0,1000}?(?<!\s)\$(?!\w)`

const block = new RegExp(`^ {0,3}(?:${displayed})[ \\t]*(?:\\n|$)`)
const inline = new RegExp(`^(?:${displayed}|${inSentence})`)
const inlineStart = /(?<![\\\w])\$|(?<!\\)\\[([]/

function tokenOf(type: string, form: RegExp, text: string): Tokens.Generic | undefined {
  const raw = form.exec(text)?.[0]
  return raw === undefined ? undefined : { type, raw, text: raw.trim() }
}

/** To be used by `marked`; `shown` makes the HTML of a formula. */
export function formulas(shown: (latex: string) => string): MarkedExtension {
  return {
    extensions: [
      {
        // Its lines may look like those of a list.
        name: 'formula',
        level: 'block',
        tokenizer: (text) => tokenOf('formula', block, text),
        renderer: ({ text }) => `<p>${shown(String(text))}</p>\n`,
      },
      {
        name: 'inlineFormula',
        level: 'inline',
        start: (text) => {
          const at = text.search(inlineStart)
          return at === -1 ? undefined : at
        },
        tokenizer: (text) => tokenOf('inlineFormula', inline, text),
        renderer: ({ text }) => shown(String(text)),
      },
    ],
  }
}
