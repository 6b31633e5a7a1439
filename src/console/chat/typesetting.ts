// Formulas as MathML, which browsers show by themselves. The library that makes it is loaded with the first formula.

import { useEffect, useSyncExternalStore } from 'react'

type Temml = (typeof import('temml'))['default']

let temml: Temml | undefined
let loading: Promise<void> | undefined
const waiting = new Set<() => void>()

/** Nothing comes of a load that fails but the formula as it was written; the next one tries again. */
function load(): void {
  loading ??= import('temml').then(
    (loaded) => {
      temml = loaded.default
      for (const tell of waiting) tell()
    },
    () => {
      loading = undefined
    },
  )
}

function subscribe(tell: () => void): () => void {
  waiting.add(tell)
  return () => waiting.delete(tell)
}

/** Has the component rendered again when formulas can be typeset, if it has some. */
export function useTypesetting(hasFormulas: boolean): void {
  useSyncExternalStore(subscribe, () => temml !== undefined)
  useEffect(() => {
    if (hasFormulas) load()
  }, [hasFormulas])
}

/** Sizes in em, and what macros may come to: an answer is no program. */
const bounds = { maxSize: [30, 30] as [number, number], maxExpand: 500 }

/** In texts quotation marks are entities. The page's policy allows no styles, and reports each. */
const styles = / style="[^"]*"/g

/** The MathML of a formula; undefined while the library is not there, and for what is not LaTeX. */
export function typeset(latex: string, displayMode: boolean): string | undefined {
  try {
    const math = temml?.renderToString(latex, { displayMode, throwOnError: true, ...bounds })
    return math?.replaceAll(styles, '')
  } catch {
    return undefined
  }
}

/** What `typeset` makes, for the sanitizer. Not what links, acts or loads. */
export const mathTags =
  'math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom msub msup msubsup munder mover munderover mmultiscripts mprescripts mtable mtr mtd'
export const mathAttributes =
  'display displaystyle scriptlevel mathvariant fence form stretchy symmetric separator largeop movablelimits accent accentunder lspace rspace minsize maxsize linethickness width height depth voffset columnspan'
