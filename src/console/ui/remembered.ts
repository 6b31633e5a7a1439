// What this browser remembers of how the console is used, the theme among it: no more than a wish about its looks, never content.

import { useSyncExternalStore } from 'react'

const known = new Map<string, { readonly text: string | null; readonly value: unknown }>()
const listeners = new Set<() => void>()

/** Something else that was stored under the name, or nothing, is `otherwise`. */
export function recall<T>(name: string, otherwise: T, isValid: (value: unknown) => value is T): T {
  let text: string | null = null
  try {
    text = localStorage.getItem(name)
  } catch {
    // A browser may be told to store nothing.
  }
  const last = known.get(name)
  // The same value each time for the same text, as React asks.
  if (last?.text === text && last.value !== undefined) return last.value as T
  let value: unknown
  try {
    value = text === null ? otherwise : JSON.parse(text)
  } catch {
    value = otherwise
  }
  const valid = isValid(value) ? value : otherwise
  known.set(name, { text, value: valid })
  return valid
}

function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value))
  } catch {
    // It is then remembered by nothing, and asked for again.
  }
  for (const listener of listeners) listener()
}

/** What is remembered, and its setter; every component that shows it follows. */
export function useRemembered<T>(name: string, otherwise: T, isValid: (value: unknown) => value is T) {
  const value = useSyncExternalStore(onRemembered, () => recall(name, otherwise, isValid))
  return [value, (next: T) => remember(name, next)] as const
}

/** Calls the listener whenever something is remembered, until what it returns is called. */
export function onRemembered(listener: () => void): () => void {
  listeners.add(listener)
  // Another tab may remember something else.
  window.addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    window.removeEventListener('storage', listener)
  }
}

export function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string')
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}

// Light or dark: as the system has it, or as this browser was told.

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

// What this browser remembers of the models of the chat.

const pickedItem = 'weir.model'
export const recentItem = 'weir.recent-models'
const mostRecent = 5
const none: readonly string[] = []

/** The model of the next question, here and in the other pages of this browser. */
export function pickModel(id: string): void {
  localStorage.setItem(pickedItem, id)
  const before = recall(recentItem, none, isTextList).filter((other) => other !== id)
  remember(recentItem, [id, ...before].slice(0, mostRecent))
}

/** The id of the model picked last; empty before the first. */
export function lastPicked(): string {
  return localStorage.getItem(pickedItem) ?? ''
}
