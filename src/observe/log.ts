// The log: JSON lines (or pretty ones in a terminal) on stderr, with nothing secret in them.

import { writeSync } from 'node:fs'
import {
  getAnsiColorFormatter,
  getJsonLinesFormatter,
  type LogRecord,
  type TextFormatter,
} from '@logtape/logtape'
import { createRedactor } from './redact.ts'

export type LogFields = Readonly<Record<string, unknown>>

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** `message` is a fixed sentence; what varies goes into `fields`. Calls below the level cost one comparison. */
export interface Log {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export interface LogSettings {
  readonly level: LogLevel
  readonly format: 'auto' | 'json' | 'pretty'
  readonly prompts: boolean
}

/** Where lines go. `waiting` is how many bytes it has taken and not yet passed on. */
export interface LogSink {
  readonly terminal: boolean
  write(lines: string): void
  waiting(): number
}

export interface LogParts {
  readonly sink: LogSink
  readonly clock: () => number
  /** Secrets that this process holds: they are replaced wherever they turn up. */
  readonly secrets: readonly string[]
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const tapeLevels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** A reader of the log that has stopped reading costs lines, never memory: past this much they are counted only. */
const maxWaitingBytes = 4 * 1024 * 1024

/**
 * The log of one gateway. It uses LogTape's formatters and not its registry of loggers, which is one for the whole
 * process: two gateways in one test would write into each other's log.
 */
export function createLog(settings: LogSettings, { sink, clock, secrets }: LogParts): Log {
  const redactor = createRedactor({ secrets, prompts: settings.prompts })
  const format = formatterFor(settings.format, sink.terminal)
  const least = ranks[settings.level]
  let lost = 0

  function emit(level: LogLevel, message: string, fields: LogFields): void {
    if (sink.waiting() > maxWaitingBytes) {
      lost++
      return
    }
    if (lost > 0) {
      const lines = lost
      lost = 0
      emit('warn', 'log lines were dropped: the reader of the log is too slow', { lines })
    }
    const clean = redactor.text(message)
    const properties = redactor.value(fields)
    const record: LogRecord = {
      category: ['weir'],
      level: tapeLevels[level],
      message: [clean],
      rawMessage: clean,
      timestamp: clock(),
      properties: isFields(properties) ? properties : { fields: properties },
    }
    sink.write(format(record))
  }

  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      if (ranks[level] >= least) emit(level, message, fields)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** How long lines wait for others, milliseconds, and how many characters of them at the most. */
const gatherMs = 10
const gatheredAtMost = 65_536

/**
 * Standard error as a sink. The lines of a few milliseconds are written together, as a write costs more than making a
 * line; the last ones are written when the process ends.
 */
export function standardErrorSink(): LogSink {
  const { stderr } = process
  let gathered = ''
  const flush = () => {
    const lines = gathered
    gathered = ''
    if (lines !== '') stderr.write(lines)
  }
  process.once('exit', () => {
    // The stream may not get to write any more.
    if (gathered !== '') writeSync(stderr.fd, gathered)
  })
  return {
    terminal: stderr.isTTY === true,
    write: (lines) => {
      if (gathered === '') setTimeout(flush, gatherMs)
      gathered += lines
      if (gathered.length > gatheredAtMost) flush()
    },
    waiting: () => stderr.writableLength + gathered.length,
  }
}

function formatterFor(format: LogSettings['format'], terminal: boolean): TextFormatter {
  const pretty = format === 'pretty' || (format === 'auto' && terminal)
  if (!pretty) return getJsonLinesFormatter({ properties: 'nest:fields' })
  return getAnsiColorFormatter({
    timestamp: 'time',
    level: 'FULL',
    format: ({ timestamp, level, message, record }) =>
      `${timestamp} ${level} ${message}${oneLine(record.properties)}`,
  })
}

function oneLine(properties: LogFields): string {
  const { stack, ...rest } = properties
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  return `${fields.length === 0 ? '' : `  ${fields.join(' ')}`}${typeof stack === 'string' ? `\n${stack}` : ''}`
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
