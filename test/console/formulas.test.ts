import { expect, test } from 'bun:test'
import { Marked } from 'marked'
import { formulas } from '../../src/console/chat/blocks.ts'

const marked = new Marked({ gfm: true })
marked.use(formulas(({ text }) => `<f>${text}</f>`))

const matrix = String.raw`$$
\begin{pmatrix} a & b \\ c & d \end{pmatrix}
- 1
$$`

test.each([
  [String.raw`so \(a_1 * b_1 * c\) holds`, String.raw`so <f>\(a_1 * b_1 * c\)</f> holds`],
  ['and $a_1 * b_1 * c$, too', 'and <f>$a_1 * b_1 * c$</f>, too'],
  [String.raw`\[ \frac{a_1}{b_1} \]`, String.raw`<f>\[ \frac{a_1}{b_1} \]</f>`],
  [matrix, `<f>${matrix}</f>`],
  ['$5 or $10, US$7 and C$8', '$5 or $10, US$7 and C$8'],
  ['$HOME/bin:$PATH', '$HOME/bin:$PATH'],
  [String.raw`\$5 for *you\$*`, '$5 for <em>you$</em>'],
  ['$8, `$a` and *$b*', '$8, <code>$a</code> and <em>$b</em>'],
  [String.raw`a \\(b\\) c`, String.raw`a \(b\) c`],
  ['`$a_1$`', '<code>$a_1$</code>'],
])('of %p the LaTeX is shown as it was written', (text, html) => {
  expect(String(marked.parse(text)).trim()).toBe(`<p>${html}</p>`)
})

test('beginnings without an end are not searched for it again and again', () => {
  /** Processor time of so many, microseconds: what else the machine does is none of it. */
  const costOf = (beginnings: number) => {
    const before = process.cpuUsage()
    for (const beginning of ['\n$$ a', '\n\\[ a', ' \\( a', ' $a', '\n\n$$ a'])
      String(marked.parse(beginning.repeat(beginnings)))
    const { user, system } = process.cpuUsage(before)
    return user + system
  }
  costOf(1_000)
  // Four times as many take four times as long, or sixteen times if each looks as far as the end.
  expect(costOf(8_000) / costOf(2_000)).toBeLessThan(9)
})
