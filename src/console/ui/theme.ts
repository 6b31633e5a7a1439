// Light or dark: as the system has it, or as this browser was told.

import { recall, remember, useRemembered } from './remembered.ts'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

export const themeNames: Readonly<Record<Theme, string>> = {
  system: 'System',
  light: 'Light',
  dark: 'Dark',
}

const item = 'weir.theme'

/** The chosen theme. */
export function useTheme(): Theme {
  return useRemembered<Theme>(item, 'system', isTheme)[0]
}

export function chooseTheme(theme: Theme): void {
  remember(item, theme)
  showTheme()
}

/** Has the page look as was chosen. To be called before it is shown. */
export function showTheme(): void {
  document.documentElement.dataset['theme'] = recall<Theme>(item, 'system', isTheme)
}

function isTheme(value: unknown): value is Theme {
  return themes.some((theme) => theme === value)
}
