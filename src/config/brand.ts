// Settings of the brand: whose gateway it is, as its customers see it.

import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { z } from 'zod'
import { note, section } from './fields.ts'

/** Type of an image by the end of its file's name. */
const imageTypes: Readonly<Record<string, string>> = {
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
}
const mostLogoBytes = 32 * 1024
/** The console's panel in both themes, which colours of a brand stand on. */
const panels = { light: [255, 255, 255], dark: [21, 26, 28] } as const
/** As WCAG asks of text. */
const leastContrast = 4.5
/** How much of a colour is in the surface of what is chosen: see `--accent-soft` of the console. */
const softShare = 0.1

function isWebAddress(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '')
}

const publicUrl = z.string().refine(isWebAddress, 'must be an address such as https://host/terms')

export const brandSettings = section({
  name: note(
    z.string().trim().min(1).max(60).optional(),
    'What the gateway is called in the console, the chat, mails and receipts (Weir)',
  ),
  logo: note(
    z
      .string()
      .refine((path) => logoFault(path) === undefined, { error: ({ input }) => logoFault(String(input)) })
      .optional(),
    'A file with its logo, SVG, PNG or WebP of at most 32 kB; it is shown 26 pixels high',
  ),
  colors: section({
    accent: note(
      accentOn('light').optional(),
      'The colour of buttons and links on white, such as "#0a6482"; texts of it can be read, or it is refused',
    ),
    accent_dark: note(accentOn('dark').optional(), 'The same in the dark theme, such as "#67c5e2"'),
  }),
  terms_url: note(publicUrl.optional(), 'Where its terms are; the sign-in and the menu link them'),
  privacy_url: note(publicUrl.optional(), 'Where its privacy policy is'),
  support: note(
    z
      .string()
      .refine(
        (text) => isWebAddress(text) || z.email().safeParse(text).success,
        'must be an e-mail address or an address such as https://host/help',
      )
      .optional(),
    'Where customers get help: an e-mail address, or the address of a page',
  ),
})

/** The logo as an address that needs no request. Throws where `logoFault` tells why. */
export function logoUrl(path: string): string {
  return `data:${imageTypes[extname(path).toLowerCase()]};base64,${readFileSync(path).toString('base64')}`
}

function logoFault(path: string): string | undefined {
  if (imageTypes[extname(path).toLowerCase()] === undefined)
    return 'must be a file that ends with .svg, .png or .webp'
  try {
    const bytes = readFileSync(path).length
    return bytes > mostLogoBytes ? `has ${bytes} bytes, more than ${mostLogoBytes}` : undefined
  } catch (error) {
    return `cannot be read: ${error instanceof Error ? error.message : String(error)}`
  }
}

type Rgb = readonly [red: number, green: number, blue: number]

function accentOn(theme: keyof typeof panels) {
  return z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, { error: 'must be a colour such as "#0a6482"', abort: true })
    .refine((text) => contrastOf(text, panels[theme]) >= leastContrast, {
      error: ({ input }) => {
        const found = contrastOf(String(input), panels[theme]).toFixed(1)
        const way = theme === 'light' ? 'a darker' : 'a lighter'
        return `has a contrast of ${found} : 1 with what it stands on, and texts need ${leastContrast} : 1: take ${way} one`
      },
    })
}

/** Of a colour with the surface that it is mixed into, which is where it is read worst. */
function contrastOf(text: string, panel: Rgb): number {
  const color = [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16)) as unknown as Rgb
  const soft = panel.map((part, at) => part * (1 - softShare) + color[at]! * softShare) as unknown as Rgb
  const [a, b] = [luminanceOf(color), luminanceOf(soft)]
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
}

/** WCAG 2.2, relative luminance. */
function luminanceOf(color: Rgb): number {
  const [red, green, blue] = color.map((part) => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}
