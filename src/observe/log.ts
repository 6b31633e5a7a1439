// The log: JSON lines (or pretty ones in a terminal) on stderr, without secrets.

import { writeSync } from 'node:fs'
import { getAnsiColorFormatter } from '@logtape/logtape'
import { createRedactor } from './redact.ts'

export type LogFields = Readonly<Record<string, unknown>>

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** `message` is a fixed sentence; variable parts go into `fields`. Calls below the level cost one comparison. */
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

/** The destination of lines. `waiting`: bytes accepted but not yet written. */
export interface LogSink {
  readonly terminal: boolean
  /** `line` is made when it is written: a call does not wait for the text of its line. Never throws. */
  write(line: () => string): void
  waiting(): number
}

export interface LogParts {
  readonly sink: LogSink
  readonly clock: () => number
  /** Secrets of this process, replaced wherever they occur. */
  readonly secrets: readonly string[]
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const tapeLevels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** If the log's reader is stuck, lines beyond this many bytes are dropped and counted. */
const maxWaitingBytes = 4 * 1024 * 1024

/**
 * The log of one gateway. Uses LogTape's formatters but not its global registry of loggers: two gateways in one test
 * would write into each other's log.
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
    const at = clock()
    sink.write(() => {
      const clean = redactor.text(message)
      const properties = redactor.value(fields)
      return format(level, clean, isFields(properties) ? properties : { fields: properties }, at)
    })
  }

  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      if (ranks[level] >= least) emit(level, message, fields)
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** How long lines are gathered, milliseconds, and the most of them. */
const gatherMs = 10
const gatheredAtMost = 200
/** What counts for one that is not written yet; that of a call is as long. */
const usualLineBytes = 400

/**
 * Standard error as a sink. Lines are gathered for a few milliseconds, because writing costs more than formatting; the
 * last ones are written when the process ends.
 */
export function standardErrorSink(): LogSink {
  const { stderr } = process
  let gathered: (() => string)[] = []
  const takeLines = () => {
    const lines = gathered
    gathered = []
    return lines.map((line) => line()).join('')
  }
  const flush = () => {
    if (gathered.length > 0) stderr.write(takeLines())
  }
  process.once('exit', () => {
    // The stream may not be able to write any more.
    if (gathered.length > 0) writeSync(stderr.fd, takeLines())
  })
  return {
    terminal: stderr.isTTY === true,
    write: (line) => {
      if (gathered.length === 0) setTimeout(flush, gatherMs)
      if (gathered.push(line) >= gatheredAtMost) flush()
    },
    waiting: () => stderr.writableLength + gathered.length * usualLineBytes,
  }
}

/** Formats a line; `at` is in milliseconds since 1970. */
type LineFormat = (level: LogLevel, message: string, fields: LogFields, at: number) => string

function formatterFor(format: LogSettings['format'], terminal: boolean): LineFormat {
  const pretty = format === 'pretty' || (format === 'auto' && terminal)
  return pretty ? prettyLines() : jsonLines()
}

function prettyLines(): LineFormat {
  const format = getAnsiColorFormatter({
    timestamp: 'time',
    level: 'FULL',
    format: ({ timestamp, level, message, record }) =>
      `${timestamp} ${level} ${message}${oneLine(record.properties).replace(terminalControls, escapeControl)}`,
  })
  return (level, message, properties, timestamp) =>
    format({
      category: ['weir'],
      level: tapeLevels[level],
      message: [message],
      rawMessage: message,
      timestamp,
      properties,
    })
}

/** JSON lines. Every call writes one, and its fields are JSON already: LogTape's way takes four times as long. */
function jsonLines(): LineFormat {
  // Under load several calls end in the same millisecond.
  let shown = { at: 0, time: new Date(0).toISOString() }
  return (level, message, fields, at) => {
    if (at !== shown.at) shown = { at, time: new Date(at).toISOString() }
    const head = `"@timestamp":"${shown.time}","level":"${shownLevels[level]}","message":${JSON.stringify(message)}`
    const line = `{${head},"logger":"weir","fields":${JSON.stringify(fields)}}`
    return `${line.replace(terminalControls, escapeControl)}\n`
  }
}

const shownLevels: Readonly<Record<LogLevel, string>> = {
  debug: 'DEBUG',
  info: 'INFO',
  warn: 'WARN',
  error: 'ERROR',
}

/** Controls but tabs and line breaks: a terminal that shows the log would obey them. */
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const terminalControls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function oneLine(properties: LogFields): string {
  const { stack, ...rest } = properties
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  return `${fields.length === 0 ? '' : `  ${fields.join(' ')}`}${typeof stack === 'string' ? `\n${stack}` : ''}`
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
