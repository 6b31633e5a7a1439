// `weir guide`: the guide that is inside the executable, for people at a terminal and for agents.

import { guidePage, guideParts } from '../../guide/pages.ts'
import { type Invocation, type Io, jsonLine, usageFault } from '../context.ts'

/** Lists the pages, or prints one as Markdown. Throws a usage fault for a page that there is not. */
export function printGuide(io: Io, invocation: Invocation): void {
  const [name] = invocation.args
  const isJson = invocation.flag('json')
  if (name === undefined) {
    const parts = guideParts().map(({ title, about, pages }) => ({
      title,
      about,
      pages: pages.map((page) => ({ name: page.name, title: page.title })),
    }))
    return io.out(isJson ? jsonLine(parts) : listOf(parts))
  }
  const page = guidePage(name)
  if (page === undefined) throw usageFault(`there is no page ${name}: weir guide lists them`)
  io.out(isJson ? jsonLine(page) : page.text)
}

interface Listed {
  readonly title: string
  readonly about: string
  readonly pages: readonly { readonly name: string; readonly title: string }[]
}

function listOf(parts: readonly Listed[]): string {
  const width = Math.max(...parts.flatMap(({ pages }) => pages.map(({ name }) => name.length)))
  const sections = parts.map(
    ({ title, about, pages }) =>
      `${title}: ${about}\n${pages.map((page) => `  ${page.name.padEnd(width)}  ${page.title}`).join('\n')}`,
  )
  return `${sections.join('\n\n')}\n\nweir guide PAGE prints one. The same is at /docs of a running gateway.\n`
}
