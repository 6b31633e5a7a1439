// Whose gateway it is: its colours, and where its terms and its help are.

import type { SessionView } from '../../http/console/answers.ts'
import { t } from '../strings/text.ts'

type Brand = SessionView['brand']

/** Has the page look like it. Repeating it changes nothing. */
export function showBrand({ accent, accent_dark: dark }: Pick<Brand, 'accent' | 'accent_dark'>): void {
  if (accent === null && dark === null) return
  const { style } = document.documentElement
  style.setProperty('--accent', `light-dark(${accent ?? '#0a6482'}, ${dark ?? '#67c5e2'})`)
  style.setProperty('--accent-soft', 'color-mix(in srgb, var(--accent) 10%, var(--panel))')
}

/** Terms, privacy and support, as far as there are any. */
export function BrandLinks({ brand }: { brand: Brand }) {
  const { terms_url: terms, privacy_url: privacy, support } = brand
  const links = [
    [t('Terms'), terms],
    [t('Privacy'), privacy],
    [t('Support'), support !== null && !support.includes(':') ? `mailto:${support}` : support],
  ] as const
  if (links.every(([, href]) => href === null)) return null
  return (
    <p className="mt-3 flex flex-wrap gap-x-4 gap-y-1 px-1 text-[12.5px]">
      {links.map(
        ([name, href]) =>
          href !== null && (
            <a key={name} href={href} target="_blank" rel="noreferrer" className="text-muted underline">
              {name}
            </a>
          ),
      )}
    </p>
  )
}
