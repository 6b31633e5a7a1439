// The catalogue of strings. English is written in the pages and is the key of each string; other languages are
// loaded when the reader's browser asks for them.

const catalogues: Readonly<Record<string, () => Promise<Readonly<Record<string, string>>>>> = {
  hi: async () => (await import('./hi.ts')).hi,
}

let translations: Readonly<Record<string, string>> = {}
const languageItem = 'weir.language'

/** The available languages, with their own names. */
export const languages = [
  ['en', 'English'],
  ['hi', 'हिन्दी'],
] as const

/** The user's choice, otherwise the first language of the browser that is available. */
export function language(): string {
  const isKnown = (code: string | undefined) => languages.some(([name]) => name === code)
  const chosen = localStorage.getItem(languageItem) ?? undefined
  if (isKnown(chosen)) return chosen!
  return navigator.languages.map((code) => code.split('-')[0]).find(isKnown) ?? 'en'
}

export function chooseLanguage(code: string): void {
  localStorage.setItem(languageItem, code)
  location.reload()
}

/** Loads the strings of the user's language; English needs none. */
export async function loadStrings(): Promise<void> {
  const code = language()
  document.documentElement.lang = code
  translations = (await catalogues[code]?.()) ?? {}
}

/** A string in the user's language, with its `{names}` filled in. */
export function t(english: string, values: Readonly<Record<string, string | number>> = {}): string {
  const text = translations[english] ?? english
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}
