// What a person does on the way through pages: clicks, texts typed, and pages that were gone to. They are counted where
// a test walks, so that a way that has become longer is seen.

import type { Locator, Page } from 'playwright-core'

export interface Walked {
  readonly clicks: number
  /** Fields that were filled, with Enter after the last where that sends them. */
  readonly entries: number
  /** Pages gone to: what Back would go through. */
  readonly pages: number
}

/** What a browser keeps of the pages that one has been to. */
const mostKept = 50

export class Walk {
  readonly #page: Page
  readonly #began = performance.now()
  readonly #name: string
  #clicks = 0
  #entries = 0
  #before = 0

  private constructor(page: Page, name: string) {
    this.#page = page
    this.#name = name
  }

  static async from(page: Page, name: string): Promise<Walk> {
    const walk = new Walk(page, name)
    walk.#before = await page.evaluate('history.length')
    if (walk.#before > mostKept - 20) throw new Error('this page has been to too many others to count more')
    return walk
  }

  async click(place: Locator): Promise<void> {
    this.#clicks++
    await place.click()
  }

  /** A choice from a list is two clicks: the list, and what is chosen. */
  async choose(list: Locator, index: number): Promise<void> {
    this.#clicks += 2
    await list.selectOption({ index })
  }

  async type(field: Locator, text: string): Promise<void> {
    this.#entries++
    await field.fill(text)
  }

  /** Types into a field and sends it with Enter. */
  async enter(field: Locator, text: string): Promise<void> {
    await this.type(field, text)
    await field.press('Enter')
  }

  /** Prints how long it took where WALKS is set: no test depends on that. */
  async end(): Promise<Walked> {
    const pages = Number(await this.#page.evaluate('history.length')) - this.#before
    const walked = { clicks: this.#clicks, entries: this.#entries, pages }
    const seconds = ((performance.now() - this.#began) / 1_000).toFixed(2)
    if (process.env['WALKS'] !== undefined)
      process.stderr.write(`${JSON.stringify({ walk: this.#name, ...walked, seconds })}\n`)
    return walked
  }
}
