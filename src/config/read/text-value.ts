// Text from the environment, the command line or a `${NAME}` as the value of a setting.

import { parse } from 'yaml'
import type { SettingKind } from '../settings.ts'

const truths: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  on: true,
  '1': true,
  false: false,
  no: false,
  off: false,
  '0': false,
}

/** Parses `text`; what cannot be parsed stays text, for the schema to report. */
export function coerceText(kind: SettingKind, text: string): unknown {
  switch (kind) {
    case 'text':
      return text
    case 'integer':
      return /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text
    case 'boolean':
      return truths[text.trim().toLowerCase()] ?? text
    case 'list':
    case 'keys':
      return text.trim().startsWith('[')
        ? structure(text)
        : text
            .split(',')
            .map((item) => item.trim())
            .filter(Boolean)
    case 'structure':
      return structure(text)
  }
}

function structure(text: string): unknown {
  try {
    return parse(text)
  } catch {
    return text
  }
}
