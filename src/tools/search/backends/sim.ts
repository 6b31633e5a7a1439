// The offline index: a few dozen bundled pages, ranked the same way on every machine and every day.

import type { Pico } from '../../../credits/money.ts'
import { domainFilter } from '../domains.ts'
import { dayMs, oldestDays, type SearchBackend, type SearchResult } from './backend.ts'
import { aboutPage, type SimPage, simPages } from './sim-pages.ts'

/** A word in the title counts more than one in the text. */
const titleWeight = 3
const commonWords = new Set(
  'a an and are as at be by do for from how in is it of on or that the this to was what when where which who why with'.split(
    ' ',
  ),
)

/**
 * Pages by how rare the words are that they share with the question; equals in the order of the list. Gives the page
 * about the index where no page has any of the words, so that a search always has a result unless filters forbid it.
 * `price` is that of a search, picodollars.
 */
export function simBackend(clock: () => number, price: Pico = 0n): SearchBackend {
  return {
    id: 'sim',
    price,
    mostPrice: price,
    search: (query) => {
      const allows = domainFilter(query.allowedDomains, query.blockedDomains)
      const oldest = query.recency === undefined ? Infinity : oldestDays[query.recency]
      const pages = simPages.filter((page) => page.ageDays <= oldest && allows(page.url))
      const ranked = rankedBy(query.text, pages)
      const found = ranked.length > 0 ? ranked : pages.filter((page) => page === aboutPage)
      const results = found.slice(0, query.count).map((page) => resultOf(page, clock()))
      return Promise.resolve({ results, cost: price })
    },
  }
}

/** The bundled page at this address, for test keys' `open_page`. */
export function simPageAt(url: string): SimPage | undefined {
  const address = URL.parse(url)
  if (!address) return undefined
  address.hash = ''
  return simPages.find((page) => page.url === address.href.replace(/\/$/, ''))
}

function rankedBy(question: string, pages: readonly SimPage[]): SimPage[] {
  const words = new Set(wordsOf(question))
  const scored = pages.map((page) => ({ page, score: scoreOf(page, words) }))
  return scored
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score)
    .map(({ page }) => page)
}

function scoreOf(page: SimPage, words: ReadonlySet<string>): number {
  const { title, text } = indexPages().get(page)!
  let score = 0
  for (const word of words) {
    const rarity = Math.log(simPages.length / (documents().get(word) ?? simPages.length))
    if (title.has(word)) score += titleWeight * rarity
    if (text.has(word)) score += rarity
  }
  return score
}

interface IndexedPage {
  readonly title: ReadonlySet<string>
  readonly text: ReadonlySet<string>
}

let index: ReadonlyMap<SimPage, IndexedPage> | undefined
let frequency: ReadonlyMap<string, number> | undefined

/** Built on the first search: most gateways never run one here. */
function indexPages(): ReadonlyMap<SimPage, IndexedPage> {
  return (index ??= new Map(
    simPages.map((page) => [
      page,
      { title: new Set(wordsOf(`${page.title} ${page.url}`)), text: new Set(wordsOf(page.text)) },
    ]),
  ))
}

/** In how many pages each word stands. */
function documents(): ReadonlyMap<string, number> {
  if (frequency) return frequency
  const counts = new Map<string, number>()
  for (const { title, text } of indexPages().values())
    for (const word of new Set([...title, ...text])) counts.set(word, (counts.get(word) ?? 0) + 1)
  return (frequency = counts)
}

function wordsOf(text: string): string[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return words.filter((word) => !commonWords.has(word)).map((word) => word.replace(/(?<=...)s$/, ''))
}

function resultOf(page: SimPage, now: number): SearchResult {
  const publishedAt = new Date(now - page.ageDays * dayMs).toISOString().slice(0, 10)
  return { url: page.url, title: page.title, text: page.text, publishedAt }
}
